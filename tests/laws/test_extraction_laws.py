"""Laws of extraction: whatever a model answers and whoever else writes, no bad item, no crash, no candidate lost."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.events import Event, LmCalled, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.items import NO_WORDS, Item
from rbank_es.extraction import (
    Extraction,
    PastStep,
    consolidate,
    contrastive_extract,
    extract,
    extract_common_patterns,
    format_trajectory,
)
from rbank_es.extraction.candidates import read_answer, usable
from rbank_es.extraction.judged_run import clip
from rbank_es.law import Append, Dedup, State, active, find_similar, fold
from rbank_es.law.decisions import Decider
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.run_models import Lms
from rbank_es.testing import event_id
from tests.consolidations import decisions
from tests.effort import examples
from tests.extraction.judged_runs import LOST, TASK, WON, Extractor, answer, entry, past
from tests.faults.disk import Quick
from tests.laws.test_consolidation import banks, batches, near_items
from tests.strategies import stamped

# ---------------------------------------------------------------- answers of models

odd_texts = st.text(max_size=30) | st.text(alphabet='[]{}",:`\\#* \n\t\x00\ud800\u200b\u2028…', max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | odd_texts | st.just("long " * 900),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(odd_texts, inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["title", "description", "content", "desc", "name", "text", "tags", "id", "src", ""])
entries = st.dictionaries(names, json_values, max_size=5) | json_values
lists = st.lists(entries, max_size=6).map(lambda listed: answer(json.dumps(listed)))
GOOD = answer([entry(), entry("Look at the classes first", "g_classes()\ntells what there is.")], "")

ANSWERS = st.sampled_from([GOOD, GOOD, GOOD.split("\n", 1)[1]]) | lists
DOUBLED = None
PIECES = st.sampled_from(["", DOUBLED, "]", "[[ ## memory_items ## ]]\n", "```"]) | odd_texts


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """A good answer, or a list of anything, of which pieces are cut out, doubled, moved or replaced."""
    text = draw(ANSWERS)
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 60)))
        piece = draw(PIECES)
        text = text[:start] + (text[start:end] * 2 if piece is DOUBLED else piece) + text[end:]
    return text


def assert_valid(item: Item, src: str) -> None:
    """The item keeps every limit, can be written, and says something."""
    assert (item.src, item.polarity) == (src, "failure" if src == "failure" else "success")
    assert item.id == Item.make_id(item.title, item.content)
    assert 0 < len(item.title) <= limits.ITEM_TITLE_CHARS and 0 < len(item.content) <= limits.ITEM_CONTENT_CHARS
    assert len(item.desc) <= limits.ITEM_DESC_CHARS
    for text in (item.title, item.desc, item.content):
        text.encode()
        assert text == text.strip() and all(line.isprintable() for line in text.replace("\u200d", "").splitlines())
    assert "\n" not in item.title + item.desc and "\n\n\n" not in item.content


@given(mutations(), st.sampled_from(["success", "failure", "contrastive", "pattern"]))
def test_an_answer_gives_valid_items_or_none(text: str, src: Any) -> None:
    """At most three, each different; an entry gives an item or a flaw."""
    reading = read_answer(text, "memory_items", "why_none")
    made = usable(reading.entries or [], src)
    assert len(made.items) <= limits.EXTRACTION_ITEMS
    assert len(made.items) + len(made.flaws) == len(reading.entries or [])
    assert len({item.id for item in made.items}) == len(made.items)
    for item in made.items:
        assert_valid(item, src)


@pytest.fixture
def learning() -> Iterator[Bank]:
    """A bank that learns from one answer after the other; in the end, its log is sound and lawful."""
    with bank_of(Dedup()) as bank:
        yield bank
        bank.check()
        assert_lawful(bank, Dedup())


@pytest.mark.slow
@settings(max_examples=examples(1_000), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(mutations(), min_size=1, max_size=3), st.sampled_from(["success", "failure", "contrast", "pattern"]))
def test_a_thousand_answers_are_recorded_and_nothing_bad_reaches_the_bank(
    learning: Bank, texts: list[str], how: str
) -> None:
    """Whatever a model answers, nothing is raised: a bounded number of calls, each an event, and an extraction that has
    items or a reason; active is what is valid.
    """
    bank = learning
    began, before = bank.position, live_items(bank)
    engine = Extractor(*(text.encode("utf-8", "replace").decode() or "?" for text in texts))
    with Lms(bank, "r", {"agent": LmChoice(model="openai/x")}, model_for=lambda role, choice: engine) as lms:
        made = drawn(how, lms)
    consolidate(bank, [made])
    *calls, extracted = [event for event in bank.events(after=began) if not isinstance(event, MemoriesConsolidated)]
    assert all(isinstance(call, LmCalled) and call.role == "extractor" for call in calls)
    assert 1 <= len(calls) == max(made.tries, len(calls)) <= limits.EXTRACTION_TRIES
    assert isinstance(extracted, MemoriesExtracted) and len(extracted.heads) == len(made.items)
    assert bool(made.items) or bool(made.reason)
    born = live_items(bank) - before
    assert born <= {item.id for item in made.items}
    for item in made.items:
        assert_valid(item, made.kind)


def live_items(bank: Bank) -> set[str]:
    with bank.latest.at(bank.position) as basis:
        return set(active(basis.state))


def drawn(how: str, lms: Lms) -> Extraction:
    """Return the candidates that a model draws from one run, or from several."""
    if how in ("success", "failure"):
        return extract(past(), TASK, WON if how == "success" else LOST, lms)
    if how == "contrast":
        return contrastive_extract([past("a"), past("b")], TASK, [WON, LOST], lms)
    return extract_common_patterns([past("a"), past("b")], TASK, [WON, WON], lms)


# ---------------------------------------------------------------- trajectories

texts = st.text(max_size=40) | st.integers(0, 3_000).map(lambda chars: "some words\n" * (chars // 11))
steps = st.lists(st.builds(PastStep, index=st.integers(1, 99), reasoning=texts, code=texts, output=texts), max_size=8)


@given(steps, st.integers(0, 6_000))
def test_a_trajectory_keeps_its_budget_and_shows_both_ends(given_steps: list[PastStep], budget: int) -> None:
    """Whole where it fits; else the first step, then the last ones in a row, and a word on those between."""
    numbered = [replace(step, index=number) for number, step in enumerate(given_steps, 1)]
    whole, text = format_trajectory(numbered, 10**9), format_trajectory(numbered, budget)
    assert len(text) <= budget
    text.encode()
    if len(whole) <= budget:
        assert text == whole
    elif budget >= limits.EXTRACTION_TRAJECTORY_LEAST_CHARS:
        shown = [step.index for step in numbered if f"Step {step.index}\n" in text]
        assert shown[0] == 1 and shown[-1] == len(numbered)
        assert shown[1:] == list(range(len(numbered) - len(shown) + 2, len(numbered) + 1))
        assert (f"{len(numbered) - len(shown)} of {len(numbered)}]" in text) == (len(shown) < len(numbered))


@given(st.text(max_size=300) | texts, st.integers(0, 400))
def test_what_is_clipped_keeps_its_room(text: str, room: int) -> None:
    short = clip(text, room)
    assert len(short) <= room or text == short == ""
    assert (short == text) == (len(text) <= room)


# ---------------------------------------------------------------- consolidation, through a log

policies = st.sampled_from((Append(), Dedup(), Dedup(title_min=0.5, content_min=(1, 3))))
# A candidate without words is one that was erased elsewhere, and supports nothing.
worded_items = near_items.filter(lambda item: item.text != NO_WORDS)
histories = st.lists(st.lists(st.lists(worded_items, min_size=1, max_size=3), min_size=1, max_size=2), max_size=4)


@contextmanager
def bank_of(policy: Append | Dedup) -> Iterator[Bank]:
    """A bank in a temporary place, on a disk that doesn't wait."""
    with (
        tempfile.TemporaryDirectory() as place,
        Bank.create(Path(place) / "bank", policies=(policy.choice,), calls=Quick()) as bank,
    ):
        yield bank


