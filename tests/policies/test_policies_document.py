"""`docs/policies.md` has every policy with its settings, defaults and meanings, as the registry has them."""

from __future__ import annotations

import inspect
from pathlib import Path

import msgspec

from rbank_es.policies import POLICIES
from rbank_es.policies.policy_registry import DEFAULTS

OURS = [name for name in POLICIES.names() if POLICIES.package_of(name) is None]
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "policies.md"


def section(name: str) -> str:
    """The section about one policy. To make them again: `python -m tests.policies.test_policies_document`."""
    kind, _, label = name.partition(":")
    found = POLICIES.get(name)
    default = " (default)" if (found.name, found.version) == DEFAULTS[found.kind] else ""
    said = (inspect.getdoc(found) or "").partition("\n\n")[0].replace("\n", " ")
    rows = [
        f"| `{each.name}` | `{msgspec.json.encode(each.default).decode()}` | {each.meaning} |"
        for each in found.described()
    ]
    table = ["", "| setting | default | meaning |", "|---|---|---|", *rows] if rows else []
    return "\n".join([f"### {kind}: `{label}`{default}", "", said, *table]) + "\n"


def test_every_policy_is_documented_as_it_is() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    missing = [name for name in OURS if section(name) not in text]
    assert not missing, "print the sections with: python -m tests.policies.test_policies_document"
    assert text.count("\n### ") == len(OURS)


if __name__ == "__main__":
    print("\n".join(section(name) for name in OURS))
