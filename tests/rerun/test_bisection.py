"""The search for what changed before runs failed, over real banks, against asking the bank at every position."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log2
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es.answers.shared.bisection_answer import Bisection, RunBisection
from rbank_es.bank import Bank
from rbank_es.bank.id_lookup import whole_id
from rbank_es.context.assembly import build_context
from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import ContextBuilt, Hit, MemoriesRetrieved, PolicyChoice, PolicySet, RunJudged, RunStarted
from rbank_es.events.items import Item
from rbank_es.events.run_events import VerdictValue
from rbank_es.policies import default_policies
from rbank_es.rerun.change_search import GUESSES
from tests.cli import misled
from tests.cli_runner import SAMPLE
from tests.context.procedures_of_bank import procedures
from tests.effort import examples, one_in

MISLED, BEFORE = "lights-08", "lights-05"
WORDS = ("boat", "berth", "tide", "lamp", "crane")


@pytest.fixture(scope="module")
def sample() -> Iterator[Bank]:
    with Bank.open(SAMPLE) as bank:
        yield bank


@pytest.fixture
def bank() -> Iterator[Bank]:
    with Bank.create("memory:") as made:
        yield made


def run_of(bank: Bank, beginning: str) -> str:
    """The one run whose id begins so: what follows is a digest of settings, which may change."""
    with bank.as_of() as view:
        return whole_id(view, "run", beginning)


def searched(bank: Bank, run: str, query: str = "boat tide", level: int | None = None) -> MemoriesRetrieved:
    """A search of a run, with what the bank gives now."""
    with bank.live() as view:
        return replace(view.retrieve(query, 2, level=level).event, run=run, mode="tool")


def ran(bank: Bank, run: str, query: str = "boat tide", *, verdict: VerdictValue | None = None, **facts: Any) -> None:
    """Record a run that searched as loops by hand do, and perhaps its verdict."""
    bank.append([RunStarted(run=run, **{"task": query, **facts}), searched(bank, run, query, facts.get("level"))])
    if verdict is not None:
        judged(bank, run, verdict)


def judged(bank: Bank, run: str, verdict: VerdictValue) -> None:
    facts: dict[str, Any] = {"judge": "me", "judge_version": "1", "kind": "human"}
    bank.append(RunJudged(run=run, purpose="learning", verdict=verdict, **facts))


def learned(bank: Bank, title: str, content: str = "") -> str:
    """Let a bank learn an item; return its id."""
    bank.remember(title, content or f"About {title}.")
    return Item.make(title, content or f"About {title}.").id


def bound(places: int) -> int:
    """The most checks that one change takes, beside those of both ends."""
    return ceil(log2(places)) + 2 * GUESSES + 1


def only(found: Bisection) -> RunBisection:
    [one] = found.runs
    return one


# ---------------------------------------------------------------- the sample


@pytest.mark.slow
def test_the_sample_shows_which_event_misled_its_run(sample: Bank) -> None:
    """The consolidation of what a wrong verdict let in, as asking at every position shows; with few checks."""
    misled = run_of(sample, MISLED)
    found = sample.bisect([misled], [run_of(sample, BEFORE)])
    one = only(found)
    task = next(event.task for event in sample.events(run=misled, resolve=True) if isinstance(event, RunStarted))
    given = {
        position: procedures(sample, str(task), point=position, domain="lights").packed.items
        for position in range(one.after_seq, one.upto_seq + 1)
    }
    own = given[one.upto_seq]
    for change in one.changes:
        for item in change.gained:
            assert item in own and item in given[change.position] and item not in given[change.position - 1]
        for item in change.lost:
            assert item not in own and item in given[change.position - 1] and item not in given[change.position]
    assert {item for change in one.changes for item in change.gained} == set(own) - set(given[one.after_seq])
    title = "Compare how tall lighthouses are by focal height"
    [misleading] = [each for each in found.changes if any(sample.get([id])[0].title == title for id in each.gained)]
    assert misleading.type == "memories_consolidated" and misleading.runs == (misled,)
    assert one.outcome == "changed" and found.ok and one.needs_model
    assert len(one.checks) <= 2 + len(one.changes) * bound(one.places)


def test_rollouts_of_one_group_were_given_the_same(sample: Bank) -> None:
    """Whichever failed: memory had no part, and the others had the very same prompt and succeeded."""
    with sample.as_of() as view:
        [bad, *passed] = view.ids("run", "lights-16-", 3)
    for good in passed:
        one = only(sample.bisect([bad], [good]))
        assert (one.outcome, one.places, len(one.checks), one.after_seq) == ("same", 0, 1, one.upto_seq)
        [check] = one.checks
        assert {(each.run, each.verdict) for each in check.answers} == {(run, "success") for run in passed}
        assert not one.needs_model


@pytest.mark.slow
def test_every_run_of_the_sample_is_given_again_what_is_recorded(sample: Bank) -> None:
    """So there is an answer for each that asked the bank, also for agents that searched by themselves."""
    runs = [event.run for event in sample.events(types={"run_started"}) if isinstance(event, RunStarted)]
    found = sample.bisect(runs[1:], runs[:1])
    assert found.ok and len(found.runs) == len(runs) - 1
    assert {each.outcome for each in found.runs} >= {"changed"}
    assert not any("quotes" in note for each in found.runs for note in each.notes)


def test_a_guide_can_be_the_event(sample: Bank) -> None:
    """The first run with the layer L3 was given a guide that an agent had written just before."""
    found = sample.bisect([run_of(sample, "lights-19")], [run_of(sample, "lights-17")])
    [guide] = [change for change in only(found).changes if change.guide]
    made = next(event for event in sample.events(types={"artifact_materialised"}))
    assert guide.position == made.seq
    assert {each.type for each in found.changes if each.position == made.seq} == {"artifact_materialised"}


# ---------------------------------------------------------------- planted events


def test_an_item_that_left_is_found_where_it_ended(bank: Bank) -> None:
    kept = learned(bank, "boats follow the tide")
    learned(bank, "tide tables of boats")
    ran(bank, "good")
    for number in range(20):
        learned(bank, f"crane {number}")
    bank.retract(kept, because="It is outdated.", by="me")
    ended = next(event.seq for event in bank.events(types={"memories_retracted"}))
    learned(bank, "lamp")
    ran(bank, "bad")
    [change] = bank.bisect(["bad"], ["good"]).changes
    assert (change.position, change.type, change.lost) == (ended, "memories_retracted", (kept,))


def test_a_lower_level_of_what_an_item_rests_on_can_be_the_event(bank: Bank) -> None:
    """The item was active all along, and only support from a run of an easier task made it fit the question."""
    bank.set_policies({"retrieval": {"name": "bm25", "version": 1, "levels": "up_to"}})
    lesson = Item.make("boats follow the tide", "About boats.", "success")
    for run, level in (("hard", 4), ("easy", 1)):
        bank.append(RunStarted(run=run, level=level))
        judged(bank, run, "success")
        if run == "easy":
            ran(bank, "good", level=2)
        misled.learned(bank, lesson, (run, "success"))
    fits = bank.position
    ran(bank, "bad", level=2)
    [change] = bank.bisect(["bad"], ["good"]).changes
    assert (change.position, change.gained) == (fits, (lesson.id,))


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Acts of a bank: what it learns, what it loses and gets back, how it ranks."""
    phrase = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
    act = st.sampled_from(("learn", "learn", "learn", "retract", "restore", "policy"))
    return [(draw(act), draw(phrase)) for _ in range(draw(st.integers(1, 25)))]


