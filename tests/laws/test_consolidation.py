"""Laws of consolidation under each policy and version, over banks that make sense and banks that don't."""

from __future__ import annotations

import difflib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es.events import Decision, Event, MemoriesConsolidated, MemoriesExtracted, MemoriesRetracted
from rbank_es.events.items import NO_WORDS, Item, ItemHead, ItemText
from rbank_es.law import (
    Append,
    AppendV2,
    ConsolidationPolicy,
    Dedup,
    DedupV2,
    ItemState,
    LiveState,
    Merge,
    MergeV2,
    State,
    active,
    evolve,
    fold,
)
from rbank_es.law.contradiction import corrects
from rbank_es.law.likeness import are_near, clears, content_of, facts_of, is_same, negates, token_set
from rbank_es.law.rare_words import RareWords
from rbank_es.law.similar_items import KnownItems, Peer
from rbank_es.policies.words import distinct_words, words_of
from tests.consolidations import decisions
from tests.effort import examples
from tests.pools import ITEMS, uuid_of
from tests.strategies import histories, stamped

# Few titles and few contents: near duplicates, and pairs at the very edge of being ones, are common. Most ids are new.
TITLES = ("abcdefghij", "abcdefghXY", "ABCDEFGHIJ", "abcdefghijklmno", "xyabcdefgh", "abcde", "", "Σας", "ΣΑΣ", "i̇İ")
CONTENTS = ("a b c d", "a b c", "A, b; c d!", "a b c e", "not a b c d", "é a b c", "a b", "", "—", "w x y z")
CONTENTS += ("b c d feet", "b c d metres", "D. B c", *("b c d", "B, ç d!", "the b c; d") * 2, "d c b")
near_words = st.builds(
    ItemText, title=st.sampled_from((*TITLES[:4] * 3, *TITLES)), content=st.sampled_from((*CONTENTS[:3] * 4, *CONTENTS))
).filter(lambda words: words != NO_WORDS)  # a candidate without words counts as erased, and is never an item
near_heads = st.builds(
    ItemHead,
    id=st.sampled_from(ITEMS) | st.integers(0, 10**6).map("item-{}".format) | st.integers(0, 8).map("item-{}".format),
    src=st.sampled_from(("seed", "seed", "seed", "pattern")),
    polarity=st.sampled_from(("success", "failure")),
    domain=st.sampled_from((None, None, None, "d1")),
)
near_items = st.builds(Item.join, near_heads, near_words)
batches = st.lists(near_items, max_size=6)
policies = st.sampled_from(
    (Append(), Dedup(), Dedup(title_min=0.5, content_min=(1, 3)), Merge(), AppendV2(), DedupV2(), DedupV2(), MergeV2())
)


def recorded(number: int, batch: Sequence[Item], decisions: Iterable[Decision]) -> list[Event]:
    """The two events that a writer records."""
    heads, words = tuple(item.head for item in batch), tuple(item.text for item in batch)
    extraction = MemoriesExtracted(id=uuid_of(number, kind=0xF), kind="manual", heads=heads, candidates=words)
    consolidation = MemoriesConsolidated(extraction=extraction.id, policy="any-1", decisions=tuple(decisions))
    return [extraction, consolidation]


def learn(policy: ConsolidationPolicy, state: State, batch: Sequence[Item]) -> State:
    """Decide, record, fold."""
    events = recorded(state.position, batch, decisions(policy, state, batch))
    return fold(stamped(events, start=state.position + 1), state)


@st.composite
def banks(draw: st.DrawFn) -> State:
    """Banks that hold near items, some of them ended, born in one event or in several, after any history."""
    state = fold(stamped(draw(histories(max_size=4, erased=True))))
    for batch in draw(st.lists(batches.filter(bool), max_size=3)):
        state = learn(Append(), state, batch)
    for ending in stamped(draw(histories(max_size=3, chapters=["ended"])), start=state.position + 1):
        state = evolve(state, ending)
    rejected = draw(st.lists(st.sampled_from(sorted(state.items)), max_size=2)) if state.items else []
    for ending in stamped([MemoriesRetracted(ids=(id,), how="rejected") for id in rejected], start=state.position + 1):
        state = evolve(state, ending)
    return state


