"""Laws of consolidation under `append` and `dedup`, over banks that make sense and banks that don't."""

from __future__ import annotations

import difflib
import random
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es.events import Decision, Event, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.items import Item, ItemHead, ItemText
from rbank_es.policies import Append, Dedup
from rbank_es.policies.known_items import KnownItems
from rbank_es.policies.words import words_of
from rbank_es.state import LiveState, State, active, evolve, fold
from tests.strategies import ITEMS, histories, stamped, uuid_of

# Few titles and few contents: near duplicates, and pairs at the very edge of being ones, are common. Most ids are new.
TITLES = ("abcdefghij", "abcdefghXY", "ABCDEFGHIJ", "abcdefghijklmno", "xyabcdefgh", "abcde", "", "Σας", "ΣΑΣ", "i̇İ")
CONTENTS = ("a b c d", "a b c", "A, b; c d!", "a b c e", "a b c d e", "é a b c", "a b", "", "—", "w x y z")
near_words = st.builds(
    ItemText,
    title=st.sampled_from((*TITLES[:4] * 3, *TITLES)),
    content=st.sampled_from((*CONTENTS[:3] * 4, *CONTENTS)),
)
near_heads = st.builds(
    ItemHead,
    id=st.sampled_from(ITEMS) | st.integers(0, 10**6).map("item-{}".format) | st.integers(0, 30).map("item-{}".format),
    src=st.sampled_from(("seed", "seed", "seed", "pattern")),
    polarity=st.sampled_from(("success", "failure")),
)
near_items = st.builds(Item.join, near_heads, near_words)
batches = st.lists(near_items, max_size=6)
policies = st.sampled_from((Append(), Dedup(), Dedup(title_min=0.5, content_min=(1, 3))))


def recorded(number: int, batch: Sequence[Item], decisions: Iterable[Decision]) -> list[Event]:
    """The two events that a writer records."""
    heads, words = tuple(item.head for item in batch), tuple(item.text for item in batch)
    extraction = MemoriesExtracted(id=uuid_of(number, kind=0xF), kind="manual", heads=heads, candidates=words)
    consolidation = MemoriesConsolidated(extraction=extraction.id, policy="any-1", decisions=tuple(decisions))
    return [extraction, consolidation]


def learn(policy: Append | Dedup, state: State, batch: Sequence[Item]) -> State:
    """Decide, record, fold."""
    events = recorded(state.position, batch, policy.decide(state, batch))
    return fold(stamped(events, start=state.position + 1), state)


@st.composite
def banks(draw: st.DrawFn) -> State:
    """Banks that hold near items, some of them ended, born in one event or in several, after any history."""
    state = fold(stamped(draw(histories(max_size=4, erased=True))))
    for batch in draw(st.lists(batches.filter(bool), max_size=3)):
        state = learn(Append(), state, batch)
    for ending in stamped(draw(histories(max_size=3, chapters=["ended"])), start=state.position + 1):
        state = evolve(state, ending)
    return state


def plain_dedup(state: State, batch: Sequence[Item]) -> list[tuple[str, tuple[str, ...], str]]:
    """The definition, word for word: every candidate against every active item, nothing asked in advance."""
    known = set(state.items)
    entries = sorted(state.items.values(), key=lambda entry: (entry.born_seq, entry.item.id))
    live = [entry.item for entry in entries if entry.state == "active" and not entry.erased]
    made: list[tuple[str, tuple[str, ...], str]] = []
    for new in batch:
        twins = [
            old.id for old in live if (old.src, old.polarity) == (new.src, new.polarity) and is_duplicate(new, old)
        ]
        if new.id in known:
            made.append(("skip", (new.id,), "same-id"))
        elif twins:
            made.append(("skip", (twins[0],), "near-duplicate"))
        else:
            made.append(("add", (), "new"))
            known.add(new.id)
            live.append(new)
    return made


def is_duplicate(new: Item, old: Item) -> bool:
    ratio = difflib.SequenceMatcher(None, new.title.lower(), old.title.lower()).ratio()
    first, second = set(words_of(new.content)), set(words_of(old.content))
    return ratio >= 0.8 and 4 * len(first & second) >= 3 * len(first | second)


@given(banks(), batches)
def test_dedup_decides_as_its_plain_definition(state: State, batch: list[Item]) -> None:
    """However it arrives at its decisions."""
    decisions = Dedup().decide(state, batch)
    for made in decisions:
        event(made.reason)
    assert [(made.action, made.targets, made.reason) for made in decisions] == plain_dedup(state, batch)


@given(st.lists(batches.filter(bool), min_size=2, max_size=5), st.data())
def test_items_that_are_kept_between_decisions_decide_as_the_plain_definition(
    history: list[list[Item]], data: st.DataObject
) -> None:
    """Whatever was added, ended and revived in between; nothing of a decision that was not recorded stays."""
    live, known = LiveState(), KnownItems()
    for batch in history:
        Dedup().decide(live.state, data.draw(batches), known)
        decisions = Dedup().decide(live.state, batch, known)
        assert [(made.action, made.targets, made.reason) for made in decisions] == plain_dedup(live.state, batch)
        events = stamped(recorded(live.state.position, batch, decisions), start=live.state.position + 1)
        endings = data.draw(histories(max_size=3, chapters=["ended"]))
        for happened in (events, stamped(endings, start=events[-1].seq + 1)):
            known.update(live.state.items[id] for id in live.advance(happened))


