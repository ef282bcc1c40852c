"""Rows of runs: what a trial's log says of each run, compared with what the loop said and with cases worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import (
    ContextBuilt,
    LmCalled,
    MemoriesConsolidated,
    MemoriesExtracted,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.events.items import Item
from rbank_es.events.memory_events import Decision
from rbank_es.events.run_events import LayerUse, Trial
from rbank_es.lab.contamination import Contamination, contamination_of
from rbank_es.lab.metrics import METRICS, measured
from rbank_es.lab.quality_gates import broken_gates
from rbank_es.lab.run_rows import TrialRun, rows_of
from rbank_es.lab.task_suite import Suite
from rbank_es.lab.trial_log import TrialLog
from rbank_es.loop.tasks import Task
from tests.loop.loops import TASKS, looped, quick, scripted, source
from tests.sandbox.sandboxes import require_dspy

SUITE = Suite.of("heights", TASKS)
TRIAL = Trial(experiment="E9", condition="append", order=1, repetition=2)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[TrialRun]]:
    """A trial of two scripted tasks: the first fails and teaches a guardrail, the second is given it and succeeds."""
    require_dspy()
    place = tmp_path_factory.mktemp("trial")
    with quick(place / "bank") as bank:
        looped(bank, scripted(place), suite=SUITE.digest, trial=TRIAL)
        return place / "bank", rows_of(TrialLog.of(bank), SUITE, source())


def test_a_row_says_what_the_read_models_say(trial: tuple[Path, list[TrialRun]]) -> None:
    """By SQL and by reading the log; also of a run with two ends, two contexts, and sizes that nobody recorded."""
    sizes = {"stdout_chars": 7, "variables_chars": 3, "prompt_chars": 900}
    trial_facts = {"task_id": "height", "suite": SUITE.digest, "trial": TRIAL}
    with Bank.open(trial[0]) as bank, bank.copy(bank.position) as copy:
        copy.append(
            [
                RunStarted(run="odd", **trial_facts),
                *(ContextBuilt(run="odd", chars=n, layers=(), texts=(), items=("a",) * n) for n in (2, 1)),
                StepTaken(run="odd", index=1),
                StepTaken(run="odd", index=2, **sizes),
                *(ToolCalled(run="odd", call=f"c{n}", tool="g_stats", chars=n) for n in (None, 1_001, 4)),
                LmCalled(run="odd", role="sub", model="m", tokens_in=3),
                RunFinished(run="odd", outcome="failed"),
                RunFinished(run="odd", outcome="submitted", answer="x"),
                RunStarted(run="bare", **trial_facts),
                ToolCalled(run="bare", call="c", tool="g_stats"),
                RunFinished(run="bare", outcome="failed", iterations=3, lm_calls=2, tokens_in=5),
            ]
        )
        rows = {row.run: row for row in rows_of(TrialLog.of(copy), SUITE)}
        with copy.as_of() as view:
            models = {row["run"]: row for row in view.rows("leakage_by_run")}
            for row in view.rows("runs"):
                models[row["run"]] |= row
    assert len(rows) == 4
    for name, other in SAME.items():
        assert {run: getattr(row, name) for run, row in rows.items()} == {run: models[run][other] for run in rows}
    assert (rows["odd"].outcome, rows["odd"].iterations, rows["odd"].stdout_chars) == ("submitted", 2, 7)


SAME = {
    **dict.fromkeys(
        ("outcome", "iterations", "tool_calls", "tokens_in", "tokens_out", "cost_usd", "subcalls", "verdict",
         "prompt_chars_max", "max_single_return", "large_returns", "stdout_chars", "variables_chars",
         "duration_s", "lm_calls", "score", "items_injected")
    ),
    "context_chars": "context_size",
}  # fmt: skip
"""Fields of rows that read models have too, by the names of their columns."""
SAME = {name: column or name for name, column in SAME.items()}


def test_another_suite_and_two_trials_in_one_bank_are_refused(trial: tuple[Path, list[TrialRun]]) -> None:
    other = Suite.of("others", [*TASKS, Task(id="more", question="More?", gold_sparql="ASK {}")])
    with Bank.open(trial[0]) as bank:
        with pytest.raises(BadInput, match="of the suite"):
            rows_of(TrialLog.of(bank), other)
        with bank.copy(bank.position) as both:
            both.append(RunStarted(run="x", task_id="height", suite=SUITE.digest, trial=TRIAL))
            assert len(rows_of(TrialLog.of(both), SUITE)) == 2  # it has not ended
            looped(both, scripted(trial[0].parent), TASKS[:1], again=True, suite=SUITE.digest)
            with pytest.raises(BadInput, match="2 trials"):
                rows_of(TrialLog.of(both), SUITE)


def test_metrics_of_the_trial_by_hand(trial: tuple[Path, list[TrialRun]]) -> None:
    found = measured(trial[1])
    assert found.keys() == METRICS.keys()
    assert (found["success"], found["exact"], found["wrong"], found["converged"]) == (0.5, 0.5, 0.5, 1)
    assert (found["judge_accuracy"], found["false_success"], found["contaminated"]) == (1, 0, 0)
    assert (found["items_injected"], found["items_in_bank"], found["learned_rightly"]) == (0.5, 1, 1)
    assert found["cost_usd"] is None and found["pass_at_1"] == 0.5
    assert measured([]) == dict.fromkeys(METRICS)


# ---------------------------------------------------------------- contamination

GOLD = 'PREFIX lt: <https://lights.example/ns#> SELECT ?m WHERE { ?l lt:name "Cormorant Rock" ; lt:near "Gull Skerry" }'
ASKED = Task(
    id="a", question="What lies near Cormorant Rock?", gold_sparql=GOLD, answer=[["Outer Ledge", 49], ["x", 1]]
)


def lesson(words: str) -> Item:
    return Item.make("A lesson", words, src="success")


def taught(*lessons: Item, task: str = "b") -> Bank:
    """A bank in which one run of a task taught these lessons."""
    bank = Bank.create("memory:")
    made = MemoriesExtracted(
        id=bank.log.new_id(),
        kind="success",
        runs=("earlier",),
        heads=tuple(each.head for each in lessons),
        candidates=tuple(each.text for each in lessons),
    )
    decisions = tuple(Decision(candidate=at, action="add", item=each.id) for at, each in enumerate(lessons))
    decided = MemoriesConsolidated(extraction=made.id, policy="append-1", decisions=decisions)
    bank.append([RunStarted(run="earlier", task_id=task), made, decided])
    return bank


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ("Count with DISTINCT.", []),
        ("Ask about Cormorant Rock by its name.", []),  # the question names it
        ("Look for GULL skerry first.", ["literal"]),
        ("It is Outer Ledge, 49 metres.", ["right answer"]),
        ("Outer Ledge is high.", []),  # half a row
        ("It may be x, or 1.", []),  # a row of nothing but short values
        (f"Write {GOLD.upper()} and submit.", ["right query", "literal"]),
    ],
)
def test_what_an_item_holds_of_the_answer(words: str, kinds: list[str]) -> None:
    item = lesson(words)
    with taught(item) as bank:
        found = contamination_of(bank.state(), ASKED, [item.id], bank.position + 1)
        assert [each.kind for each in found] == kinds
        assert {each.run for each in found} <= {"earlier"}


def test_an_item_of_an_earlier_run_of_the_same_task_is_named_and_a_later_one_is_no_source() -> None:
    item = lesson("Count with DISTINCT.")
    with taught(item, task="a") as bank:
        [found] = contamination_of(bank.state(), ASKED, [item.id], bank.position + 1)
        assert found == Contamination(item=item.id, kind="same task", run="earlier")
        assert contamination_of(bank.state(), ASKED, [item.id], 1) == ()
        assert contamination_of(bank.state(), ASKED, ["never was"], bank.position + 1) == ()


# ---------------------------------------------------------------- gates

STARTED = RunStarted(
    run="r", config_digest="1" * 64, release="0", suite="2" * 64, trial=TRIAL, settings="{}", task_id="a"
)
CONTEXT = ContextBuilt(run="r", chars=3, layers=(LayerUse(layer="base", chars=3, budget=800),), texts=("abc",))
SCORED = RunJudged(
    run="r", purpose="scoring", verdict="success", judge="gold", judge_version="1", kind="gold", suite="2" * 64
)


def test_a_whole_run_breaks_no_gate_and_each_gap_breaks_its_own() -> None:
    from msgspec.structs import replace

    assert broken_gates(STARTED, CONTEXT, SCORED) == ()
    for gap in ({"config_digest": None}, {"release": None}, {"trial": None}, {"settings": None}):
        assert broken_gates(replace(STARTED, **gap), CONTEXT, SCORED) == ("reproducibility",)
    assert broken_gates(STARTED, replace(CONTEXT, texts=()), SCORED) == ("observability",)
    for layer in (LayerUse(layer="L2", chars=601, budget=600), LayerUse(layer="L2", chars=1)):
        context = replace(CONTEXT, layers=(layer,))
        assert broken_gates(STARTED, context, SCORED) == ("bounded context",)
    assert broken_gates(STARTED, CONTEXT, replace(SCORED, suite="3" * 64)) == ("stable evaluation",)
    assert broken_gates(STARTED, None, None) == ("observability", "bounded context", "stable evaluation")
