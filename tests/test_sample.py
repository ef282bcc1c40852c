"""The sample bank: it is what its story makes, it says that it is scripted, and it shows what it is there to show.

Where the first of these tests fails because prompts changed, run logs/make_sample.py, then docs/make_session.py.
"""

from __future__ import annotations

import shutil
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.data import LIGHTS, lights
from rbank_es.events import (
    BankCreated,
    ContextBuilt,
    CorrectionCompleted,
    Decision,
    JudgmentOverruled,
    LmCalled,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    OntologyRegistered,
    RunFinished,
    RunJudged,
    RunStarted,
    ToolCalled,
    type_of,
)
from rbank_es.events.codec import TYPES
from rbank_es.exchange import import_paths
from rbank_es.exchange.exporters import export
from rbank_es.law import State
from rbank_es.law.digests import state_digests
from rbank_es.loop.tasks import load_tasks
from rbank_es.models.lm_request import answer_text
from rbank_es.models.scripted_model import Script
from rbank_es.ontology.loader import load_ontology
from tests.cli_runner import maker
from tests.sandbox.sandboxes import Lender, require_dspy

LOGS = Path(__file__).resolve().parents[1] / "logs"
SAMPLE = LOGS / "sample"
LARGEST_BYTES = 1_650_000


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    copy = tmp_path_factory.mktemp("sample") / "sample"
    shutil.copytree(SAMPLE, copy, ignore=shutil.ignore_patterns("*lock"))
    with Bank.open(copy) as opened:
        yield opened


@pytest.fixture(scope="module")
def state(bank: Bank) -> State:
    return bank.state()


def of(bank: Bank, *classes: type[Any]) -> list[Any]:
    return list(bank.events(types={type_of(cls) for cls in classes}, resolve=True))


def decisions(bank: Bank, action: str) -> list[Decision]:
    events = of(bank, MemoriesConsolidated)
    return [decision for event in events for decision in event.decisions if decision.action == action]


@pytest.mark.slow
@pytest.mark.xdist_group("sandbox")
@pytest.mark.timeout(900)
def test_the_story_makes_the_very_bank_that_is_kept(tmp_path: Path) -> None:
    """Told again by the real loop, in the real sandbox: the same bytes."""
    require_dspy()
    made = maker("make_sample", "logs").make(tmp_path / "sample", interpreters=Lender())
    kept = [path.name for path in SAMPLE.glob("*.jsonl")]
    assert sorted(path.name for path in made.iterdir()) == sorted(kept)
    assert all((made / name).read_bytes() == (SAMPLE / name).read_bytes() for name in kept)


def test_the_bank_that_is_kept_holds_what_the_story_tells(bank: Bank) -> None:
    """Every task at its time, and with it every answer of the script once, in its order; nothing else was answered."""
    tasks = {task.id: task for task in load_tasks(LOGS / "sample_tasks.json")}
    chapters = tomllib.loads((LOGS / "sample_story.toml").read_text())["chapter"]
    told = [(task["id"], task["at"]) for chapter in chapters for task in chapter["tasks"]]
    started = {task_of(run.run): run for run in of(bank, RunStarted)}
    assert [*tasks] == [id for id, _ in told] == [id for id in started if id in tasks]
    assert all((started[id].task, started[id].at[:17]) == (tasks[id].question, at[:17]) for id, at in told)
    script = {task.id: task for task in Script.load(LOGS / "sample_script.toml").task}
    assert script.keys() == started.keys()
    calls = of(bank, LmCalled)
    for id, turns in script.items():
        for role in ("agent", "sub", "judge", "extractor"):
            said = [said_in(call) for call in calls if task_of(call.run) == id and call.role == role]
            assert said == [turn.error or turn.answer for turn in getattr(turns, role)]


def said_in(call: LmCalled) -> str:
    return call.error_code or answer_text(msgspec.json.decode(str(call.response)))


def task_of(run: str) -> str:
    return run.rsplit("-", 2)[0]


def test_it_is_about_the_ontology_that_is_shipped(bank: Bank) -> None:
    """So that every run in it can be run again."""
    [registered] = of(bank, OntologyRegistered)
    assert (registered.ontology, registered.sha256) == (LIGHTS, load_ontology(lights().ontology, id=LIGHTS).digest)


@pytest.mark.slow
def test_it_verifies_with_every_retrieval(bank: Bank) -> None:
    """Each recorded search finds the same again, at its own position."""
    verified = bank.check(retrievals=True)
    assert verified.torn is None
    assert verified.retrievals is not None
    assert verified.retrievals.checked >= 40
    assert (verified.retrievals.unverifiable, verified.retrievals.different) == (0, ())