@given(policies, banks(), batches)
def test_every_candidate_gets_one_decision_with_a_reason(
    policy: Append | Dedup, state: State, batch: list[Item]
) -> None:
    """In the order of the candidates, each about the candidate's own id."""
    decisions = policy.decide(state, batch)
    assert [(made.candidate, made.item) for made in decisions] == [(n, item.id) for n, item in enumerate(batch)]
    assert all(made.reason for made in decisions)
    assert all(made.targets for made in decisions if made.action == "skip")


@given(banks(), batches)
def test_append_adds_exactly_the_new_ids(state: State, batch: list[Item]) -> None:
    """It is total: nothing is turned away but what is there."""
    after = learn(Append(), state, batch)
    assert after.items.keys() == state.items.keys() | {item.id for item in batch}


@given(policies, banks(), batches)
def test_the_same_extraction_twice_adds_nothing_the_second_time(
    policy: Append | Dedup, state: State, batch: list[Item]
) -> None:
    """Every candidate finds itself, or what it nearly repeats, and supports it once more."""
    once = learn(policy, state, batch)
    decisions = policy.decide(once, batch)
    assert {made.action for made in decisions} <= {"skip"}
    twice = learn(policy, once, batch)
    assert twice.items.keys() == once.items.keys()
    gained = sum(entry.support - once.items[id].support for id, entry in twice.items.items())
    assert gained == len(batch)


@given(policies, banks(), batches)
def test_every_candidate_supports_an_item(policy: Append | Dedup, state: State, batch: list[Item]) -> None:
    """None is lost: support grows by one per candidate, that of the items born included."""
    after = learn(policy, state, batch)
    before = sum(entry.support for entry in state.items.values())
    assert sum(entry.support for entry in after.items.values()) == before + len(batch)


@given(policies, banks(), batches)
def test_what_ended_stays_ended_and_what_is_active_stays_active(
    policy: Append | Dedup, state: State, batch: list[Item]
) -> None:
    """Neither policy ends or revives anything."""
    after = learn(policy, state, batch)
    assert {id: after.items[id].state for id in state.items} == {id: found.state for id, found in state.items.items()}


@given(banks(), batches)
def test_near_duplicates_never_cross_source_or_polarity(state: State, batch: list[Item]) -> None:
    """And their target is active, with its similarities on record, both at or above the thresholds."""
    after = learn(Dedup(), state, batch)
    for made, item in zip(Dedup().decide(state, batch), batch, strict=True):
        if made.reason == "near-duplicate":
            target = active(after)[made.targets[0]]
            assert (target.src, target.polarity) == (item.src, item.polarity)
            assert made.title_similarity is not None and made.title_similarity >= 0.8
            assert made.content_similarity is not None and made.content_similarity >= 0.75


@given(policies, banks(), batches, st.randoms(use_true_random=False))
def test_decisions_depend_on_nothing_but_what_the_bank_holds(
    policy: Append | Dedup, state: State, batch: list[Item], chance: random.Random
) -> None:
    """Deciding again gives the same decisions, in whatever order the items happen to be kept."""
    kept = list(state.items.items())
    chance.shuffle(kept)
    assert policy.decide(replace(state, items=dict(kept)), batch) == policy.decide(state, batch)


@given(policies, banks(), batches)
def test_recorded_decisions_replay_to_the_bank_that_deciding_gives(
    policy: Append | Dedup, state: State, batch: list[Item]
) -> None:
    """Decided by a bank whose candidates passed through the log, too."""
    extraction, consolidation = recorded(state.position, batch, policy.decide(state, batch))
    extracted, decided = stamped([extraction, consolidation], start=state.position + 1)
    halfway = evolve(state, extracted)
    held = [halfway.candidates[extraction.id, index].item for index in range(len(batch))]
    assert policy.decide(halfway, held) == consolidation.decisions  # type: ignore[attr-defined]
    assert evolve(halfway, decided) == learn(policy, state, batch)


def test_the_laws_are_tried_on_what_they_are_about() -> None:
    """Most batches hold something new, a known id and a near duplicate; else the laws above would hold of nothing."""
    seen: Counter[str] = Counter()

    @settings(max_examples=30, database=None, derandomize=True)
    @given(banks(), batches)
    def look(state: State, batch: list[Item]) -> None:
        seen.update({made.reason for made in Dedup().decide(state, batch)})

    look()
    assert min(seen[reason] for reason in ("new", "same-id", "near-duplicate")) >= 5, seen


@pytest.mark.parametrize("chars", [10, 199, 200, 201, 500])
def test_long_titles_are_compared_as_difflib_does(chars: int) -> None:
    """difflib treats texts from 200 characters on differently; the decision still follows its ratio."""
    chance = random.Random(chars)
    for _ in range(40):
        old = "".join(chance.choices("abc d", k=chars))
        new = "".join(letter if chance.random() < 0.9 else "x" for letter in old)
        pair = [Item.make(new, "same words", id="new"), Item.make(old, "same words", id="old")]
        state = learn(Append(), State(), pair[1:])
        (made,) = Dedup().decide(state, pair[:1])
        assert (made.reason == "near-duplicate") == is_duplicate(*pair)
