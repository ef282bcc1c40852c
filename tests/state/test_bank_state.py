"""The fold, by example: what each event means, and what nonsense does."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es.errors import BadEvent
from rbank_es.events import (
    ContextBuilt,
    Decision,
    DecisionUndone,
    Erased,
    Event,
    JudgmentOverruled,
    LmCalled,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRead,
    MemoriesRestored,
    MemoriesRetracted,
    NoteLogged,
    OntologyRegistered,
    PolicyChoice,
    PolicySet,
    Ref,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
    type_of,
)
from rbank_es.events.items import Item
from rbank_es.state import RELEVANT, RESOLVED, State, active, evolve, fold, usage, wins
from tests.strategies import extraction_id, stamped

OWL = Item.make("Owls see", "Look at night.", id="owl", desc="On owls.", tags=("birds",))
CAT = Item.make("Cats hide", "Look under the bed.", "failure", id="cat")
DOG = Item.make("Dogs dig", "Look in the garden.", id="dog")


def extracted(number: int, *items: Item) -> MemoriesExtracted:
    return MemoriesExtracted(
        id=extraction_id(number),
        kind="success",
        heads=tuple(item.head for item in items),
        candidates=tuple(item.text for item in items),
    )


def consolidated(number: int, *decisions: Decision) -> MemoriesConsolidated:
    return MemoriesConsolidated(extraction=extraction_id(number), policy="dedup-1", decisions=decisions)


def decide(index: int, action: Any, item: str, *targets: str) -> Decision:
    return Decision(candidate=index, action=action, item=item, targets=targets)


def judged(run: str, success: bool, purpose: Any = "learning") -> RunJudged:
    return RunJudged(run=run, purpose=purpose, success=success, judge="judge", judge_version="1", kind="lm")


def overruled(run: str, success: bool) -> JudgmentOverruled:
    return JudgmentOverruled(
        run=run, purpose="learning", success=success, judge="ann", judge_version="1", kind="human", by="ann"
    )


def folded(*events: Event) -> State:
    return fold(stamped(events))


BORN = (extracted(0, OWL, CAT), consolidated(0, decide(0, "add", "owl"), decide(1, "add", "cat")))


def test_an_extraction_alone_brings_nothing_to_life() -> None:
    """Candidates are known under the id of the extraction and their index; the bank holds no item yet."""
    state = folded(extracted(0, OWL, CAT))
    assert state.candidates[extraction_id(0), 1].item == CAT
    assert not state.items


@pytest.mark.parametrize("action", ["add", "merge", "supersede"])
def test_add_merge_and_supersede_bring_the_candidate_to_life(action: str) -> None:
    """The item has the candidate's facts and words, is active, and has its own support."""
    state = folded(extracted(0, OWL), consolidated(0, decide(0, action, "owl")))
    entry = state.items["owl"]
    assert (entry.item, entry.state, entry.support) == (OWL, "active", 1)
    assert (entry.born_seq, entry.ended_seq, entry.extraction) == (2, None, extraction_id(0))


@pytest.mark.parametrize("action", ["skip", "discard"])
def test_skip_and_discard_bring_nothing_to_life(action: str) -> None:
    """The candidate stays a candidate."""
    assert not folded(extracted(0, OWL), consolidated(0, decide(0, action, "owl"))).items


def test_an_id_is_born_once_and_later_births_support_it() -> None:
    """The words of the first birth stay."""
    other = replace(OWL, title="Another title")
    state = folded(*BORN, extracted(1, other), consolidated(1, decide(0, "add", "owl")))
    assert (state.items["owl"].item, state.items["owl"].support) == (OWL, 2)


def test_a_skip_supports_each_target_or_else_its_own_id() -> None:
    """Targets that don't exist are passed over."""
    state = folded(*BORN, extracted(1, DOG), consolidated(1, decide(0, "skip", "dog", "owl", "cat", "nobody")))
    assert {id: entry.support for id, entry in state.items.items()} == {"owl": 2, "cat": 2}
    assert folded(*BORN, extracted(1, OWL), consolidated(1, decide(0, "skip", "owl"))).items["owl"].support == 2