Decided = tuple[str, tuple[str, ...], str]


def plainly(
    state: State, batch: Sequence[Item], decide: Callable[[State, Item], Decided]
) -> list[tuple[str, tuple[str, ...], str]]:
    """The definition, word for word: every candidate against every item of the bank, nothing asked in advance."""
    made: list[tuple[str, tuple[str, ...], str]] = []
    number = state.position
    for new in batch:
        decision = decide(state, new)
        made.append(decision)
        # One after the other, each an extraction of its own: a candidate is weighed against those before it.
        number += 1
        events = recorded(
            10_000 + number,
            [new],
            [
                Decision(
                    candidate=0,
                    action=decision[0],  # type: ignore[arg-type]
                    item=new.id,
                    targets=decision[1],
                    pending=decision[2] == "near-rejected" or decision[2].endswith(" held"),
                )
            ],
        )
        state = fold(stamped(events, start=state.position + 1), state)
    return made


def plain_decision(state: State, new: Item) -> Decided:
    """What is decided under `dedup-1` about one candidate."""
    if not (new.title or new.desc or new.content or new.tags):
        return "discard", (), "erased"
    old = state.items.get(new.id)
    if (old is not None and old.state == "rejected") or any(bars(state, entry, new) for entry in state.items.values()):
        return "discard", (), "rejected"
    if old is not None and old.state in ("active", "pending"):
        return "skip", (new.id,), "same-id"
    if old is not None and old.state == "withdrawn":
        return "discard", (), "withdrawn"
    heirs = old.superseded_by if old is not None else ()
    for heir in heirs:
        if state.items[heir].state == "active":
            return "skip", (heir,), "superseded"
    peers = peers_of(state, new)
    alike = [peer for peer in peers if is_duplicate(new, peer)]
    twins = [peer.id for peer in alike if not are_opposites(new, peer)]
    if twins:
        return "skip", (twins[0],), "near-duplicate"
    return ("add", (alike[0].id,), "contradicts") if alike else ("add", (), "new")


def peers_of(state: State, new: Item) -> list[Item]:
    """The active items of a candidate's kind, by birth."""
    return [
        entry.item
        for entry in sorted(state.items.values(), key=lambda entry: (entry.rank, entry.item.id))
        if entry.state == "active"
        and not entry.erased
        and (entry.item.src, entry.item.polarity) == (new.src, new.polarity)
        and (new.domain or "") in (entry.domains or ("",))
    ]


def plain_likeness(state: State, new: Item) -> Decided:
    """What is decided under `dedup-2` about one candidate that a person gave."""
    if not (new.title or new.desc or new.content or new.tags):
        return "discard", (), "erased"
    old = state.items.get(new.id)
    if old is not None and old.state == "rejected":
        return "discard", (), "rejected"
    barred = rejected_words(state, new)
    if any(is_same(new, bad) for _, bad in barred):
        return "discard", (), "rejected"
    held = [id for id, bad in barred if are_near(new, bad) and not cleared(state, new, bad)]
    if old is not None and old.state in ("active", "pending"):
        return "skip", (new.id,), "same-id held" if held and old.state == "pending" else "same-id"
    if old is not None and old.state == "withdrawn":
        return "discard", (), "withdrawn"
    for heir in old.superseded_by if old is not None else ():
        if state.items[heir].state == "active":
            return "skip", (heir,), "superseded"
    peers = peers_of(state, new)
    twins = [peer.id for peer in peers if is_same(new, peer)]
    if twins:
        return "skip", (twins[0],), "same"
    if held:
        return "add", (held[0],), "near-rejected"
    tokens = token_set(content_of(new))
    shares = []
    for number, peer in enumerate(peers):
        others = token_set(content_of(peer))
        both = tokens | others
        share = Fraction(len(tokens & others), len(both)) if both else Fraction(0)
        if share >= Fraction(3, 5) or not both:
            shares.append((-share, number))
    if not shares:
        return "add", (), "new"
    nearest = peers[min(shares)[1]]
    return "add", (nearest.id,), "contradicts" if negates(new, nearest) else "near"