def live(bank: Bank, life: list[tuple[str, str]]) -> None:
    for act, words in life:
        items = bank.state().items
        chosen = sorted(items)[len(words) % len(items)] if items else None
        if act == "learn":
            learned(bank, words)
        elif act == "policy":
            bank.set_policies({"retrieval": {"floor": len(words) % 3}})
        elif chosen is not None and act == "retract" and items[chosen].state == "active":
            bank.retract(chosen, because="a reason", by="me")
        elif chosen is not None and act == "restore" and items[chosen].state != "active":
            bank.restore(chosen, because="a reason", by="me")


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(st.data())
def test_in_any_log_a_change_is_one_that_asking_at_every_position_shows(data: st.DataObject) -> None:
    """What each change names is given at its position and not just before, or the other way round."""
    query = data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join))
    with Bank.create("memory:") as bank:
        live(bank, data.draw(lives()))
        ran(bank, "good", query)
        live(bank, data.draw(lives()))
        ran(bank, "bad", query)
        one = only(bank.bisect(["bad"], ["good"]))
        given = {at: {hit.id for hit in bank.at(at).search(query, 2)} for at in range(one.after_seq, one.upto_seq + 1)}
        gained = {item for change in one.changes for item in change.gained}
        lost = {item for change in one.changes for item in change.lost}
        assert (gained, lost) == (
            given[one.upto_seq] - given[one.after_seq],
            given[one.after_seq] - given[one.upto_seq],
        )
        for change in one.changes:
            now, then = given[change.position], given[change.position - 1]
            assert set(change.gained) <= now - then and set(change.lost) <= then - now
            flips = [at for at in given if at > one.after_seq and given[at] != given[at - 1]]
            if len(flips) == 1:
                assert [change.position] == flips and change.steady
        if one.places:
            assert len(one.checks) <= 2 + len(gained | lost | {""}) * bound(one.places)


