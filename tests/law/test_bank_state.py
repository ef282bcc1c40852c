"""The fold, by example: what each event means, and what nonsense does."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es.errors import BadEvent
from rbank_es.events import (
    ContextBuilt,
    CorrectionCompleted,
    Decision,
    DecisionUndone,
    Erased,
    Event,
    JudgmentOverruled,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    NoteLogged,
    Ref,
    Reliance,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
    type_of,
)
from rbank_es.events.items import Item
from rbank_es.law import RELEVANT, RESOLVED, State, evolve, fold, usage, wins
from tests.pools import extraction_id
from tests.strategies import stamped

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


def owl_again(number: int, kind: Any, **relied: Any) -> tuple[Event, Event]:
    """Draw the owl from runs, in its own words; a bank that has it lets it support that."""
    made = replace(
        extracted(number, OWL),
        kind=kind,
        runs=tuple(relied),
        relied=tuple(Reliance(run=run, verdict=verdict) for run, verdict in relied.items()),
    )
    return made, consolidated(number, decide(0, "skip", "owl"))


def consolidated(number: int, *decisions: Decision) -> MemoriesConsolidated:
    return MemoriesConsolidated(extraction=extraction_id(number), policy="dedup-1", decisions=decisions)


def decide(index: int, action: Any, item: str, *targets: str) -> Decision:
    return Decision(candidate=index, action=action, item=item, targets=targets)


def judged(run: str, verdict: Any, purpose: Any = "learning", **facts: Any) -> RunJudged:
    kind = facts.pop("kind", "lm")
    return RunJudged(run=run, purpose=purpose, verdict=verdict, judge="judge", judge_version="1", kind=kind, **facts)


def overruled(run: str, verdict: Any) -> JudgmentOverruled:
    return JudgmentOverruled(
        run=run, purpose="learning", verdict=verdict, judge="ann", judge_version="1", kind="human", by="ann"
    )


def folded(*events: Event) -> State:
    return fold(stamped(events))


BORN = (extracted(0, OWL, CAT), consolidated(0, decide(0, "add", "owl"), decide(1, "add", "cat")))


@pytest.mark.parametrize("targets", [("cat",), ("nobody",)])
@pytest.mark.parametrize("action", ["skip", "discard"])
def test_a_candidate_that_lands_elsewhere_or_nowhere_is_no_item(action: str, targets: tuple[str, ...]) -> None:
    """It stays a candidate."""
    assert list(folded(*BORN, extracted(1, DOG), consolidated(1, decide(0, action, "dog", *targets))).items) == [
        "owl",
        "cat",
    ]


def test_a_candidate_supports_an_item_once() -> None:
    """However often the same candidate lands on it."""
    again = consolidated(1, decide(0, "skip", "dog", "owl", "owl"))
    assert folded(*BORN, extracted(1, DOG), again, again).items["owl"].support == 2


def test_a_copy_stands_on_what_it_is_a_copy_of() -> None:
    """Where that is known, whenever it comes; all that aren't known are one witness together."""
    copy = replace(extracted(1, OWL), copy_of=((extraction_id(7), extraction_id(8)),))
    listed = (copy, consolidated(1, decide(0, "add", "owl")))
    original = owl_again(7, "success", a="success")
    assert folded(*listed).items["owl"].witnesses == (extraction_id(7),)
    for known in ((*listed, *original), (*original, *listed)):
        assert set(folded(*known).items["owl"].witnesses) == {"a", extraction_id(8)}
    alone = (replace(copy, copy_of=((extraction_id(7),),)), listed[1])
    for known in ((*alone, *original), (*original, *alone)):
        assert folded(*known).items["owl"].witnesses == ("a",)
        undone = DecisionUndone(extraction=extraction_id(7), candidate=0)
        for end in (judged("a", "failure"), undone):
            assert folded(*known, end).items["owl"].state == "unsupported"
        assert folded(*known, undone, replace(undone, lifted=True)).items["owl"].support == 1
    fallen = folded(judged("a", "failure"), *alone, *original)
    assert fallen.items["owl"].state == "unsupported" and (extraction_id(1), 0) in fallen.due.pairs