def cleared(state: State, new: Item, bad: Item) -> bool:
    """Whether a candidate that a person gave corrects rejected words, or says what an item does that somebody gave,
    admitted or restored."""
    facts, wrong = facts_of(new), facts_of(bad)
    for entry in state.items.values():
        acts = list(state.records[entry.item.id].acts())
        others = [act for _, act in acts if act != "admitted"]
        extraction = state.extractions[entry.extraction]
        given = extraction.kind in ("seed", "manual") and not extraction.runs
        if (
            entry.state == "active"
            and not entry.erased
            and (given or len(others) < len(acts) or others[:1] == ["vouched"])
            and entry.item.polarity == new.polarity
            and (not new.domain or entry.item.domain in (None, new.domain))
            and are_near(entry.item, bad)
            and clears(facts_of(entry.item), facts, wrong)
        ):
            return True
    return corrects(new, bad)


def rejected_words(state: State, new: Item) -> list[tuple[str, Item]]:
    """The rejected words that may bar a candidate, with the ids that they stood under, in order."""
    found = []
    for entry in state.items.values():
        if entry.state == "rejected":
            for order, pair, old in words_of_rejected(state, entry):
                if old.polarity == new.polarity and (not new.domain or old.domain in (None, new.domain)):
                    found.append(((order, f"{old.id} {pair[0]} {pair[1]}"), old))
    return [(old.id, old) for _, old in sorted(found, key=lambda each: each[0])]


def words_of_rejected(state: State, entry: ItemState) -> list[tuple[tuple[int, int], tuple[str, int], Item]]:
    """The words that stood under a rejected id when it was rejected."""
    record = state.records[entry.item.id]
    at = max(seq for seq, act in record.acts() if act == "rejected")
    return [
        (state.pairs[pair].order, pair, state.candidates[pair].item)
        for pair in record.pairs
        if state.pairs[pair].order[0] < at and not state.candidates[pair].erased
    ]


def bars(state: State, entry: ItemState, new: Item) -> bool:
    """Whether a rejected item bars a candidate: by its words as they were when it was rejected, of either polarity."""
    if entry.state != "rejected":
        return False
    words = [old for _, _, old in words_of_rejected(state, entry) if old.polarity == new.polarity]
    near = [old for old in words if contents_are_near(new, old) and not are_opposites(new, old)]
    return any(new.domain == old.domain or not new.domain or not old.domain for old in near)


def are_opposites(new: Item, old: Item) -> bool:
    """Whether title or content of one negates, and that of the other doesn't, apart from the words that both have."""
    negators = {"not", "never", "no", "none", "nothing", "neither", "nor", "cannot", "avoid", "without", "except", "t"}

    def differ(first: str, second: str) -> bool:
        one, two = set(words_of(first)), set(words_of(second))
        return bool((one - two) & negators) != bool((two - one) & negators)

    return differ(new.title, old.title) or differ(new.content, old.content)


def is_duplicate(new: Item, old: Item) -> bool:
    ratio = difflib.SequenceMatcher(None, new.title.lower(), old.title.lower()).ratio()
    return ratio >= 0.8 and contents_are_near(new, old)


def contents_are_near(new: Item, old: Item) -> bool:
    first, second = set(words_of(new.content)), set(words_of(old.content))
    return 4 * len(first & second) >= 3 * len(first | second)


def told(made: Decision) -> Decided:
    """A decision as the plain definitions give it."""
    held = " held" if made.pending and made.action == "skip" else ""
    return made.action, made.targets, made.reason + held


VERSIONS = pytest.mark.parametrize(
    ("policy", "plain"), [(Dedup(), plain_decision), (DedupV2(), plain_likeness)], ids=["dedup-1", "dedup-2"]
)


