"""What a loop can be given so that its log comes out the same every time: a clock, an origin, rollouts in turn."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import LoopStopped, SandboxUnavailable
from rbank_es.events import LmCalled, RunJudged, RunStarted
from rbank_es.loop import run_closed_loop
from tests.loop.loops import TASKS, local, looped, quick, scripted, source
from tests.loop.test_closed_loop import of_type
from tests.loop.test_matts import SCRIPT as ROLLOUTS
from tests.sandbox.sandboxes import require_dspy

require_dspy()


class Counted:
    """Stands in for the sandboxes of a loop: code runs in this process, and how many are needed is noted."""

    unavailable = None
    needed: list[int | None] = []

    def __init__(self, *_: object, needed: int | None) -> None:
        self.needed.append(needed)

    def __call__(self) -> Any:
        return local()

    def __enter__(self) -> Counted:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def needed(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """How many sandboxes each loop says that it needs."""
    monkeypatch.setattr("rbank_es.loop.resources.Sandboxes", Counted)
    monkeypatch.setattr("rbank_es.loop.resources.check", lambda *_, **__: None)
    monkeypatch.setattr(Counted, "needed", [])
    return Counted.needed


@pytest.mark.slow
def test_no_more_sandboxes_are_begun_than_there_are_runs_to_come(tmp_path: Path, needed: list[int | None]) -> None:
    """Tasks that are done need none, and a loop that only shows them begins none."""
    settings = scripted(tmp_path)
    with quick(tmp_path / "bank") as bank:
        for tasks in (TASKS[:1], TASKS, TASKS):
            run_closed_loop(tasks, bank, settings, source())
        assert needed == [1, 1]
        run_closed_loop(TASKS, bank, settings, source(), again=True)
        run_closed_loop(TASKS[:1], bank, scripted(tmp_path, ROLLOUTS, rollouts=3), source())
        assert needed == [1, 1, 2, 3]


def test_a_loop_that_gets_no_sandbox_stops_with_the_reason_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an error with its parts, whatever its words are."""
    reason, fix = "it does not start (gone; twice)", "see: rbank-es doctor"

    def start(_: object) -> None:
        raise SandboxUnavailable("broken", reason, fix)

    monkeypatch.setattr("rbank_es.sandbox.sandbox_pool.start_session", start)
    monkeypatch.setattr("rbank_es.loop.resources.check", lambda *_, **__: None)
    with quick(tmp_path / "bank") as bank, pytest.raises(LoopStopped, match="goes on from here") as caught:
        run_closed_loop(TASKS, bank, scripted(tmp_path), source())
    cause = caught.value.cause
    assert isinstance(cause, SandboxUnavailable)
    assert (cause.code, cause.reason, cause.fix) == ("broken", reason, fix)


@pytest.mark.slow
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
    return {point.position for point in bank.read_models().checkpoints().values()}


@pytest.mark.slow
def test_contexts_and_judges_read_read_models_that_were_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each would copy the whole file into memory to bring the copy up to date."""
    copies: list[object] = []
    monkeypatch.setattr("rbank_es.projections.builder.in_memory", copies.append)
    with quick(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path), TASKS)
        (position,) = read_models(bank)
        assert position > of_type(bank, RunStarted)[-1].seq
    assert not copies


def test_without_procedures_nothing_reads_the_read_models(tmp_path: Path) -> None:
    with quick(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path, layers=("L0", "L1"), judge="checks"), TASKS[:1])
        assert read_models(bank) == set()
