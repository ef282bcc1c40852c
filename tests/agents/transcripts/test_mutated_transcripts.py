"""A law: whatever stands in the fields of a transcript, a reader gives runs, refusals or a refusal of the file."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.errors import BadImport
from rbank_es.exchange.importer import IMPORTERS
from tests.effort import examples

SAMPLES = Path(__file__).parent / "samples"
FILES = {
    "claude-code": "claude-code/projects/-srv-shop/11111111-0000-4000-8000-000000000001.jsonl",
    "codex": "codex/sessions/2026/11/20/rollout-2026-11-20T10-00-00-019fd000-0000-7000-8000-000000000001.jsonl",
    "gemini-cli": "gemini-cli/tmp/shop/chats/session-2026-11-20T11-00-33333333.jsonl",
    "atif": "atif/shop-fix__abc1234/agent/trajectory.json",
}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside of a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, each in inner for found in [(*path, key), *places(each, (*path, key))]]


def put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    for key in path[:-1]:
        if not isinstance(value, dict | list):
            return
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(value, dict) or (isinstance(value, list) and isinstance(path[-1], int) and path[-1] < len(value)):
        value[path[-1]] = new


@pytest.mark.parametrize("form", FILES)
@given(data=st.data())
@settings(max_examples=examples(400), deadline=None)
def test_a_reader_never_breaks(form: str, data: st.DataObject) -> None:
    text = (SAMPLES / FILES[form]).read_text()
    lines = [json.loads(text)] if form == "atif" else [json.loads(line) for line in text.splitlines()]
    for _ in range(data.draw(st.integers(1, 4))):
        line = data.draw(st.sampled_from(lines))
        if found := places(line):
            put(line, data.draw(st.sampled_from(found)), data.draw(values))
    raw = "".join(json.dumps(line) + "\n" for line in lines).encode("utf-8", "replace")
    try:
        parsed = IMPORTERS.get(form).parse("session.jsonl", BytesIO(raw).getvalue())
    except BadImport as refused:
        assert "session.jsonl" in str(refused)
        return
    assert parsed.units or parsed.notes
    assert all(unit.size for unit in parsed.units)