def test_a_candidate_supports_an_item_once() -> None:
    """However often the same candidate lands on it."""
    again = consolidated(1, decide(0, "skip", "dog", "owl", "owl"))
    assert folded(*BORN, extracted(1, DOG), again, again).items["owl"].support == 2


def test_a_skip_onto_an_item_that_is_not_born_yet_is_lost() -> None:
    """Support is for items born at or before that event; births of an event come before its skips."""
    early = (extracted(0, OWL, DOG), consolidated(0, decide(1, "skip", "dog", "owl")))
    late = consolidated(0, decide(0, "add", "owl"))
    assert folded(*early, late).items["owl"].support == 1
    together = consolidated(0, decide(1, "skip", "dog", "owl"), decide(0, "add", "owl"))
    assert folded(early[0], together).items["owl"].support == 2


@pytest.mark.parametrize(("action", "state"), [("merge", "merged"), ("supersede", "superseded")])
def test_merge_and_supersede_end_their_targets(action: str, state: str) -> None:
    """Also a target that is born by the same event, for births come first."""
    after = folded(*BORN, extracted(1, DOG), consolidated(1, decide(0, action, "dog", "owl", "nobody")))
    assert (after.items["owl"].state, after.items["owl"].ended_seq) == (state, 4)
    assert after.items["dog"].state == "active"
    same = folded(extracted(0, OWL, CAT), consolidated(0, decide(0, action, "owl", "cat"), decide(1, "add", "cat")))
    assert same.items["cat"].state == state


@pytest.mark.parametrize(
    "decision",
    [decide(7, "merge", "dog", "owl"), decide(0, "merge", "elk", "owl"), decide(0, "supersede", "elk", "owl")],
    ids=["no such index", "merge of another id", "supersede by another id"],
)
def test_a_decision_about_an_unknown_candidate_is_ignored_altogether(decision: Decision) -> None:
    """No birth, no support, no end: neither for an index that was not extracted nor for another id."""
    before = folded(*BORN, extracted(1, DOG))
    after = folded(*BORN, extracted(1, DOG), consolidated(1, decision))
    assert (after.items, after.landings) == (before.items, before.landings)


def test_a_decision_that_comes_before_its_extraction_is_ignored() -> None:
    """The candidate must have been registered by an earlier event."""
    assert not folded(*reversed(BORN)).items


def test_items_end_and_come_back() -> None:
    """The latest event wins, and `ended_seq` is the position of the one that set the present state."""
    forgotten, retracted, restored = (
        MemoriesForgotten(ids=("owl",), policy="bounded-1"),
        MemoriesRetracted(ids=("owl",)),
        MemoriesRestored(ids=("owl",)),
    )
    seen = [folded(*BORN, *ends).items["owl"] for ends in ([forgotten], [forgotten, retracted], [forgotten, restored])]
    assert [(entry.state, entry.ended_seq) for entry in seen] == [("forgotten", 3), ("retracted", 4), ("active", None)]


def test_setting_the_state_that_an_item_has_changes_nothing() -> None:
    """An item forgotten twice ended the first time."""
    forgotten = MemoriesForgotten(ids=("owl",), policy="bounded-1")
    assert folded(*BORN, forgotten, forgotten).items["owl"].ended_seq == 3


def test_undoing_a_decision_retracts_and_then_revives() -> None:
    """An item named in both lists ends up active."""
    undone = DecisionUndone(consolidation=extraction_id(9), candidate=0, ends=("owl", "cat"), revives=("cat",))
    state = folded(*BORN, undone)
    assert {id: entry.state for id, entry in state.items.items()} == {"owl": "retracted", "cat": "active"}
    assert list(active(state)) == ["cat"]


def test_ids_that_nobody_knows_change_nothing() -> None:
    """Not even when the item is born later."""
    state = folded(MemoriesForgotten(ids=("owl",), policy="bounded-1"), *BORN, MemoriesRestored(ids=("nobody",)))
    assert {entry.state for entry in state.items.values()} == {"active"}