@VERSIONS
@given(state=banks(), batch=batches)
def test_dedup_decides_as_its_plain_definition(
    policy: ConsolidationPolicy, plain: Callable[[State, Item], Decided], state: State, batch: list[Item]
) -> None:
    """However it arrives at its decisions."""
    made_all = decisions(policy, state, batch)
    for made in made_all:
        event(made.reason)
    assert [told(made) for made in made_all] == plainly(state, batch, plain)


@VERSIONS
@given(history=st.lists(batches.filter(bool), min_size=2, max_size=5), data=st.data())
def test_items_that_are_kept_between_decisions_decide_as_the_plain_definition(
    policy: ConsolidationPolicy,
    plain: Callable[[State, Item], Decided],
    history: list[list[Item]],
    data: st.DataObject,
) -> None:
    """Whatever was added, ended and revived in between; nothing of a decision that was not recorded stays."""
    live, known = LiveState(), KnownItems()
    for batch in history:
        decisions(policy, live.state, data.draw(batches), known)
        made_all = decisions(policy, live.state, batch, known)
        assert [told(made) for made in made_all] == plainly(live.state, batch, plain)
        events = stamped(recorded(live.state.position, batch, made_all), start=live.state.position + 1)
        endings = data.draw(histories(max_size=3, chapters=["ended"]))
        for happened in (events, stamped(endings, start=events[-1].seq + 1)):
            changed = live.advance(happened)
            known.update(live.state, changed)


@given(banks(), batches)
def test_append_adds_exactly_the_new_ids(state: State, batch: list[Item]) -> None:
    """It is total: nothing is turned away but what is there, and what repeats rejected words."""
    after = learn(Append(), state, batch)
    new = {item.id for item in batch if not any(bars(state, entry, item) for entry in state.items.values())}
    # What somebody restored before it was there is active, whatever is decided.
    acted = {id for id, record in state.records.items() if record.recent}
    assert after.items.keys() ^ (state.items.keys() | new) <= acted


@given(policies, banks(), batches)
def test_the_same_extraction_twice_adds_nothing_the_second_time(
    policy: ConsolidationPolicy, state: State, batch: list[Item]
) -> None:
    """Every candidate finds itself, or what it nearly repeats: the extraction is one more witness of each such item."""
    once = learn(policy, state, batch)
    made_all = decisions(policy, once, batch)
    assert {made.action for made in made_all} <= {"skip", "discard"}
    twice = learn(policy, once, batch)
    assert twice.items.keys() == once.items.keys()
    gained = sum(entry.support - once.items[id].support for id, entry in twice.items.items())
    assert gained == len({target for made in made_all if made.action == "skip" for target in made.targets})


@given(policies, banks(), batches)
def test_every_candidate_supports_an_item_unless_somebody_ended_it(
    policy: ConsolidationPolicy, state: State, batch: list[Item]
) -> None:
    """None is lost: landings grow by one per candidate that isn't discarded, that of the items born included."""
    after = learn(policy, state, batch)
    landed = sum(made.action != "discard" for made in decisions(policy, state, batch))
    assert landings(after) == landings(state) + landed


def landings(state: State) -> int:
    """How many candidates support something, be it born yet or not: a decision by hand may come before the birth."""
    return sum(len(record.landed) for record in state.records.values())


@given(banks(), batches)
def test_near_duplicates_never_cross_source_or_polarity(state: State, batch: list[Item]) -> None:
    """And their target is active, with its similarities on record, both at or above the thresholds."""
    after = learn(Dedup(), state, batch)
    for made, item in zip(decisions(Dedup(), state, batch), batch, strict=True):
        if made.reason == "near-duplicate":
            target = active(after)[made.targets[0]]
            assert (target.src, target.polarity) == (item.src, item.polarity)
            assert made.title_similarity is not None and made.title_similarity >= 0.8
            assert made.content_similarity is not None and made.content_similarity >= 0.75


@given(policies, banks(), batches, st.randoms(use_true_random=False))
def test_decisions_depend_on_nothing_but_what_the_bank_holds(
    policy: ConsolidationPolicy, state: State, batch: list[Item], chance: random.Random
) -> None:
    """Deciding again gives the same decisions, in whatever order the items happen to be kept."""
    kept = list(state.items.items())
    chance.shuffle(kept)
    assert decisions(policy, replace(state, items=dict(kept)), batch) == decisions(policy, state, batch)


