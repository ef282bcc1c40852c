"""Write tests/answers/golden/: the names and types of every question's parameters and answer, by its version.

    python -m tests.answers.make_golden                 after a question is new, or its version was raised
    python -m tests.answers.make_golden --unreleased    also where no release has the version yet

A test compares them, so no name or type changes without the version of its question.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rbank_es.answers import QUESTIONS
from rbank_es.answers.shared.answer_schema import answer_schema

FOLDER = Path(__file__).resolve().parent / "golden"


def shape_of(name: str) -> dict[str, Any]:
    """Return the version of a question, and the type of each field by the name of its struct."""
    schema = answer_schema(name)
    definitions = schema["$defs"]
    return {
        "version": schema["version"],
        "parameters": _type(schema["parameters"], definitions),
        "answer": _type(schema["answer"], definitions),
        **{
            struct: {field: _type(form, definitions) for field, form in each["properties"].items()}
            for struct, each in sorted(definitions.items())
            if "properties" in each
        },
    }


def _type(form: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return a type in a few characters: `[RunRow]`, `string | null`, `success | failure`."""
    if "$ref" in form:
        name = str(form["$ref"]).removeprefix("#/$defs/")
        return name if "properties" in definitions[name] else _type(definitions[name], definitions)
    return " | ".join(_kinds(form, definitions))


def _kinds(form: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    if "anyOf" in form:
        for each in form["anyOf"]:
            yield _type(each, definitions)
    elif "enum" in form:
        yield from ("null" if each is None else repr(each) for each in form["enum"])
    elif form.get("type") == "array":
        inner = form.get("prefixItems") or [form.get("items") or {}]
        yield f"[{', '.join(_type(each, definitions) for each in inner)}]"
    elif form.get("type") == "object":
        values = form.get("additionalProperties")
        yield f"{{string: {_type(values, definitions)}}}" if isinstance(values, Mapping) else "object"
    else:
        yield form.get("type", "any")


def golden(name: str) -> dict[str, Any] | None:
    """Return what is written of a question; None for a new one."""
    place = FOLDER / f"{name}.json"
    return json.loads(place.read_text()) if place.exists() else None


def complaint(name: str) -> str | None:
    """Return what has to be done because of a question's names and types; None if they are as written."""
    now, written = shape_of(name), golden(name)
    if now == written:
        return None
    renew = "run python -m tests.answers.make_golden"
    if written is None or now["version"] > written["version"]:
        return f"{name} is new in version {now['version']}: {renew}"
    changed = {key for key in now.keys() | written.keys() if now.get(key) != written.get(key)}
    return (
        f"{name}: names or types changed in {', '.join(sorted(changed))}: raise its version above "
        f"{written['version']} and {renew}; or add --unreleased where no release has that version"
    )


def main(unreleased: bool) -> int:
    """Write what is new; return 1 if a version must be raised first."""
    FOLDER.mkdir(exist_ok=True)
    for place in FOLDER.glob("*.json"):
        if place.stem not in QUESTIONS:
            place.unlink()
    refused = []
    for name in QUESTIONS.names():
        said = complaint(name)
        if said is not None and "raise" in said and not unreleased:
            refused.append(said)
        elif said is not None:
            (FOLDER / f"{name}.json").write_text(json.dumps(shape_of(name), indent=1) + "\n")
    print("\n".join(refused) or "as the questions are")
    return bool(refused)


if __name__ == "__main__":
    sys.exit(main("--unreleased" in sys.argv[1:]))
