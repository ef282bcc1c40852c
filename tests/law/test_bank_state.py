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
    LmCalled,
    MemoriesAdmitted,
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
    Reliance,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
    type_of,
)
from rbank_es.events.derived_ids import decisions_id
from rbank_es.events.items import Item
from rbank_es.law import RELEVANT, RESOLVED, LiveState, State, active, evolve, fold, usage, wins
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


@pytest.mark.parametrize("targets", [("cat",), ("nobody",)])
@pytest.mark.parametrize("action", ["skip", "discard"])
def test_a_candidate_that_lands_elsewhere_or_nowhere_is_no_item(action: str, targets: tuple[str, ...]) -> None:
    """It stays a candidate."""
    assert list(folded(*BORN, extracted(1, DOG), consolidated(1, decide(0, action, "dog", *targets))).items) == [
        "owl",
        "cat",
    ]


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


def test_support_holds_whenever_its_item_is_born() -> None:
    """The order in which decisions are recorded makes no difference to what they add up to."""
    early = (extracted(0, OWL), extracted(1, DOG), consolidated(1, decide(0, "skip", "dog", "owl")))
    late = consolidated(0, decide(0, "add", "owl"))
    assert folded(*early, late).items["owl"].support == 2


def test_support_counts_runs_and_not_extractions() -> None:
    """However often a run was drawn from, by whatever extractor; a run whose verdict fell is no witness any more."""
    taught = [*BORN, *owl_again(1, "success", a="success"), *owl_again(2, "success", a="success")]
    assert folded(*taught).items["owl"].witnesses == (extraction_id(0), "a")
    taught += owl_again(3, "contrastive", a="success", b="failure", c="failure")
    assert folded(*taught).items["owl"].witnesses == (extraction_id(0), "a", "b", "c")
    assert folded(*taught, judged("c", "success")).items["owl"].witnesses == (extraction_id(0), "a", "b")
    assert folded(*taught, judged("b", "success"), judged("c", "success")).items["owl"].support == 2


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


@pytest.mark.parametrize(("action", "state"), [("merge", "merged"), ("supersede", "superseded")])
def test_merge_and_supersede_end_their_targets(action: str, state: str) -> None:
    """What was born before them; a later birth brings the target back."""
    took = (*BORN, extracted(1, DOG), consolidated(1, decide(0, action, "dog", "owl", "nobody")))
    after = folded(*took)
    assert (after.items["owl"].state, after.items["owl"].ended_seq) == (state, 4)
    assert (after.items["dog"].state, after.items["owl"].superseded_by) == ("active", ("dog",))
    again = folded(*took, extracted(2, OWL), consolidated(2, decide(0, "add", "owl")))
    assert (again.items["owl"].state, again.items["owl"].support) == ("active", 2)


@pytest.mark.parametrize(
    "decision",
    [decide(7, "merge", "dog", "owl"), decide(0, "merge", "elk", "owl"), decide(0, "supersede", "elk", "owl")],
    ids=["no such index", "merge of another id", "supersede by another id"],
)
def test_a_decision_about_an_unknown_candidate_is_ignored_altogether(decision: Decision) -> None:
    """No birth, no support, no end: neither for an index that was not extracted nor for another id."""
    before = folded(*BORN, extracted(1, DOG))
    after = folded(*BORN, extracted(1, DOG), consolidated(1, decision))
    assert (after.items, after.pairs, after.records) == (before.items, before.pairs, before.records)


def test_a_decision_that_comes_before_its_extraction_is_ignored() -> None:
    """The candidate must have been registered by an earlier event."""
    assert not folded(*reversed(BORN)).items


def test_items_end_and_come_back() -> None:
    """By the order of what says so, and `ended_seq` is the position of the event that set the present state."""
    forgotten = MemoriesForgotten(ids=("owl",), policy="bounded-1")
    withdrawn, rejected = MemoriesRetracted(ids=("owl",)), MemoriesRetracted(ids=("owl",), how="rejected")
    restored, supported = MemoriesRestored(ids=("owl",)), MemoriesRestored(ids=("owl",), how="supported")
    for events, state, ended in (
        ([forgotten], "forgotten", 3),
        ([forgotten, withdrawn], "withdrawn", 4),
        ([withdrawn, rejected], "rejected", 4),
        ([rejected, forgotten], "rejected", 3),
        ([forgotten, restored], "active", None),
        ([forgotten, supported], "active", None),
        ([rejected, supported], "rejected", 3),
        ([rejected, restored], "active", None),
        ([rejected, restored, forgotten], "forgotten", 5),
    ):
        entry = folded(*BORN, *events).items["owl"]
        assert (entry.state, entry.ended_seq) == (state, ended), events


