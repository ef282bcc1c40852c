"""Hypothesis strategies for events and for whole histories of a bank, sensible and not; `pools.py` has their values.

histories()        lists of events as a writer makes them: no position, no time, an id only on extractions
stamped(events)    the same with position, time and id, as a log would give them
restamped(events)  the same history at other positions and times, under other event ids
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es.events import (
    ArtifactMaterialised,
    BankCreated,
    Candidate,
    ConsolidationProposed,
    ContentErased,
    CorrectionCompleted,
    Decision,
    DecisionUndone,
    ErasedUnit,
    Event,
    ItemsLinked,
    JudgmentOverruled,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    MemoryProposed,
    NoteLogged,
    OntologyRegistered,
    PolicyChoice,
    PolicySet,
    Reliance,
    RunJudged,
    WordsEmbedded,
)
from rbank_es.events.items import ItemHead, ItemText
from rbank_es.events.memory_events import EndKind, ExtractionKind, ReturnKind
from rbank_es.events.run_events import JudgeKind, VerdictValue
from rbank_es.events.vector_text import text_digest, text_of_item, vector_text
from tests import run_chapters
from tests.pools import (
    CALLS,
    DOMAINS,
    ERASED,
    GUIDES,
    ITEMS,
    RUNS,
    counts,
    extraction_id,
    heads,
    item_ids,
    maybe_counts,
    maybe_runs,
    one_of_each,
    runs,
    several,
    some_items,
    texts,
    two_items,
    uuid_of,
    words,
)


@dataclass
class Story:
    """What a history has told so far; the next event may refer to it."""

    erased: bool = False
    extractions: list[MemoriesExtracted] = field(default_factory=list)
    corrections: int = 0

    @property
    def pairs(self) -> list[tuple[str, int, str]]:
        """The candidates so far: extraction, index, item."""
        return [(each.id, index, head.id) for each in self.extractions for index, head in enumerate(each.heads)]


VERDICTS = get_args(VerdictValue)
relied = several([Reliance(run=run, verdict=verdict) for run in RUNS for verdict in VERDICTS], 3)
JUDGED = one_of_each(
    RUNS,
    ("learning", "learning", "learning", "scoring"),
    VERDICTS,
    ("judge-1", "judge-2"),
    get_args(JudgeKind),
    (False, True),
    (None, 0.5, 1.0),
    (False, True),
    (False, True),
    CALLS,
)


def _judged(draw: st.DrawFn, story: Story) -> list[Event]:
    run, purpose, verdict, judge, kind, sure, confidence, overruled, supervised, calls = draw(JUDGED)
    facts: dict[str, Any] = {
        "run": run,
        "purpose": purpose,
        "verdict": verdict,
        "judge": judge,
        "judge_version": "1",
        "kind": kind,
        "sure": sure,
        "confidence": confidence,
        "reason": draw(texts),
    }
    if overruled:
        return [JudgmentOverruled(**facts, by="someone")]
    shown = tuple(dict.fromkeys(draw(two_items)))
    return [RunJudged(**facts, supervised=supervised, calls=calls, precedents=shown)]


candidates = st.lists(words, max_size=3).map(tuple)
candidates_or_erased = st.lists(st.one_of(words, words, ERASED), max_size=3).map(tuple)
EXTRACTED = one_of_each(get_args(ExtractionKind), (False, False, True), CALLS, (0, 0, 0, 0, 1, -1))
two_runs = several(RUNS, 2)


def _extracted(draw: st.DrawFn, story: Story) -> list[Event]:
    given: tuple[Candidate, ...] = draw(candidates_or_erased if story.erased else candidates)
    kind, pending, calls, surplus = draw(EXTRACTED)
    extraction = MemoriesExtracted(
        id=extraction_id(len(story.extractions)),
        kind=kind,
        runs=draw(two_runs),
        relied=draw(relied),
        pending=pending,
        calls=calls,
        heads=tuple(draw(heads) for _ in range(max(0, len(given) + surplus))),
        candidates=given,
    )
    story.extractions.append(extraction)
    return [extraction]


DECIDED = one_of_each(range(8), ("add", "add", "skip", "merge", "supersede", "discard"), ITEMS)


def _decision(draw: st.DrawFn, known: Sequence[ItemHead], index: int) -> Decision:
    luck, action, item = draw(DECIDED)
    sensible = index < len(known) and luck > 0
    return Decision(candidate=index, action=action, item=known[index].id if sensible else item, targets=draw(two_items))


odd_indexes = several(range(4), 4)


def _consolidation(draw: st.DrawFn, id: str, known: Sequence[ItemHead]) -> MemoriesConsolidated:
    indexes = draw(odd_indexes) if draw(st.integers(0, 3)) == 0 else range(len(known))
    decisions = tuple(_decision(draw, known, index) for index in indexes)
    return MemoriesConsolidated(extraction=id, policy="dedup-1", decisions=decisions)


def _consolidated(draw: st.DrawFn, story: Story) -> list[Event]:
    number = draw(st.integers(0, len(story.extractions) + 1))
    known = story.extractions[number].heads if number < len(story.extractions) else ()
    return [_consolidation(draw, extraction_id(number), known)]


def _learned(draw: st.DrawFn, story: Story) -> list[Event]:
    extraction = _extracted(draw, story)
    return [*extraction, _consolidation(draw, extraction[0].id, story.extractions[-1].heads)]


ANY_PAIR = one_of_each([extraction_id(number) for number in range(4)], range(4), ITEMS)


def _pair(draw: st.DrawFn, story: Story) -> tuple[str, int, str]:
    """A candidate as an event names it: mostly a known one."""
    if story.pairs and draw(st.integers(0, 7)) > 0:
        return draw(st.sampled_from(story.pairs))
    return draw(ANY_PAIR)


def _again(draw: st.DrawFn, story: Story, correction: str | None) -> MemoriesConsolidated:
    """Decisions made again, about candidates of several extractions."""
    decisions = []
    for extraction, index, item in [_pair(draw, story) for _ in range(draw(st.integers(0, 4)))]:
        decided = _decision(draw, (), index)
        decisions.append(replace(decided, extraction=extraction, item=item))
    again = draw(st.integers(0, 7)) > 0
    return MemoriesConsolidated(again=again, correction=correction, policy="reconcile-1", decisions=tuple(decisions))


ACTS = one_of_each(
    ("forgotten", "restored", "restored", "retracted", "retracted", "admitted", "undone"),
    get_args(ReturnKind),
    get_args(EndKind),
    (False, True),
    (*(None,) * len(RUNS), *RUNS),
    (*(None,) * len(VERDICTS), *VERDICTS),
)


def _act(draw: st.DrawFn, story: Story, correction: str | None) -> Event:
    """What ends items, or brings them back."""
    ids = draw(some_items)
    kind, restored, ended, lifted, run, verdict = draw(ACTS)
    if kind == "forgotten":
        return MemoriesForgotten(ids=ids, policy="bounded-1", correction=correction, why="a reason")
    if kind == "restored":
        return MemoriesRestored(ids=ids, how=restored, correction=correction, why="a reason")
    if kind == "admitted":
        return MemoriesAdmitted(ids=ids, by="someone")
    extraction, index, _ = _pair(draw, story)
    if kind == "undone":
        return DecisionUndone(extraction=extraction, candidate=index, lifted=lifted)
    if ended != "tainted":
        return MemoriesRetracted(ids=ids, how=ended, why="a reason")
    return MemoriesRetracted(how=ended, extractions=(extraction,), run=run, verdict=verdict)


def _ended(draw: st.DrawFn, story: Story) -> list[Event]:
    return [_act(draw, story, None)]


def _decided_again(draw: st.DrawFn, story: Story) -> list[Event]:
    return [_again(draw, story, None)]


def _corrected(draw: st.DrawFn, story: Story) -> list[Event]:
    """Parts of a correction, sometimes of an earlier one, and mostly its end; other events may come between."""
    if draw(st.integers(0, 3)) > 0:
        story.corrections += 1
    correction = f"correction-{story.corrections}"
    parts: list[Event] = []
    for _ in range(draw(st.integers(0, 3))):
        parts.append(_again(draw, story, correction) if draw(st.booleans()) else _act(draw, story, correction))
        if draw(st.integers(0, 3)) == 0:
            parts += _judged(draw, story)
    if draw(st.integers(0, 3)) > 0:
        parts.append(CorrectionCompleted(correction=correction, rule=1))
    return parts


POLICY_KINDS = st.lists(
    st.sampled_from(("retrieval", "consolidation", "forgetting", "judging", "attribution")), max_size=3, unique=True
)
CHOICES = st.builds(
    PolicyChoice,
    kind=st.just("retrieval"),
    name=st.sampled_from(("bm25", "dedup", "never")),
    version=st.integers(1, 2),
    settings=st.dictionaries(st.sampled_from(("k", "weight")), st.integers(0, 3), max_size=2),
)


def _set(draw: st.DrawFn, story: Story) -> list[Event]:
    kinds = draw(POLICY_KINDS)
    policies = (replace(draw(CHOICES), kind=kind) for kind in kinds)
    settings: dict[str, dict[str, Any]] = {"judging": {"supervised": draw(st.booleans())}}
    if "attribution" in kinds:
        settings["attribution"] = {"counted": draw(st.sampled_from(("either", "injected", "read", "odd", 3)))}
    return [PolicySet(policies=tuple(replace(p, settings=settings.get(p.kind, p.settings)) for p in policies))]


def _vector_of(given: ItemText) -> str:
    digest = text_digest(text_of_item(given))
    return vector_text(digest, [int(digit, 16) - 7.5 for digit in digest[:3]])


OTHERS: st.SearchStrategy[Event] = st.one_of(
    st.builds(NoteLogged, run=maybe_runs, note=st.just('{"seen": true}')),
    st.builds(ItemsLinked, source=item_ids, target=item_ids, how=st.just("contradicts")),
    st.builds(MemoryProposed, run=runs, by=st.just("mem_add"), head=heads, candidate=words),
    st.builds(
        ConsolidationProposed,
        extraction=st.integers(0, 3).map(extraction_id),
        candidate=st.integers(0, 3),
        action=st.sampled_from(("add", "skip", "supersede")),
        targets=some_items,
    ),
    st.builds(BankCreated, name=st.just("bank"), purpose=texts),
    st.builds(
        OntologyRegistered,
        ontology=st.sampled_from(DOMAINS),
        sha256=st.sampled_from(("a" * 64, "b" * 64)),
        triples=maybe_counts,
    ),
    st.builds(
        WordsEmbedded,
        purpose=st.just("item"),
        model=st.just("m"),
        items=two_items,
        vectors=st.lists(words.map(_vector_of) | texts, max_size=2).map(tuple),
    ),
    st.builds(
        ArtifactMaterialised,
        artifact=st.sampled_from(GUIDES),
        kind=st.just("guide"),
        run=maybe_runs,
        chars=counts,
        text=texts,
    ),
)
OTHERS_AND_ERASURES = OTHERS | st.builds(
    ContentErased,
    units=st.builds(
        ErasedUnit, seq=st.integers(1, 9), path=st.sampled_from(("candidates.0", "reason")), digest=st.just("0" * 64)
    ).map(lambda unit: (unit,)),
)


def _other(draw: st.DrawFn, story: Story) -> list[Event]:
    # Only an erasure writes its record, so no writer's history has one.
    return [draw(OTHERS_AND_ERASURES if story.erased else OTHERS)]


CHAPTERS: dict[str, Callable[[st.DrawFn, Story], list[Event]]] = {
    "started": run_chapters.started,
    "finished": run_chapters.finished,
    "context": run_chapters.context,
    "retrieved": run_chapters.retrieved,
    "read": run_chapters.read,
    "tool": run_chapters.tool,
    "step": run_chapters.step,
    "lm": run_chapters.lm,
    "judged": _judged,
    "extracted": _extracted,
    "consolidated": _consolidated,
    "learned": _learned,
    "ended": _ended,
    "again": _decided_again,
    "corrected": _corrected,
    "set": _set,
    "other": _other,
}
OFTEN = (
    *("learned",) * 4, "consolidated", *("ended",) * 3, "again", "corrected", "started", "context", *("judged",) * 4,
)  # fmt: skip


@st.composite
def histories(
    draw: st.DrawFn,
    *,
    min_size: int = 0,
    max_size: int = 20,
    chapters: Iterable[str] = (*CHAPTERS, *OFTEN),
    erased: bool = False,
) -> list[Event]:
    """A history of `min_size` to `max_size` chapters (of a few events each), as writers would append them.

    `chapters` narrows what may happen (keys of `CHAPTERS`; a name given twice happens twice as often); `erased` lets
    candidates be erased ones, as a log gives them after an erasure, and adds records of
    erasures. Extractions have ids, all different.
    """
    story, events = Story(erased=erased), list[Event]()
    size = draw(st.integers(min_size, max_size))  # `lists` alone would seldom be long
    for chapter in draw(st.lists(st.sampled_from(tuple(chapters)), min_size=size, max_size=size)):
        events += CHAPTERS[chapter](draw, story)
    return events


def stamped(events: Iterable[Event], *, start: int = 1) -> list[Event]:
    """The events with gap-free positions from `start`, times a second apart, and an id where they had none."""
    began = datetime(2026, 2, 1, tzinfo=UTC)
    return [
        replace(event, seq=seq, at=_time(began + timedelta(seconds=seq)), id=event.id or uuid_of(seq, kind=0xA))
        for seq, event in enumerate(events, start)
    ]


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


REFERENCES = ("id", "extraction", "judgment", "because")


def restamped(events: Iterable[Event]) -> list[Event]:
    """A stamped history at other positions and times, and under other event ids, referred to consistently."""
    return [_moved(event) for event in events]


def _renamed(id: str) -> str:
    return "9" + id[1:]


def _moved(event: Event) -> Event:
    known = [name for name in REFERENCES if getattr(event, name, None)]
    renamed: dict[str, Any] = {name: _renamed(getattr(event, name)) for name in known}
    if isinstance(event, MemoriesConsolidated):
        renamed["decisions"] = tuple(
            replace(each, extraction=_renamed(each.extraction)) if each.extraction else each for each in event.decisions
        )
    if isinstance(event, MemoriesRetracted):
        renamed["extractions"] = tuple(map(_renamed, event.extractions))
    times = {"at": _time(datetime(2030, 1, 1, tzinfo=UTC) + timedelta(hours=event.seq))}
    if event.occurred_at is not None:
        times["occurred_at"] = event.occurred_at.replace("2026", "2020")
    return replace(event, seq=event.seq * 3 + 100, **times, **renamed)
