"""Running experiments: one bank a trial, all from one fork point; cut off anywhere, the same call goes on."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, LoopStopped
from rbank_es.events import (
    ArtifactMaterialised,
    BankForked,
    ContextBuilt,
    ExperimentFinished,
    ExperimentStarted,
    RunJudged,
    RunStarted,
)
from rbank_es.lab.experiment_definition import parse_experiment
from rbank_es.lab.experiment_inputs import gather
from rbank_es.lab.experiment_plan import ordered_tasks, trials
from rbank_es.lab.experiment_run import run_experiment
from rbank_es.lab.task_suite import Suite
from rbank_es.log.file.file_log import FileLog
from rbank_es.loop.closed_loop import GOES_ON
from rbank_es.models.model_call import failed
from rbank_es.models.scripted_model import ScriptedModel
from tests.cli_runner import digest_of
from tests.lab.trials import FREE, materials, pair, ran, told
from tests.loop.loops import TASKS, CutOff
from tests.loop.test_closed_loop import of_type
from tests.loop.test_guide_run import SCRIPT as GUIDE_SCRIPT
from tests.sandbox.sandboxes import require_dspy

require_dspy()

PLACES = [Path("banks/without/o0-r0"), Path("banks/with/o0-r0")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an experiment that was run to its end without a cut; tests that change it take a copy."""
    place = tmp_path_factory.mktemp("whole")
    ran(materials(place), place / "run")
    return place / "run"


@contextmanager
def cut_after(monkeypatch: pytest.MonkeyPatch, groups: int) -> Iterator[None]:
    """The process ends as the log takes so many groups more: nothing is appended after that."""
    left = [groups]
    append = FileLog.append

    def counted(self: FileLog, *arguments: Any, **options: Any) -> Any:
        if left[0] <= 0:
            raise CutOff
        left[0] -= 1
        return append(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(FileLog, "append", counted)
        yield


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, *, after: int, times: int, code: str) -> Iterator[list[int]]:
    """Models that answer so many calls, and then fail so many; yields the number of the calls."""
    calls = [0]
    prepare = ScriptedModel.prepare

    def counted(self: ScriptedModel, question: Any) -> Any:
        answer = prepare(self, question)

        def attempt() -> Any:
            calls[0] += 1
            if after < calls[0] <= after + times:
                raise failed(code, "the provider is down")
            return answer()

        return attempt

    with monkeypatch.context() as patch:
        patch.setattr(ScriptedModel, "prepare", counted)
        yield calls


@pytest.mark.slow
def test_each_trial_is_a_bank_forked_from_one_base_and_its_log_names_experiment_task_and_suite(tmp_path: Path) -> None:
    given = materials(tmp_path, pair(2))
    outcomes = ran(given, tmp_path / "run", jobs=2)
    assert [each.trial for each in outcomes] == list(trials(given.experiment))
    assert all((each.runs, each.right, each.wrong, each.cuts) == (2, 1, 1, 0) for each in outcomes)
    bases = set()
    for outcome in outcomes:
        with Bank.open(tmp_path / "run" / outcome.place) as bank:
            [forked], [started], [finished] = (
                of_type(bank, kind) for kind in (BankForked, ExperimentStarted, ExperimentFinished)
            )
            runs, scores = of_type(bank, RunStarted), of_type(bank, RunJudged)
            bases.add((forked.parent, forked.parent_seq, forked.parent_digest))
            order = [task.id for task in ordered_tasks(TASKS, given.experiment.seed, outcome.trial.order)]
            assert [run.task_id for run in runs] == list(started.tasks) == order
            assert {run.trial for run in runs} == {started.trial} == {finished.trial} == {outcome.trial}
            suites = {run.suite for run in runs} | {each.suite for each in scores if each.purpose == "scoring"}
            assert suites | {started.suite, finished.suite} == {given.suite.digest}
            # A task never gets a lesson that was drawn from itself, unless a condition says otherwise.
            assert all(json.loads(str(run.settings))["leave_one_out"] for run in runs)
            layers = {layer for each in of_type(bank, ContextBuilt) for layer in (use.layer for use in each.layers)}
            assert ("L2" in layers) == (outcome.trial.condition == "with")
    assert len(bases) == 1
    recorded = (tmp_path / "run" / "experiment.toml").read_bytes()
    assert parse_experiment(recorded).to_toml().encode() == recorded
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["suite"] == given.suite.digest and environment["kind"].startswith("SCRIPTED")


@pytest.mark.slow
def test_an_experiment_that_is_finished_is_not_run_again_and_nothing_is_written(tmp_path: Path, whole: Path) -> None:
    before = digest_of(whole)
    outcomes = ran(materials(tmp_path), whole, model_for=None)
    assert [(each.runs, each.cuts) for each in outcomes] == [(2, 0)] * 2
    assert digest_of(whole) == before