@given(policies, banks(), batches)
def test_recorded_decisions_replay_to_the_bank_that_deciding_gives(
    policy: ConsolidationPolicy, state: State, batch: list[Item]
) -> None:
    """Decided by a bank whose candidates passed through the log, too."""
    extraction, consolidation = recorded(state.position, batch, decisions(policy, state, batch))
    extracted, decided = stamped([extraction, consolidation], start=state.position + 1)
    halfway = evolve(state, extracted)
    held = [halfway.candidates[extraction.id, index].item for index in range(len(batch))]
    assert decisions(policy, halfway, held) == consolidation.decisions  # type: ignore[attr-defined]
    assert evolve(halfway, decided) == learn(policy, state, batch)


@pytest.mark.slow
def test_the_laws_are_tried_on_what_they_are_about() -> None:
    """Most batches hold something new, a known id and a near duplicate; else the laws above would hold of nothing."""
    seen, later = Counter[str](), Counter[str]()

    @settings(max_examples=200, database=None, derandomize=True)
    @given(banks(), batches)
    def look(state: State, batch: list[Item]) -> None:
        seen.update({made.reason for made in decisions(Dedup(), state, batch)})
        later.update({made.reason for made in decisions(DedupV2(), state, batch)})

    look()
    assert min(seen[reason] for reason in ("new", "same-id", "near-duplicate")) >= 5, seen
    reasons = ("new", "same-id", "same", "near", "contradicts", "rejected", "near-rejected")
    assert min(later[reason] for reason in reasons) >= 1, later


@pytest.mark.parametrize("chars", [10, 199, 200, 201, 500])
def test_long_titles_are_compared_as_difflib_does(chars: int) -> None:
    """difflib treats texts from 200 characters on differently; the decision still follows its ratio."""
    chance = random.Random(chars)
    for _ in range(examples(40)):
        old = "".join(chance.choices("abc d", k=chars))
        new = "".join(letter if chance.random() < 0.9 else "x" for letter in old)
        pair = [Item.make(new, "same words", id="new"), Item.make(old, "same words", id="old")]
        state = learn(Append(), State(), pair[1:])
        (made,) = decisions(Dedup(), state, pair[:1])
        assert (made.reason == "near-duplicate") == is_duplicate(*pair)


VOCABULARY = [*"abcdefghijklmn", "abc", "ÉTÉ", "été", "İz", "ΟΔΟΣ", "word", "words", "wordsmith", "x1"]


@given(
    st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=12), min_size=1, max_size=40),
    st.lists(st.sampled_from(VOCABULARY), max_size=12),
    st.sampled_from(((3, 4), (1, 2), (1, 1), (1, 5))),
    st.sampled_from(("scanned", "indexed", "in part", "again and again")),
)
def test_of_many_items_all_with_similar_contents_are_found(
    contents: list[list[str]], content: list[str], content_min: tuple[int, int], way: str
) -> None:
    """By a scan, by an index, by both, and by an index that grew with the items and ranked their words again."""
    peers = [
        Peer(Item.make("a title", " ".join(some), "success"), ((number, 0), "")) for number, some in enumerate(contents)
    ]
    words, rare = distinct_words(" ".join(content)), RareWords(content_min)
    if way == "indexed":
        rare.index(peers)
    elif way == "in part":
        rare.index(peers[: len(peers) // 2])
    elif way == "again and again":
        for upto in range(1, len(peers) + 1):
            rare.index(peers[:upto])
    numerator, denominator = content_min
    like = {
        number
        for number, peer in enumerate(peers)
        if denominator * len(peer.words & words) >= numerator * len(peer.words | words)
    }
    assert like <= set(rare.near(peers, words))


def test_ascii_text_has_the_words_that_a_search_for_runs_of_letters_and_digits_finds() -> None:
    text = "".join(f"{one}{other}" for one in map(chr, range(128)) for other in map(chr, range(128)))
    assert words_of(text) == re.findall("[a-z0-9]+", text.lower())
