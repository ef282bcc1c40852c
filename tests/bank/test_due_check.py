"""Asking whether a correction is due: from read models where they are at the head, from the log where they aren't."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.events import RunJudged, RunStarted


def judgment(verdict: str) -> RunJudged:
    """A person's judgment on the only run."""
    return RunJudged(run="r1", purpose="learning", verdict=verdict, judge="j", judge_version="1", kind="human")  # type: ignore[arg-type]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A bank with an item that rests on a verdict, and with read models of the head."""
    with Bank.create(tmp_path / "bank") as bank:
        bank.append([RunStarted(run="r1"), judgment("success")])
        bank.remember("Ask for its classes first", "List classes before a query.", src="success", runs=("r1",))
        bank.append([RunStarted(run=f"other {number}") for number in range(30)])
        bank.project()
    return tmp_path / "bank"


def test_with_read_models_at_the_head_or_nearly_no_state_is_folded_to_find_nothing_due(place: Path) -> None:
    with Bank.open(place) as bank:
        assert bank.correct().last_seq is None and bank.latest.is_empty()
        bank.append(RunStarted(run="r2"))
        assert bank.correct().last_seq is None and bank.latest.is_empty()