def test_a_verdict_ends_what_relied_on_it_and_brings_it_back() -> None:
    """At once, however it arrived; a judgment of lower authority does neither."""
    drawn = replace(BORN[0], relied=(Reliance(run="r1", verdict="success"),))
    lm, check = judged("r1", "failure"), judged("r1", "failure", kind="check", sure=True)
    for events, state in (
        ([], "active"),
        ([lm], "unsupported"),
        ([lm, judged("r1", "success")], "active"),
        ([check, judged("r1", "success")], "unsupported"),
        ([overruled("r1", "undecided"), judged("r1", "success")], "unsupported"),
        ([overruled("r1", "success"), lm, check], "active"),
        ([judged("r1", "failure", kind="gold")], "active"),
        ([judged("r1", "failure", kind="outcome"), judged("r1", "success"), check], "unsupported"),
        ([judged("r1", "failure", kind="outcome"), judged("r1", "success", kind="outcome")], "active"),
        (
            [
                judged("r1", "success", kind="gold", supervised=True),
                judged("r1", "failure", kind="outcome"),
            ],
            "unsupported",
        ),
        (
            [
                judged("r1", "failure", kind="outcome"),
                judged("r1", "success", kind="gold", supervised=True),
            ],
            "active",
        ),
        ([overruled("r1", "success"), judged("r1", "failure", kind="outcome")], "active"),
        ([lm, judged("r1", "undecided", kind="outcome")], "unsupported"),
        ([judged("r1", "failure", "scoring")], "active"),
        ([overruled("r2", "failure")], "active"),
    ):
        assert folded(drawn, BORN[1], *events).items["owl"].state == state, events


@pytest.mark.parametrize(
    ("kind", "verdicts", "stands"),
    [
        ("contrastive", {}, True),
        ("contrastive", {"w2": "failure"}, True),
        ("contrastive", {"w1": "failure", "w2": "failure"}, False),
        ("contrastive", {"l1": "success"}, False),
        ("pattern", {"w1": "undecided"}, False),
        ("pattern", {"l1": "success"}, True),
        ("success", {"l1": "success"}, False),
    ],
)
def test_an_extraction_from_several_runs_stands_on_what_it_compared(
    kind: Any, verdicts: dict[str, Any], stands: bool
) -> None:
    """A contrast on a success and a failure, a pattern on two successes, any other on all."""
    relied = (("w1", "success"), ("w2", "success"), ("l1", "failure"))
    first = replace(BORN[0], kind=kind, relied=tuple(Reliance(run=run, verdict=v) for run, v in relied))  # type: ignore[arg-type]
    state = folded(first, BORN[1], *(overruled(run, verdict) for run, verdict in verdicts.items()))
    assert (state.items["owl"].state == "active") is stands


def test_what_somebody_vouched_for_needs_no_support() -> None:
    """Until somebody else ends it."""
    drawn = replace(BORN[0], relied=(Reliance(run="r1", verdict="success"),))
    events = (drawn, BORN[1], overruled("r1", "failure"), MemoriesRestored(ids=("owl",)))
    entry = folded(*events).items["owl"]
    assert (entry.state, entry.vouched, entry.support) == ("active", True, 0)
    assert folded(*events, MemoriesRetracted(ids=("owl",))).items["owl"].state == "withdrawn"


def test_what_an_agent_proposed_is_pending_until_somebody_else_says_it() -> None:
    """An extractor, in the same words, or a person who admits it, which is no support."""
    pending = (replace(BORN[0], pending=True), BORN[1])
    assert folded(*pending).items["owl"].state == "pending"
    admitted = folded(*pending, MemoriesAdmitted(ids=("owl",))).items["owl"]
    assert (admitted.state, admitted.support, admitted.vouched) == ("active", 1, False)
    confirmed = folded(*pending, extracted(1, OWL), consolidated(1, decide(0, "skip", "owl", "owl"))).items["owl"]
    assert (confirmed.state, confirmed.support) == ("active", 2)


def test_tainted_extractions_are_set_aside_while_a_verdict_stands() -> None:
    """And stand again when it doesn't."""
    aside = MemoriesRetracted(how="tainted", extractions=(extraction_id(0),), run="r1", verdict="failure")
    events = (*BORN, overruled("r1", "failure"), aside)
    assert folded(*events).items["owl"].state == "unsupported"
    assert folded(*events, overruled("r1", "success")).items["owl"].state == "active"


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


def test_what_a_correction_has_to_look_at_is_kept_until_one_is_completed() -> None:
    """Changed verdicts that something relied on, acts of people, and erasures."""
    drawn = replace(BORN[0], relied=(Reliance(run="r1", verdict="success"),))
    decided = replace(BORN[1], id=decisions_id(extraction_id(0)))
    state = folded(drawn, decided, judged("r1", "success"), judged("r2", "failure"))
    assert not state.due
    assert folded(drawn, BORN[1]).due.pairs == {(extraction_id(0), 0), (extraction_id(0), 1)}  # by hand
    state = folded(drawn, decided, overruled("r1", "failure"), MemoriesRetracted(ids=("cat",), how="rejected"))
    assert state.due.pairs == {(extraction_id(0), 0), (extraction_id(0), 1)}
    assert (state.due.items, len(state.due.causes), state.due.whole) == ({"cat"}, 2, False)
    done = CorrectionCompleted(correction="c1", rule=1)
    assert not folded(drawn, BORN[1], overruled("r1", "failure"), done).due


