"""Several rollouts of one task: the same context, distinct samples, one extraction; cut off anywhere, and resumed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import LoopStopped
from rbank_es.events import (
    ContextBuilt,
    LmCalled,
    MemoriesExtracted,
    MemoriesRetrieved,
    RunFinished,
    RunJudged,
    RunStarted,
)
from rbank_es.loop.closed_loop import run_matts_parallel
from rbank_es.policies.admission import PROPOSED_BY
from tests.loop.loops import HEIGHT, TASKS, TOWER, CutOff, cut_off, learnt, local, looped, quick, scripted, source
from tests.loop.test_closed_loop import of_type
from tests.sandbox.sandboxes import require_dspy

require_dspy()

TASK = TASKS[0]


def attempt(rollout: int, query: str, answer: str, success: bool, steps: int = 1) -> str:
    """The turns of one rollout."""
    more = "".join(
        f'[[task.agent]]\nrollout = {rollout}\nreasoning = "Look."\ncode = "print({n})"\n\n' for n in range(steps - 1)
    )
    return f"""{more}
[[task.agent]]
rollout = {rollout}
reasoning = "Ask."
code = '''
found = sparql_query({query!r})
SUBMIT(answer={answer!r}, sparql={query!r}, evidence={{}})
'''

[[task.judge]]
rollout = {rollout}
fields = {{ success = {str(success).lower()}, reason = "rollout {rollout}" }}
"""


def items(title: str, content: str) -> str:
    return f"""
[[task.extractor]]
[[task.extractor.fields.memory_items]]
title = {title!r}
description = "d"
content = {content!r}
"""


SCRIPT = (
    '[[task]]\nid = "height"\n'
    + attempt(0, TOWER, "49 metres", False)
    + attempt(1, HEIGHT, "45 metres", True, steps=3)
    + attempt(2, HEIGHT, "It stands 45 metres high.", True)
    + items("Focal heights, not heights of towers", "Successes used lt:focalHeight.")
    + items("Name the light, then ask for its property", "Both matched lt:name.")
)


def test_all_are_judged_the_best_is_selected_and_comparing_them_teaches(tmp_path: Path) -> None:
    with quick(tmp_path / "bank") as bank:
        result = run_matts_parallel(TASK, bank, scripted(tmp_path, SCRIPT), source(), k=3, interpreters=local)
        spread = result.spread
        assert (
            spread is not None and result.verdict == "success" and result.run.endswith(".r2") and result.iterations == 1
        )
        assert spread.pass_at_1 == pytest.approx(2 / 3) and spread.pass_at_k and spread.best_of_n
        assert spread.scored_pass_at_1 == pytest.approx(2 / 3) and spread.scored_best_of_n
        assert spread.diversity is not None and 0 < spread.diversity < 1 and spread.diversity_of == "sparql"
        assert len(of_type(bank, RunJudged)) == 6


@pytest.mark.slow
def test_comparing_is_chosen_by_the_settings(tmp_path: Path) -> None:
    """Contrastive: what sets successes apart, then what they share. Best: of the best one alone."""
    with quick(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path, SCRIPT, rollouts=3, extract_from="contrastive"), [TASK])
        kinds = [event.kind for event in of_type(bank, MemoriesExtracted) if event.extractor not in PROPOSED_BY]
        assert kinds == ["contrastive", "pattern"] and len(learnt(bank)) >= 2
        bank.check(retrievals=True)
    with quick(tmp_path / "other") as bank:
        looped(bank, scripted(tmp_path, SCRIPT, rollouts=3, extract_from="best"), [TASK])
        assert [event.kind for event in of_type(bank, MemoriesExtracted)][0] == "success"


@pytest.mark.slow
def test_rollouts_get_the_same_context_and_tell_their_samples_apart(tmp_path: Path) -> None:
    with quick(tmp_path / "bank") as bank:
        looped(bank, scripted(tmp_path, SCRIPT, rollouts=3, perturbation="prefix"), [TASK])
        contexts = {event.texts for event in of_type(bank, ContextBuilt)}
        hits = {(event.polarity, event.hits) for event in of_type(bank, MemoriesRetrieved)}
        assert len(contexts) == 1 and len(hits) == 2
        started = of_type(bank, RunStarted)
        assert [event.rollout_index for event in started] == [0, 1, 2]
        assert len({event.rollout_group for event in started}) == 1
        asked = [event for event in of_type(bank, LmCalled) if event.role == "agent"]
        assert {event.parameters["rollout_id"] for event in asked} == {0, 1, 2}
        assert len({event.request for event in asked if event.step == 1}) == 3


@pytest.mark.slow
def test_rollouts_run_at_once(tmp_path: Path) -> None:
    """Each waits until all have begun."""
    barrier = threading.Barrier(3, timeout=30)

    def together() -> Any:
        barrier.wait()
        return local()

    with quick(tmp_path / "bank") as bank:
        [result] = looped(bank, scripted(tmp_path, SCRIPT, rollouts=3), [TASK], interpreters=together)
        assert len(result.runs) == 3


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, object]]:
    """Three rollouts that nobody interrupts: their groups, and the items that they taught."""
    place = tmp_path_factory.mktemp("whole")
    with quick(place / "bank") as bank:
        counted = cut_off(bank, 10_000)
        looped(counted, scripted(place, SCRIPT, rollouts=3, extract_from="contrastive"), [TASK])
        return counted.log.count, {**learnt(bank)}  # type: ignore[attr-defined]


GROUPS = 29
"""Groups of three rollouts."""
QUICK = (2, 16)


@pytest.mark.parametrize(
    "after", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in range(1, GROUPS + 1)]
)
def test_cut_off_rollouts_are_run_again_and_the_others_are_kept(
    tmp_path: Path, whole: tuple[int, dict[str, object]], after: int
) -> None:
    """However far they had got: in the end each counts once, all are judged, and one extraction was made of them."""
    settings, place = scripted(tmp_path, SCRIPT, rollouts=3, extract_from="contrastive"), tmp_path / "bank"
    with quick(place) as bank, pytest.raises(CutOff):
        looped(cut_off(bank, after), settings, [TASK])
    with Bank.open(place) as bank:
        assert whole[0] == GROUPS
        kept = {event.run for event in of_type(bank, RunFinished) if event.error_code is None}
        [result] = looped(bank, settings, [TASK])
        assert kept <= set(result.runs) and len(result.runs) == 3
        assert result.spread is not None and result.spread.pass_at_1 == pytest.approx(2 / 3)
        judged = [event.run for event in of_type(bank, RunJudged) if event.purpose == "learning"]
        assert sorted(judged) == sorted(result.runs)
        kinds = [event.kind for event in of_type(bank, MemoriesExtracted) if event.extractor not in PROPOSED_BY]
        assert kinds == ["contrastive", "pattern"] and learnt(bank) == whole[1]
        bank.check(retrievals=True)
        assert looped(bank, settings, [TASK])[0].how == "known"


@pytest.mark.slow
def test_ctrl_c_ends_all_rollouts_and_the_next_loop_takes_up_those_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two that wait for a model that doesn't answer are left; from then on nothing of them is recorded."""
    settings = scripted(tmp_path, SCRIPT, rollouts=3)
    release, waiting = threading.Event(), threading.Semaphore(0)

    def stuck() -> Any:
        waiting.release()
        release.wait(30)
        return local()

    def interrupted(self: threading.Thread, timeout: float | None = None) -> None:
        for _ in range(3):
            assert waiting.acquire(timeout=30)
        raise KeyboardInterrupt

    with quick(tmp_path / "bank") as bank:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(threading.Thread, "join", interrupted)
            looped(bank, settings, [TASK], interpreters=stuck)
        position = bank.position
        threads = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
        release.set()
        for thread in threads:
            thread.join(60)
        assert bank.position == position
        [result] = looped(bank, settings, [TASK])
        assert result.verdict == "success" and len(result.runs) == 3 and all(run.endswith("-2") for run in result.runs)
        ends = [event.error_code for event in of_type(bank, RunFinished)]
        assert ends.count("interrupted") == 3 and len(ends) == 6