def extraction(batch: Sequence[Item]) -> Extraction:
    return Extraction(kind="manual", items=tuple(batch))


def assert_lawful(bank: Bank, policy: Append | Dedup) -> None:
    """Each decision follows from the state at its own position; all candidates are decided about, in their order."""
    events = list(bank.events(resolve=True))
    state = State()
    for at, event in enumerate(events):
        if isinstance(event, MemoriesExtracted) and event.heads:
            made = events[at + 1]
            assert isinstance(made, MemoriesConsolidated) and made.extraction == event.id
            assert made.policy == policy.label and all(each.reason for each in made.decisions)
            again = Decider(state).decided([event])[1]
            assert isinstance(again, MemoriesConsolidated) and made.decisions == again.decisions
        state = fold([event], state)
    assert state == bank.state()
    assert all(entry.extraction for entry in state.items.values())
    assert sum(len(state.records[id].landed) for id in state.items) == len(state.candidates)


@settings(max_examples=examples(60))
@given(policies, histories, histories, st.lists(st.booleans(), max_size=12))
def test_two_writers_leave_what_one_after_the_other_would(
    policy: Append | Dedup, ours: list[list[list[Item]]], theirs: list[list[list[Item]]], faster: list[bool]
) -> None:
    """However often one slips in between the other's reading and its writing."""
    with bank_of(policy) as bank, Bank.open(bank.place, calls=Quick()) as other:
        left, turns, append = [list(map(extraction, batch)) for batch in theirs], list(faster), bank.log.append

        def slow(events: Any, **options: Any) -> Any:
            if turns and turns.pop() and left:
                consolidate(other, left.pop())
            return append(events, **options)

        bank.log.append = slow  # type: ignore[method-assign]
        for batch in ours:
            consolidate(bank, map(extraction, batch))
        for rest in left:
            consolidate(other, rest)
        assert_lawful(bank, policy)
        assert len(bank.state().candidates) == sum(len(items) for batch in [*ours, *theirs] for items in batch)