def test_setting_the_state_that_an_item_has_changes_nothing() -> None:
    """An item forgotten twice ended the first time."""
    forgotten = MemoriesForgotten(ids=("owl",), policy="bounded-1")
    assert folded(*BORN, forgotten, forgotten).items["owl"].ended_seq == 3


def test_undoing_a_decision_takes_its_candidate_out() -> None:
    """With the support that it gave, as if it had never been extracted; until that is taken back."""
    events = (*BORN, extracted(1, DOG), consolidated(1, decide(0, "skip", "dog", "owl")))
    undone = DecisionUndone(extraction=extraction_id(1), candidate=0)
    assert folded(*events).items["owl"].support == 2
    assert folded(*events, undone).items["owl"].support == 1
    assert folded(*events, undone, replace(undone, lifted=True)).items["owl"].support == 2
    born = DecisionUndone(extraction=extraction_id(0), candidate=0)
    assert list(active(folded(*BORN, born))) == ["cat"]


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
    assert state.injected == {"owl": {"r1": 1}, "nobody": {"r1": 1}}
    assert state.read == {"owl": {"r1": 2, "r3": 4}, "cat": {"r1": 2}}


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        ("either", {"owl": (2, 2), "cat": (1, 1)}),
        ("injected", {"owl": (1, 1)}),
        ("read", {"owl": (2, 2), "cat": (1, 1)}),
        ("by moonlight", {"owl": (2, 2), "cat": (1, 1)}),
    ],
)
def test_the_attribution_policy_in_force_counts_all_uses_before_it(counted: str, expected: Any) -> None:
    """The whole log by one rule, and by another one after the next change; one that is unknown here counts either."""
    attribution = PolicyChoice(kind="attribution", name="exposure", version=1, settings={"counted": counted})
    events = (
        ContextBuilt(run="r1", chars=1, items=("owl",)),
        MemoriesRead(run="r1", ids=("owl", "cat"), how="get", chars=1),
        MemoriesRead(run="r3", ids=("owl",), how="get", chars=1),
        *(judged(run, "success") for run in ("r1", "r3")),
        PolicySet(policies=(attribution,)),
    )
    assert usage(folded(*events)) == expected
    assert usage(folded(*events, PolicySet(policies=()))) == {"owl": (2, 2), "cat": (1, 1)}


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


def test_a_verdict_says_who_judged_and_whether_it_overruled() -> None:
    """One stands per run and purpose."""
    state = folded(judged("r1", "failure"), judged("r1", "success", "scoring"), overruled("r1", "success"))
    learning, scoring = state.verdicts["r1", "learning"], state.verdicts["r1", "scoring"]
    assert (learning.verdict, learning.judge, learning.overruled, learning.seq) == ("success", "ann", True, 3)
    assert (scoring.verdict, scoring.judge, scoring.overruled) == ("success", "judge", False)


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


@pytest.mark.parametrize(
    ("again", "due"),
    [
        (judged("r1", "success"), {"r1"}),
        (overruled("r1", "success"), {"r1"}),
        (judged("r1", "failure"), set()),
        (judged("r1", "success", "scoring"), set()),
        (judged("r2", "success"), set()),
    ],
    ids=["other", "overruled", "same", "score", "first"],
)
def test_where_a_policy_forgets_only_another_verdict_for_learning_makes_a_correction_due(
    again: Event, due: set[str]
) -> None:
    """It chose by wins: the same verdict again, or a score, leaves them as they were."""
    forgetting = PolicySet(policies=(PolicyChoice(kind="forgetting", name="bounded", version=1),))
    state = folded(forgetting, judged("r1", "failure"), judged("r1", "failure", "scoring"), again)
    assert state.due.runs == due


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


def test_a_live_state_copies_what_it_begins_with_only_if_asked_and_leaves_it_as_it_is() -> None:
    """To copy takes the time of the whole bank."""
    begun = fold(stamped([extracted(1, OWL), consolidated(1, Decision(candidate=0, action="add", item="owl"))]))
    apart, copied = LiveState(begun), LiveState(begun, copied=True)
    assert apart.state is begun
    assert copied.state is not begun and copied.state == begun
    for live in (apart, copied):
        live.advance(stamped([MemoriesRetracted(ids=("owl",))], start=3))
        assert (active(live.state), [*active(begun)]) == ({}, ["owl"])