# ---------------------------------------------------------------- recorded prompts


def ran_by_loop(bank: Bank, run: str, task: str = "boat tide", **facts: Any) -> None:
    """Record the beginning of a run as the loop does, with its context."""
    context = build_context(task, bank=bank, layers=("L2",), run=run)
    started = RunStarted(run=run, task=task, layers=("L2",), mode="auto", **{"settings": "{}", **facts})
    bank.append([started, *context.retrievals, context.event(run)])


def test_a_run_that_also_searched_by_itself_is_never_answered_by_its_first_prompt(bank: Bank) -> None:
    """Its context is that of its beginning, its own search is of later; what it was told then depends on memory."""
    learned(bank, "tide tables of boats")
    ran_by_loop(bank, "good")
    learned(bank, "boats follow the tide")
    ran_by_loop(bank, "bad")
    late = learned(bank, "boat tide")  # it would outrank what is in the context
    bank.append(searched(bank, "bad"))
    found = bank.bisect(["bad"], ["good"])
    assert found.needs_model == ("bad",)
    assert any(late in change.gained for change in only(found).changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings_", ["{", "[]", '{"guide": 5}', '{"domain": ["x"]}', "null", '{"x": ' + "[" * 100_000]
)
def test_settings_that_cannot_be_read_are_those_of_no_loop(settings_: str, bank: Bank) -> None:
    """A bank may come from anybody. Its searches are repeated as any others."""
    ran_by_loop(bank, "good")
    learned(bank, "boats follow the tide")
    ran_by_loop(bank, "bad", settings=settings_)
    found = bank.bisect(["bad"], ["good"])
    assert found.ok and found.needs_model == ("bad",)


# ---------------------------------------------------------------- by a metric


def test_a_metric_chooses_tasks_that_succeeded_and_then_failed(bank: Bank) -> None:
    ran(bank, "tide-1", "tide", verdict="success")
    ran(bank, "lamp-1", "lamp", verdict="success")
    ran(bank, "crane-1", "crane", verdict="failure")
    learned(bank, "tide tables of boats")
    for run in ("tide-2", "tide-3"):
        ran(bank, run, "tide", verdict="failure")
    ran(bank, "lamp-2", "lamp", verdict="failure")
    ran(bank, "lamp-3", "lamp", verdict="success")
    ran(bank, "crane-2", "crane", verdict="failure")
    found = bank.bisect(metric="success")
    assert [(each.run, each.good, each.outcome) for each in found.runs] == [("tide-2", "tide-1", "changed")]
    [change] = found.changes
    assert (change.before.successes, change.before.decided, change.since.decided) == (1, 1, 2)
    assert bank.bisect(metric="score").runs == ()


# ---------------------------------------------------------------- what can't be told, and bad input


def test_a_run_that_asked_nothing_was_given_nothing(bank: Bank) -> None:
    ran(bank, "good")
    learned(bank, "boats follow the tide")
    bank.append(RunStarted(run="bad", task="boat tide"))
    one = only(bank.bisect(["bad"], ["good"]))
    assert (one.outcome, one.checks) == ("nothing", ()) and "asked nothing" in one.reason


def test_items_given_by_an_unrecorded_search_are_unknown(bank: Bank) -> None:
    ran(bank, "good")
    item = learned(bank, "boats follow the tide")
    bank.append([RunStarted(run="bad", task="boat tide"), ContextBuilt(run="bad", chars=9, items=(item,))])
    found = bank.bisect(["bad"], ["good"])
    assert only(found).outcome == "unknown" and not found.ok
    assert "not recorded" in only(found).reason


def test_hits_that_the_bank_doesnt_give_are_unknown(bank: Bank) -> None:
    ran(bank, "good")
    learned(bank, "boats follow the tide")
    hit = Hit(id="elsewhere", rank=1, score=1.0)
    retrieved = MemoriesRetrieved(run="bad", k=2, policy="bm25-3", hits=(hit,), query="boat")
    bank.append([RunStarted(run="bad", task="boat"), retrieved])
    bank.append([RunStarted(run="other", task="boat"), replace(retrieved, run="other", policy="other-1", id="")])
    reasons = {each.run: each.reason for each in bank.bisect(["bad", "other"], ["good"]).runs}
    assert "verify --retrievals" in reasons["bad"] and "other-1" in reasons["other"]


def test_a_policy_that_is_not_known_here_is_unknown(bank: Bank) -> None:
    ran(bank, "good")
    kinds = [choice for choice in default_policies() if choice.kind != "retrieval"]
    bank.append(PolicySet(policies=(*kinds, PolicyChoice(kind="retrieval", name="bm25", version=77))))
    learned(bank, "boats follow the tide")
    bank.append([RunStarted(run="bad"), MemoriesRetrieved(run="bad", k=2, policy="bm25-77", query="boat tide")])
    assert "version 77" in only(bank.bisect(["bad"], ["good"])).reason


@pytest.mark.slow
def test_erased_words_are_said_and_never_guessed(tmp_path: Path) -> None:
    with Bank.create(tmp_path / "bank") as bank:
        learned(bank, "tide tables of boats")
        lost = learned(bank, "boats follow the tide", "They leave at high water, never before.")
        ran(bank, "good")
        bank.retract(lost, because="a reason", by="me")
        mine = learned(bank, "boats need a berth at low tide", "Ask the master of the harbour for one.")
        ran(bank, "bad")
        ran(bank, "late", "harbour master of the town")
        bank.erase(item=lost)
        one = only(bank.bisect(["bad"], ["good"]))
        assert one.outcome == "changed" and any("erased" in note for note in one.notes)
        bank.erase(item=mine)
        assert "erased since" in only(bank.bisect(["bad"], ["good"])).reason
        bank.erase(text="harbour master of the town")
        assert "were erased" in only(bank.bisect(["late"], ["good"])).reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "good", "said"),
    one_in(
        3,
        [
            (["bad"], [], "such as good, the latest success"),
            (["ports"], [], "name a good run too:"),
            ([], ["good"], "at least one"),
            (["bad", "good"], ["good"], "as bad and as good"),
            (["good"], ["bad"], "no good run began before"),
            (["bad"], ["good", "late"], "began after every bad run"),
            (["bad"], ["ports"], "one ontology"),
        ],
    ),
)
def test_runs_that_contradict_are_refused(bank: Bank, bad: list[str], good: list[str], said: str) -> None:
    ran(bank, "ports", ontology="ports")
    ran(bank, "good", ontology="lights", verdict="success")
    ran(bank, "bad", ontology="lights", verdict="failure")
    ran(bank, "late", ontology="lights")
    with pytest.raises(BadInput, match=said):
        bank.bisect(bad, good)


def test_runs_that_are_not_there_and_mixtures_are_refused(bank: Bank) -> None:
    ran(bank, "good")
    before = bank.position
    ran(bank, "bad")
    with pytest.raises(NotInBank, match="nowhere"):
        bank.bisect(["nowhere"], ["good"])
    with pytest.raises(NotInBank, match="bad"):
        bank.at(before).bisect(["bad"], ["good"])
    with pytest.raises(BadInput, match="not both"):
        bank.bisect(["bad"], ["good"], metric="success")