def test_an_erased_candidate_keeps_its_facts() -> None:
    """Title, desc, content and tags are empty, and the item says that it was erased."""
    gone = replace(extracted(0, OWL), candidates=(Erased(digest="0" * 64),))
    entry = folded(gone, BORN[1]).items["owl"]
    assert entry.erased
    assert entry.item == Item(id="owl", title="", src=OWL.src, polarity=OWL.polarity)


def test_a_candidate_that_is_still_a_handle_is_an_error() -> None:
    """The reader has to resolve it: a state with an item whose words are missing would be a lie."""
    handle = Ref(key="0" * 64, dtype="item", sz=10, prev="")
    with pytest.raises(BadEvent, match="candidate 0 at position 1"):
        folded(replace(extracted(0, OWL), candidates=(handle,)))
    assert frozenset({"memories_extracted"}) == RESOLVED


def test_a_surplus_of_heads_or_candidates_is_ignored() -> None:
    """Heads and candidates go together by index."""
    both = extracted(0, OWL, CAT)
    for lopsided in (replace(both, heads=both.heads[:1]), replace(both, candidates=both.candidates[:1])):
        assert list(folded(lopsided).candidates) == [(extraction_id(0), 0)]


def test_uses_are_runs_that_were_given_the_item_in_full() -> None:
    """Injected or read with `get`; an excerpt is no use; the first position counts; unknown items are counted too."""
    state = folded(
        ContextBuilt(run="r1", chars=1, items=("owl", "nobody")),
        MemoriesRead(run="r1", ids=("owl", "cat"), how="get", chars=1),
        MemoriesRead(run="r2", ids=("owl",), how="quote", chars=1),
        MemoriesRead(run="r3", ids=("owl",), how="get", chars=1),
    )
    assert state.uses == {"owl": {"r1": 1, "r3": 4}, "nobody": {"r1": 1}, "cat": {"r1": 2}}
    assert usage(state) == {"owl": (2, 0), "nobody": (1, 0), "cat": (1, 0)}


def test_wins_follow_the_standing_learning_verdict() -> None:
    """Judged before the use or after it, overruled or not; scoring never counts."""
    use = ContextBuilt(run="r1", chars=1, items=("owl",))
    for events, expected in (
        ([use, judged("r1", True)], 1),
        ([judged("r1", True), use], 1),
        ([use, judged("r1", True), overruled("r1", False)], 0),
        ([use, judged("r1", False), overruled("r1", True), judged("r1", True, "scoring")], 1),
        ([use, judged("r1", True, "scoring")], 0),
        ([use, judged("r2", True)], 0),
    ):
        state = folded(*events)
        assert (wins(state, "owl"), usage(state)["owl"]) == (expected, (1, expected))
    assert wins(folded(use), "nobody") == 0


def test_a_verdict_says_who_judged_and_whether_it_overruled() -> None:
    """One stands per run and purpose."""
    state = folded(judged("r1", False), judged("r1", True, "scoring"), overruled("r1", True))
    learning, scoring = state.verdicts["r1", "learning"], state.verdicts["r1", "scoring"]
    assert (learning.success, learning.judge, learning.overruled, learning.seq) == (True, "ann", True, 3)
    assert (scoring.success, scoring.judge, scoring.overruled) == (True, "judge", False)


def test_a_run_exists_from_its_first_start() -> None:
    """A second start changes nothing; without a start there is no run, but what was recorded counts once there is."""
    finish = RunFinished(run="r1", outcome="submitted", iterations=4)
    assert not folded(finish, StepTaken(run="r1", index=1)).runs
    run = folded(finish, RunStarted(run="r1", model="first"), RunStarted(run="r1", model="second")).runs["r1"]
    assert (run.model, run.started_seq, run.outcome, run.iterations) == ("first", 2, "submitted", 4)


def test_the_latest_finish_of_a_run_holds() -> None:
    """Whole: nothing of the earlier one stays."""
    first = RunFinished(run="r1", outcome="failed", error_code="timeout", duration_s=1.5, answer_chars=9)
    run = folded(RunStarted(run="r1"), first, RunFinished(run="r1", outcome="submitted")).runs["r1"]
    assert (run.outcome, run.finished_seq, run.error_code, run.duration_s) == ("submitted", 3, None, None)