def test_a_decision_that_comes_before_its_extraction_is_ignored() -> None:
    """The candidate must have been registered by an earlier event."""
    assert not folded(*reversed(BORN)).items


def test_what_somebody_vouched_for_needs_no_support() -> None:
    """Until somebody else ends it."""
    drawn = replace(BORN[0], relied=(Reliance(run="r1", verdict="success"),))
    events = (drawn, BORN[1], overruled("r1", "failure"), MemoriesRestored(ids=("owl",)))
    entry = folded(*events).items["owl"]
    assert (entry.state, entry.vouched, entry.support) == ("active", True, 0)
    assert folded(*events, MemoriesRetracted(ids=("owl",))).items["owl"].state == "withdrawn"


def test_parts_of_a_correction_hold_from_its_completion_or_never() -> None:
    """Decisions made again, forgetting, and what comes back."""
    born = (extracted(0, OWL, CAT), consolidated(0, decide(0, "add", "owl"), decide(1, "skip", "cat", "owl")))
    again = replace(
        consolidated(0, replace(decide(1, "add", "cat"), extraction=extraction_id(0))),
        extraction=None,
        again=True,
        correction="c1",
    )
    parts = (again, MemoriesForgotten(ids=("owl",), policy="bounded-1", correction="c1"))
    before, after = folded(*born, *parts), folded(*born, *parts, CorrectionCompleted(correction="c1", rule=1))
    assert before.items == folded(*born).items
    assert {id: (entry.state, entry.support) for id, entry in after.items.items()} == {
        "owl": ("forgotten", 1),
        "cat": ("active", 1),
    }
    assert after.items["cat"].rank == (2, 1), "its place is that of the first decision about it"
    assert not after.prepared


def test_setting_the_state_that_an_item_has_changes_nothing() -> None:
    """An item forgotten twice ended the first time."""
    forgotten = MemoriesForgotten(ids=("owl",), policy="bounded-1")
    assert folded(*BORN, forgotten, forgotten).items["owl"].ended_seq == 3


def test_ids_that_nobody_knows_bring_nothing_to_life() -> None:
    """What was forgotten before it was born is born; what was rejected before, stays out."""
    forgotten, rejected = (
        MemoriesForgotten(ids=("owl",), policy="bounded-1"),
        MemoriesRetracted(ids=("cat",), how="rejected"),
    )
    state = folded(forgotten, rejected, *BORN, MemoriesRestored(ids=("nobody",)))
    assert {id: entry.state for id, entry in state.items.items()} == {"owl": "active", "cat": "rejected"}


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


def test_wins_follow_the_standing_learning_verdict() -> None:
    """Judged before the use or after it, overruled or not; scoring never counts."""
    use = ContextBuilt(run="r1", chars=1, items=("owl",))
    for events, expected in (
        ([use, judged("r1", "success")], 1),
        ([judged("r1", "success"), use], 1),
        ([use, judged("r1", "success"), overruled("r1", "failure")], 0),
        ([use, judged("r1", "failure"), overruled("r1", "success"), judged("r1", "success", "scoring")], 1),
        ([use, judged("r1", "success", "scoring")], 0),
        ([use, judged("r2", "success")], 0),
    ):
        state = folded(*events)
        assert (wins(state, "owl"), usage(state)["owl"]) == (expected, (1, expected))
    assert wins(folded(use), "nobody") == 0


def test_a_run_exists_from_its_first_start() -> None:
    """A second start changes nothing; without a start there is no run, but what was recorded counts once there is."""
    finish = RunFinished(run="r1", outcome="submitted", iterations=4)
    assert not folded(finish, StepTaken(run="r1", index=1)).runs
    run = folded(finish, RunStarted(run="r1", model="first"), RunStarted(run="r1", model="second")).runs["r1"]
    assert (run.model, run.started_seq, run.outcome, run.iterations) == ("first", 2, "submitted", 4)


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
