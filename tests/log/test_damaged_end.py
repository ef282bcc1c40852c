"""A log whose acknowledged end is damaged: every way to read it says so, whatever part of it is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.errors import InterruptedAppend, LogCorruption
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import note
from tests.places import damage, filled


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A bank of one group more, whose acknowledged bytes were changed."""
    return damage(filled(tmp_path / "b", 20))


@pytest.mark.parametrize(
    "part", [{}, {"upto": 22}, {"upto": 22, "types": {"run_started"}}, {"run": "r3"}, {"after": 4, "upto": 6}]
)
def test_a_part_that_is_acknowledged_and_damaged_is_reported_not_left_out(damaged: Path, part: Any) -> None:
    with Bank.open(damaged) as bank, pytest.raises(LogCorruption):
        list(bank.log.read(**part))


def test_read_models_are_not_brought_past_it(damaged: Path) -> None:
    with Bank.open(damaged) as bank:
        with pytest.raises(LogCorruption):
            bank.project()
        with pytest.raises(LogCorruption):
            bank.as_of()
        assert bank.read_models().checkpoints() == {}
        assert [event.seq for event in bank.log.read(upto=2)] == [1, 2]


def test_witnesses_are_asked_only_before_bytes_are_cut_off_and_then_keep_them(tmp_path: Path) -> None:
    """To ask takes milliseconds; whoever knows of a later position says that the remains were events."""
    place, asked = filled(tmp_path / "b", 3), list[str]()

    def append(text: str, knows: int) -> int:
        def witness() -> int:
            asked.append(text)
            return knows

        with FileLog.open(place) as log:
            log.add_witness(witness)
            return log.append([note(text)]).last

    last = append("whole", 99)
    assert append("whole again", 99) == last + 1 and not asked
    [segment] = place.glob("*.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"seq":')
    torn = segment.read_bytes()
    with pytest.raises(LogCorruption):
        append("refused", 99)
    assert segment.read_bytes() == torn and set(asked) == {"refused"}
    with pytest.warns(InterruptedAppend):
        assert append("cut off", last + 1) > last + 1
    assert "cut off" in asked
