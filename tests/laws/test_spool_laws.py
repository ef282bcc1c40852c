"""Laws of a spool: whatever stands in it, what a hook wrote comes in whole, and the rest is told or left out."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es import Bank
from rbank_es.agents.spool_intake import take_spool_in
from rbank_es.agents.spooled_turns import Line
from rbank_es.events import RunFinished, RunStarted, ToolCalled
from tests.agents.hook_banks import live_in, spool
from tests.effort import examples

AT = time.time()
WHOLE: list[Line] = [
    {"kind": "prompt", "id": "whole", "session": "own", "host": "claude-code", "prompt": "Round it."},
    {"kind": "tool", "id": "t", "session": "own", "key": "own-t", "tool": "Bash", "call": "c", "result": "ok", "ms": 3},
    {"kind": "stop", "id": "e", "session": "own", "key": "own-e", "answer": "Rounded."},
]
LIKE: list[Line] = [
    *({**line, "session": "s", "id": f"s{number}", "key": f"s{number}"} for number, line in enumerate(WHOLE)),
    {
        "kind": "recall",
        "id": "r",
        "of": "s0",
        "position": 1,
        "mark": "m",
        "items": ["i"],
        "text": "t",
        "retrievals": [],
    },
    {"kind": "failure", "id": "f", "session": "s", "key": "f", "error": "no"},
    {"kind": "note", "id": "n", "of": "s0", "why": "late"},
]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
changes = st.dictionaries(st.sampled_from(sorted({key for line in LIKE for key in line} | {"at", "cwd"})), values)
strange = st.one_of(
    st.tuples(st.sampled_from(LIKE), changes).map(lambda drawn: json.dumps(line_of(drawn[0]) | drawn[1]).encode()),
    st.binary(max_size=40).filter(lambda data: b"\n" not in data),
    st.sampled_from([b"\0" * 99, b"[" * 9_999, b'{"v": 1, "id": "x', b"\xff\xfe{}", b"7" * 9_999, b"{" * 300_000]),
)


def line_of(line: Line) -> Line:
    return {"v": 1, "at": AT, **line}


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(others=st.lists(strange, max_size=12), data=st.data())
def test_a_turn_comes_in_whole_whatever_stands_around_it(others: list[bytes], data: st.DataObject) -> None:
    places = sorted(data.draw(st.integers(0, len(others))) for _ in WHOLE)
    lines = list[bytes]()
    for number in range(len(others) + 1):
        lines += [
            json.dumps(line_of(line)).encode() for place, line in zip(places, WHOLE, strict=True) if place == number
        ]
        lines += others[number : number + 1]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        live_in(patch, Path(folder))
        place = Path(folder) / "bank"
        kept = spool(place)
        kept.folder.mkdir(parents=True, mode=0o700)
        (kept.folder / "spool.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        (kept.folder / "spool.jsonl").chmod(0o600)
        with Bank.create(place, unsafe_no_sync=True) as bank:
            taken = take_spool_in(bank)
            found: list[Any] = [each for each in bank.events(resolve=True) if getattr(each, "run", None)]
            [run] = [
                each.run
                for each in found
                if isinstance(each, RunStarted) and each.task == "Round it." and each.extra and '"own"' in each.extra
            ]
            [call] = [each for each in found if isinstance(each, ToolCalled) and each.run == run]
            [end] = [each for each in found if isinstance(each, RunFinished) and each.run == run]
            assert (call.tool, call.result, end.answer, end.outcome) == ("Bash", "ok", "Rounded.", "submitted")
            position = bank.position
            assert take_spool_in(bank).appended == 0 and bank.position == position
            assert len(kept.look()) == taken.waiting
            bank.check(decisions=True)