def test_totals_are_sums_over_calls_where_there_are_calls() -> None:
    """A total that no call tells is unknown, never invented; calls outside the run don't count."""
    calls = [
        LmCalled(run="r1", role="agent", model="m", tokens_in=3, cost_usd=0.25),
        LmCalled(run="r1", role="sub", model="m", tokens_in=4),
        LmCalled(run=None, role="judge", model="m", tokens_in=100, tokens_out=100),
    ]
    told = RunFinished(run="r1", outcome="submitted", lm_calls=9, tokens_in=9, tokens_out=9, cost_usd=9.0)
    run = folded(*calls, RunStarted(run="r1"), told).runs["r1"]
    assert (run.lm_calls, run.tokens_in, run.tokens_out, run.cost_usd) == (2, 7, None, 0.25)
    told_only = folded(RunStarted(run="r1"), told).runs["r1"]
    assert (told_only.lm_calls, told_only.tokens_in, told_only.cost_usd) == (9, 9, 9.0)
    assert folded(RunStarted(run="r1")).runs["r1"].lm_calls is None


def test_iterations_are_those_told_else_the_distinct_steps() -> None:
    """Zero iterations told are zero iterations."""
    steps = [StepTaken(run="r1", index=index) for index in (1, 2, 2)]
    assert folded(RunStarted(run="r1"), *steps).runs["r1"].iterations == 2
    assert folded(RunStarted(run="r1"), *steps, RunFinished(run="r1", outcome="failed")).runs["r1"].iterations == 2
    told = RunFinished(run="r1", outcome="failed", iterations=0)
    assert folded(RunStarted(run="r1"), *steps, told).runs["r1"].iterations == 0


def test_a_run_began_when_it_happened_where_that_is_known() -> None:
    """Imports say when; otherwise the time of recording counts."""
    then = "2020-01-01T00:00:00.000000Z"
    run = folded(RunStarted(run="r1", occurred_at=then), RunFinished(run="r1", outcome="failed")).runs["r1"]
    assert (run.started_at, run.finished_at) == (then, "2026-02-01T00:00:02.000000Z")


def test_policies_are_those_of_the_latest_event_whole() -> None:
    """A kind that the latest event leaves out has no policy."""
    bm25 = PolicyChoice(kind="retrieval", name="bm25", version=1)
    never = PolicyChoice(kind="forgetting", name="never", version=1)
    assert folded(PolicySet(policies=(bm25,)), PolicySet(policies=(never,))).policies == {"forgetting": never}


def test_an_ontology_is_known_as_last_registered() -> None:
    """By id."""
    first, second = (OntologyRegistered(ontology="prov", sha256=digest * 64) for digest in "ab")
    ontology = folded(first, second).ontologies["prov"]
    assert (ontology.sha256, ontology.seq) == ("b" * 64, 2)


def test_the_position_is_that_of_the_last_event() -> None:
    """Also of one that the fold doesn't read; a reader that leaves such events out says where it stands."""
    note = NoteLogged(note="{}")
    assert folded(*BORN, note).position == 3
    assert fold(stamped(BORN), position=7).position == 7
    assert fold([], State(position=5)).position == 5
    assert fold([]) == State()


def test_events_that_do_not_matter_are_named_by_absence() -> None:
    """`RELEVANT` holds the types that change something."""
    assert {type_of(event) for event in BORN} <= RELEVANT
    assert type_of(ToolCalled) not in RELEVANT
    assert type_of(NoteLogged) not in RELEVANT


def test_evolving_leaves_the_earlier_state_alone() -> None:
    """Containers within containers included: uses, and the steps of a run."""
    events = stamped(
        [ContextBuilt(run="r1", chars=1, items=("owl",)), RunStarted(run="r1"), StepTaken(run="r1", index=1)]
    )
    before = fold(events)
    use, step = stamped([ContextBuilt(run="r2", chars=1, items=("owl",)), StepTaken(run="r1", index=2)], start=4)
    after = evolve(evolve(before, use), step)
    assert (len(before.uses["owl"]), before.runs["r1"].iterations) == (1, 1)
    assert (len(after.uses["owl"]), after.runs["r1"].iterations) == (2, 2)