def test_it_is_small_and_holds_its_log_only() -> None:
    """What the log derives isn't kept."""
    kept = [path for path in SAMPLE.iterdir() if not path.name.endswith("lock")]
    assert [path.suffix for path in kept] == [".jsonl"]
    assert sum(path.stat().st_size for path in kept) < LARGEST_BYTES


def test_it_says_that_it_is_scripted(bank: Bank) -> None:
    """The bank in its purpose, every run in its start, every call of a model by its name."""
    [created] = of(bank, BankCreated)
    assert "scripted" in created.purpose.lower()
    assert created.name == "sample"
    assert all(run.scripted and run.model == "script:sample_script" for run in of(bank, RunStarted))
    assert {call.model for call in of(bank, LmCalled)} == {"script:sample_script"}


def test_it_shows_every_way_in_which_a_run_ends(bank: Bank, state: State) -> None:
    """At least thirty runs, by all executors; successes and failures; submitted, forced at the limit, and failed."""
    assert len(state.runs) >= 30
    assert {run.executor for run in of(bank, RunStarted)} == {"rlm", "react", "scratchpad"}
    assert set(Counter(run.outcome for run in state.runs.values())) == {"submitted", "forced_at_limit", "failed"}
    verdicts = Counter(verdict.verdict for (_, purpose), verdict in state.verdicts.items() if purpose == "learning")
    assert verdicts["success"] >= 15 and verdicts["failure"] >= 5
    scores = Counter(judged.verdict for judged in of(bank, RunJudged) if judged.purpose == "scoring")
    assert scores["success"] >= 10 and scores["failure"] >= 5
    assert all(run.error for run in of(bank, RunFinished) if run.outcome == "failed")


def test_an_overruled_judgment_has_consequences(bank: Bank, state: State) -> None:
    """What rested on the verdict leaves with it, in one correction, and a principle for the judge is kept."""
    [overruled], [completed, weighed] = of(bank, JudgmentOverruled), of(bank, CorrectionCompleted)
    by_hand = next(each for each in of(bank, MemoriesConsolidated) if each.policy == "by-hand-1")
    assert weighed.causes == (by_hand.id,)
    assert completed.causes == (overruled.id,) and completed.seq == overruled.seq + 1
    before, after = bank.state(overruled.seq - 1), bank.state(completed.seq)
    verdicts = [at.verdicts[overruled.run, "learning"].verdict for at in (before, after, state)]
    assert verdicts == ["success", "failure", "failure"]
    assert {before.items[id].state for id in misleading(bank)} == {"active"}
    assert {at.items[id].state for at in (after, state) for id in misleading(bank)} == {"unsupported"}
    principles = [entry for entry in state.items.values() if entry.item.src == "principle"]
    assert principles and not {entry.item.id for entry in principles} & {hit for hit in hits(bank)}


def misleading(bank: Bank) -> set[str]:
    """The items that left with the verdict that was overruled."""
    [overruled] = of(bank, JudgmentOverruled)
    before, after = bank.state(overruled.seq - 1), bank.state(overruled.seq)
    left = {id for id, entry in before.items.items() if entry.state == "active" and after.items[id].state != "active"}
    assert left
    return left


@pytest.mark.slow
def test_what_a_wrong_verdict_let_in_misled_a_later_run(bank: Bank, state: State) -> None:
    """Before the judge was overruled, a run got what was learnt of the run that it had praised, and failed."""
    [misled] = [built.run for built in of(bank, ContextBuilt) if set(built.items) & misleading(bank)]
    assert state.verdicts[misled, "learning"].verdict == "failure"
    wrong = [judged for judged in of(bank, RunJudged) if (judged.purpose, judged.verdict) == ("scoring", "failure")]
    praised = {
        judged.run for judged in of(bank, RunJudged) if (judged.purpose, judged.verdict) == ("learning", "success")
    }
    [overruled] = of(bank, JudgmentOverruled)
    assert {judged.run for judged in wrong} & praised == {overruled.run}


def test_several_attempts_at_one_question_are_compared(bank: Bank) -> None:
    """What the successes did that the failure didn't, and what they share."""
    rollouts = [run for run in of(bank, RunStarted) if run.rollout_group is not None]
    assert [run.rollout_index for run in rollouts] == [0, 1, 2] and len({run.rollout_group for run in rollouts}) == 1
    kinds = {extracted.kind for extracted in of(bank, MemoriesExtracted) if extracted.candidates}
    assert kinds == {"seed", "success", "failure", "contrastive", "pattern", "manual"}