@given(policies, banks(), st.lists(batches.filter(bool), max_size=3))
def test_deciding_about_several_is_deciding_one_by_one(
    policy: Append | Dedup, state: State, history: list[list[Item]]
) -> None:
    """In one group or in many, from any state: the same decisions."""
    began = fold([], State(**{**fields(state), "policies": {"consolidation": policy.choice}}))
    events = [extraction(batch).event(event_id(number)) for number, batch in enumerate(history)]
    together = Decider(began).decided(events)
    apart: list[Event] = []
    for event in events:
        group = Decider(began).decided([event])
        apart += group
        began = fold(stamped(group, start=began.position + 1), began)
    assert list(together) == apart


def fields(state: State) -> dict[str, Any]:
    return {name: getattr(state, name) for name in state.__struct_fields__}


@given(banks(), near_items)
def test_what_is_similar_is_what_dedup_skips_for(state: State, item: Item) -> None:
    """`find_similar` over the active items in order of birth names the target of the decision."""
    born = sorted(state.items.values(), key=lambda entry: entry.rank)
    # An item that was confirmed in several domains is one of each.
    live = [
        replace(entry.item, domain=item.domain)
        for entry in born
        if entry.state == "active" and not entry.erased and (item.domain or "") in (entry.domains or ("",))
    ]
    (made,) = decisions(Dedup(), state, [item])
    if made.reason in ("new", "near-duplicate", "contradicts"):
        twin = find_similar(item, live)
        assert (made.targets if made.action == "skip" else ()) == (() if twin is None else (twin.id,))
