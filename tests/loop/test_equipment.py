"""What a loop can be given so that its log comes out the same every time: a clock, an origin, rollouts in turn."""

from __future__ import annotations

import itertools
from pathlib import Path

from rbank_es.bank import PROJECTIONS, Bank
from rbank_es.events import LmCalled, RunFinished, RunJudged, RunStarted, ToolCalled
from rbank_es.projections.read_models import ReadModels
from tests.executors.sandboxes import require_dspy
from tests.loop.loops import TASKS, looped, quick, scripted
from tests.loop.test_closed_loop import of_type
from tests.loop.test_matts import SCRIPT as ROLLOUTS

require_dspy()


def test_durations_are_told_by_the_clock_that_is_given(tmp_path: Path) -> None:
    """A clock that goes on by a second whenever it is read: a call takes one, a run all that were read in it."""
    ticks = itertools.count()
    with quick(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path), TASKS[:1], clock=lambda: float(next(ticks)))
        assert {event.duration_s for event in of_type(bank, LmCalled)} == {1.0}
        assert {event.duration_s for event in of_type(bank, ToolCalled)} == {1.0}
        calls = len(of_type(bank, ToolCalled)) + sum(event.role == "agent" for event in of_type(bank, LmCalled))
        assert [event.duration_s for event in of_type(bank, RunFinished)] == [2 * calls + 1]


def test_which_code_runs_is_recorded_as_it_is_given(tmp_path: Path) -> None:
    with quick(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path), TASKS[:1], origin=lambda: {"release": "7.0", "commit": None})
        [started] = of_type(bank, RunStarted)
        assert (started.release, started.commit) == ("7.0", None)


def test_rollouts_run_one_after_the_other_where_that_is_chosen(tmp_path: Path) -> None:
    """Each is run and judged before the next takes a step."""
    with quick(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path, ROLLOUTS, rollouts=3), TASKS[:1], at_once=False)
        started = [event.run for event in of_type(bank, RunStarted)]
        judged = [event for event in of_type(bank, RunJudged) if event.purpose == "learning"]
        assert [event.run for event in judged] == started
        for verdict, following in itertools.pairwise([*judged, None]):
            assert verdict is not None
            asked = [event for event in of_type(bank, LmCalled) if event.run == verdict.run and event.role == "agent"]
            assert max(event.seq for event in asked) < verdict.seq
            if following is not None:
                later = [event for event in of_type(bank, LmCalled) if event.run == following.run]
                assert min(event.seq for event in later) > verdict.seq


def read_models(bank: Bank) -> set[int]:
    """The positions of a bank's read models."""
    return {point.position for point in ReadModels.open(bank.log.folder / PROJECTIONS).checkpoints().values()}


def test_contexts_are_read_from_read_models_that_were_brought_up_to_date(tmp_path: Path) -> None:
    """Else each context would copy the whole file into memory to bring the copy up to date."""
    with quick(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path), TASKS)
        assert read_models(bank) == {of_type(bank, RunStarted)[-1].seq - 1}


def test_without_procedures_nothing_reads_the_read_models(tmp_path: Path) -> None:
    with quick(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path, layers=("L0", "L1")), TASKS[:1])
        assert read_models(bank) == set()