@pytest.mark.slow
def test_a_rollout_that_departs_from_its_script_stops_the_loop_after_the_others_ended(tmp_path: Path) -> None:
    wrong = SCRIPT.replace('rollout = 1\nreasoning = "Ask."', 'rollout = 1\nstep = 9\nreasoning = "Ask."')
    with quick(tmp_path / "bank") as bank:
        with pytest.raises(LoopStopped, match="script_mismatch"):
            looped(bank, scripted(tmp_path, wrong, rollouts=3), [TASK])
        assert len(of_type(bank, RunFinished)) == 3
        [result] = looped(bank, scripted(tmp_path, SCRIPT, rollouts=3), [TASK])
        assert len(result.runs) == 3 and result.verdict == "success"


LOOK = '[[task.agent]]\nrollout = 1\nreasoning = "Look."'


def test_a_rollout_that_says_nothing_of_the_agent_is_left_out_of_all_figures(tmp_path: Path) -> None:
    """Its model was too slow: the others are judged, compared and learnt from, and what became of it is told."""
    crashed = SCRIPT.replace(LOOK, f'[[task.agent]]\nrollout = 1\nerror = "timeout"\n\n{LOOK}', 1)
    settings = scripted(tmp_path, crashed, rollouts=3, extract_from="contrastive")
    with quick(tmp_path / "bank") as bank:
        [result] = looped(bank, settings, [TASK])
        spread = result.spread
        assert spread is not None and spread.rollouts == 2 and result.verdict == "success" and not result.undone
        assert (spread.pass_at_1, spread.scored_pass_at_1, spread.diversity_of) == (0.5, 0.5, "sparql")
        [note] = result.notes
        assert note.startswith("rollout 1 failed (timeout) and is left out")
        assert [event.kind for event in of_type(bank, MemoriesExtracted)][0] == "contrastive"
        assert looped(bank, settings, [TASK])[0].notes == result.notes


@pytest.mark.slow
def test_a_task_is_undone_where_no_rollout_says_anything_of_the_agent(tmp_path: Path) -> None:
    """The next loop runs all of them anew."""
    turns = "".join(f'[[task.agent]]\nrollout = {index}\nerror = "timeout"\n' for index in range(3))
    with quick(tmp_path / "bank") as bank:
        [result] = looped(bank, scripted(tmp_path, f'[[task]]\nid = "height"\n{turns}', rollouts=3), [TASK])
        assert result.undone and result.spread is None and result.error_code == "timeout"
        [again] = looped(bank, scripted(tmp_path, SCRIPT, rollouts=3), [TASK])
        assert again.verdict == "success" and not again.undone and len(again.runs) == 3