@pytest.mark.slow
def test_a_folder_of_another_experiment_suite_or_other_things_is_refused(tmp_path: Path, whole: Path) -> None:
    given = materials(tmp_path)
    other = msgspec.structs.replace(given, suite=Suite.of("heights", TASKS[:1]))
    changed = msgspec.structs.replace(given, experiment=msgspec.structs.replace(given.experiment, seed=2))
    for wrong, said in (
        (other, "suite.json"),
        (changed, "experiment.toml has 'seed = 1', and this would be 'seed = 2'"),
    ):
        with pytest.raises(BadInput, match="holds another experiment") as refused:
            ran(wrong, whole)
        assert said in str(refused.value)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="holds notes.txt and no experiment"):
        ran(given, tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_a_bank_of_another_trial_in_the_place_of_one_is_refused(tmp_path: Path, whole: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    without, with_memory = (tmp_path / "run" / place for place in PLACES)
    with_memory.rename(tmp_path / "aside")
    without.rename(with_memory)
    with pytest.raises(BadInput, match="is the bank of another trial"):
        ran(materials(tmp_path), tmp_path / "run")


@pytest.mark.slow
def test_two_processes_do_not_run_one_experiment(tmp_path: Path, whole: Path) -> None:
    with (
        Bank.open(whole / "banks" / "base") as base,
        base.log.exclusive("experiment"),
        pytest.raises(BadInput, match="another process runs the experiment"),
    ):
        ran(materials(tmp_path), whole)


def _cut_and_gone_on(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, groups: int) -> bool:
    """Cut an experiment after so many groups, go on, and compare; return whether it was cut."""
    given, folder = materials(tmp_path), tmp_path / f"cut{groups}"
    try:
        with cut_after(monkeypatch, groups):
            ran(given, folder)
        return False
    except CutOff:
        pass
    outcomes = ran(given, folder)
    assert [msgspec.structs.replace(each, cuts=0) for each in outcomes] == list(ran(given, whole, model_for=None))
    for place in PLACES:
        assert told(folder / place) == told(whole / place)
    # What was cut off is kept, because its calls were paid for.
    assert sum(each.cuts for each in outcomes) == len([*folder.glob("cut/*/*")])
    return True


@pytest.mark.slow
def test_an_experiment_may_be_cut_off_after_any_group(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = 0
    while _cut_and_gone_on(tmp_path, whole, monkeypatch, groups):
        groups += 9
    assert groups > 30


@pytest.mark.slow
def test_it_may_be_cut_off_twice_in_one_task(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = materials(tmp_path)
    for groups in (7, 4):
        with pytest.raises(CutOff), cut_after(monkeypatch, groups):
            ran(given, tmp_path / "run")
    first, second = ran(given, tmp_path / "run")
    assert (first.cuts, second.cuts) == (2, 0)
    assert told(tmp_path / "run" / PLACES[0]) == told(whole / PLACES[0])


@pytest.mark.slow
@pytest.mark.parametrize(("code", "times"), [("rate_limited", 4), ("unreachable", 3)])
def test_a_model_that_fails_for_a_while_is_waited_for_and_changes_nothing(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, code: str, times: int
) -> None:
    given, waits = materials(tmp_path), list[float]()
    with failing(monkeypatch, after=9, times=times, code=code):
        outcomes = ran(given, tmp_path / "run", sleep=waits.append)
    assert waits == [5.0 * 2**number for number in range(times)][: len(waits)] and waits
    assert sum(each.cuts for each in outcomes) == len(waits)
    assert all(told(tmp_path / "run" / place) == told(whole / place) for place in PLACES)


@pytest.mark.slow
def test_a_model_that_fails_for_longer_stops_the_experiment_which_says_how_to_go_on_and_counts_nothing_by_half(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, waits = materials(tmp_path), list[float]()
    with failing(monkeypatch, after=9, times=10**6, code="unreachable"), pytest.raises(LoopStopped) as stopped:
        ran(given, tmp_path / "run", sleep=waits.append, patience_s=1_200.0)
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 285] and GOES_ON in str(stopped.value)
    with Bank.open(tmp_path / "run" / PLACES[1]) as bank:
        assert not of_type(bank, ExperimentFinished)
    ran(given, tmp_path / "run")
    assert all(told(tmp_path / "run" / place) == told(whole / place) for place in PLACES)


@pytest.mark.slow
def test_a_key_that_is_refused_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = list[float]()
    with failing(monkeypatch, after=2, times=10**6, code="wrong_key"), pytest.raises(LoopStopped, match="wrong_key"):
        ran(materials(tmp_path), tmp_path / "run", sleep=waits.append)
    assert waits == []


@pytest.mark.slow
def test_a_judge_whom_nobody_can_read_costs_the_verdict_and_not_the_trial(tmp_path: Path) -> None:
    broken = FREE.replace(
        'fields = { success = false, reason = "That is the height of the building." }',
        'text = "hm"\n[[task.judge]]\ntext = "hm"\n[[task.judge]]\ntext = "hm"',
    )
    waits = list[float]()
    outcomes = ran(materials(tmp_path, script=broken), tmp_path / "run", sleep=waits.append)
    assert [(each.right, each.wrong, each.successes, each.failures) for each in outcomes] == [(1, 1, 1, 0)] * 2
    assert waits == []


GUIDED = """\
name = "guided"
title = "t"
orders = 2
baseline = "none"
[shared]
executor = "scratchpad"
judge = "none"
seeds = ["lights"]
[[condition]]
name = "none"
[[condition]]
name = "all"
layers = ["L2", "L3"]
[condition.policies.retrieval]
k_success = 2
coverage = 0.0
share_of_best = 0.0
"""


@pytest.mark.slow
def test_a_guide_is_written_once_and_seeds_are_there_before_the_first_task(tmp_path: Path) -> None:
    given = materials(tmp_path, parse_experiment(GUIDED.encode()), FREE + GUIDE_SCRIPT)
    outcomes = ran(given, tmp_path / "run")
    with Bank.open(tmp_path / "run" / "banks" / "base") as base:
        [guide] = of_type(base, ArtifactMaterialised)
    assert guide.lm_calls == 2
    for outcome in outcomes:
        with Bank.open(tmp_path / "run" / outcome.place) as bank:
            assert of_type(bank, ArtifactMaterialised) == [guide] and bank.state().items
            layers = {use.layer: use for use in of_type(bank, ContextBuilt)[-1].layers}
            if outcome.trial.condition == "all":
                assert layers["L3"].chars and len(of_type(bank, ContextBuilt)[-1].items) == 3
                assert bank.policy_choice("retrieval").settings["k_success"] == 2  # type: ignore[union-attr]
    assert outcomes[0].lm_calls == 3, "the guide's calls are in the base alone"


@pytest.mark.slow
def test_so_many_jobs_wait_for_the_model_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, waiting, most = materials(tmp_path, pair(4)), [0], [0]
    prepare, mutex, enough = ScriptedModel.prepare, threading.Lock(), threading.Event()

    def slow(self: ScriptedModel, question: Any) -> Any:
        answer = prepare(self, question)

        def attempt() -> Any:
            with mutex:
                waiting[0] += 1
                most[0] = max(most[0], waiting[0])
                if waiting[0] >= 5:
                    enough.set()
            enough.wait(10)
            with mutex:
                waiting[0] -= 1
            return answer()

        return attempt

    monkeypatch.setattr(ScriptedModel, "prepare", slow)
    outcomes = ran(given, tmp_path / "run", jobs=8)
    assert len(outcomes) == 8 and most[0] >= 5


@pytest.mark.slow
def test_the_first_error_of_a_trial_stops_the_others_after_their_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = materials(tmp_path, pair(4))
    with failing(monkeypatch, after=20, times=10**6, code="wrong_key"), pytest.raises(LoopStopped, match="wrong_key"):
        ran(given, tmp_path / "run", jobs=3)
    assert len(ran(given, tmp_path / "run", jobs=3)) == 8


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        ("SELECT ?x {", "task height: the gold query can't be read: the '{' of line 1"),
        ("SELECT ?x { ?x lt:name 'No Such Rock' }", "finds nothing, as most wrong queries do; `rbank-es suite check`"),
        ("SELECT ?x { SERVICE <https://example.org> { ?x ?y ?z } }", "the gold query can't be read: SERVICE"),
    ],
)
def test_a_task_that_no_run_could_be_scored_by_is_refused_before_the_first_call(
    tmp_path: Path, gold: str, said: str
) -> None:
    given = materials(tmp_path)
    task = msgspec.structs.replace(given.suite.tasks[0], gold_sparql=gold)
    with pytest.raises(BadInput) as refused:
        gather(given.experiment, Suite.of("heights", [task]), given.source)
    assert said in str(refused.value)


@pytest.mark.parametrize("jobs", [0, 65])
def test_an_impossible_number_of_jobs_is_refused_before_anything_is_made(tmp_path: Path, jobs: int) -> None:
    with pytest.raises(BadInput, match=f"{jobs} jobs"):
        run_experiment(materials(tmp_path), tmp_path / "run", jobs=jobs)
    assert not (tmp_path / "run").exists()