def hits(bank: Bank) -> set[str]:
    events: list[Any] = list(bank.events(types={"memories_retrieved"}))
    return {hit.id for event in events for hit in event.hits}


def test_items_are_skipped_superseded_forgotten_and_lose_their_support(bank: Bank, state: State) -> None:
    """What repeats an item supports it; the rest ended in the ways there are."""
    skipped = decisions(bank, "skip")
    assert "near-duplicate" in {decision.reason for decision in skipped}
    standing = [made for made in of(bank, MemoriesConsolidated) if state.extractions[made.extraction].stands]
    supported = {each.targets[0] for made in standing for each in made.decisions if each.action == "skip"}
    assert supported and all(state.items[id].support > 1 for id in supported)
    states = Counter(entry.state for entry in state.items.values())
    assert min(states[name] for name in ("active", "pending", "superseded", "forgotten", "unsupported")) >= 1
    assert len(of(bank, MemoriesForgotten)) >= 1


def test_it_raises_the_red_flags_that_the_loop_leaves_room_for(bank: Bank) -> None:
    """A large return and a context over 4,000 characters; the loop never puts more than three items into a context."""
    with bank.as_of() as view:
        flags = Counter(row["flag"] for row in view.rows("red_flags"))
    assert set(flags) == {"single_return", "context_size"}
    assert any((event.chars or 0) > 1000 for event in of(bank, ToolCalled))


def test_the_bank_gets_better_with_time(bank: Bank, state: State) -> None:
    """Of the later half of the runs more are judged a success than of the earlier."""
    verdicts = [state.verdicts.get((started.run, "learning")) for started in of(bank, RunStarted)]
    won = [verdict.verdict == "success" for verdict in verdicts if verdict]
    half = len(won) // 2
    assert sum(won[half:]) > sum(won[:half]) and half >= 14


def test_time_passes_as_it_would(bank: Bank) -> None:
    """Over some weeks of 2026, and never backwards."""
    times = [event.at for event in bank.events()]
    assert times == sorted(times)
    assert times[0][:7] == "2026-03" and times[-1][:7] == "2026-04"


def test_it_uses_most_of_the_vocabulary(bank: Bank) -> None:
    """What it leaves out are rare things."""
    used = {type_of(event) for event in bank.events()}
    assert TYPES.keys() - used == {
        "bank_absorbed",
        "bank_forked",
        "consolidation_proposed",
        "content_erased",
        "decision_undone",
        "experiment_finished",
        "experiment_started",
        "memories_admitted",
        "memories_restored",
        "memories_retracted",
        "words_embedded",
    }


def test_it_goes_through_an_export_of_events(bank: Bank, state: State, tmp_path: Path) -> None:
    """The same state in another bank."""
    with exported_and_imported(bank, tmp_path) as other:
        assert state_digests(other.state()) == state_digests(state)


@pytest.mark.slow
def test_every_retrieval_still_holds_after_an_export(bank: Bank, tmp_path: Path) -> None:
    with exported_and_imported(bank, tmp_path) as other:
        checked = other.check(retrievals=True).retrievals
        assert checked is not None and checked.checked >= 40 and not checked.different


def exported_and_imported(bank: Bank, place: Path) -> Bank:
    (place / "events.jsonl").write_bytes(b"".join(export(bank, None, "events")))
    other = Bank.create(place / "other", unsafe_no_sync=True)
    import_paths(other, [place / "events.jsonl"])
    return other


def test_no_run_began_before_the_run_or_the_item_that_it_is_downstream_of(bank: Bank) -> None:
    """An item ended and another one took its place: neither ending has led to the runs before it."""
    from rbank_es.bank.lineage_graph import LineageGraph

    began = {event.run: event.seq for event in of(bank, RunStarted)}
    with bank.as_of(None) as view:
        edges = list(view.edges())
    graph, walked = LineageGraph(edges), 0
    starts = {edge.source: began[edge.source.name] for edge in edges if edge.source.kind == "run"}
    starts |= {edge.target: edge.seq for edge in edges if edge.relation == "born_as"}
    for start, position in starts.items():
        runs = [node.name for node in graph.effects(start).nodes if node.kind == "run"]
        assert all(began[run] > position for run in runs), start
        walked += len(runs)
    assert walked > 100 and {"ended", "superseded"} <= {edge.relation for edge in edges}
