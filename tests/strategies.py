"""Hypothesis strategies for events and for whole histories of a bank, sensible and not.

Ids come from small pools, so that collisions, overrules, restores, duplicates and unknown ids happen all the time.

    histories()        lists of events as a writer makes them: no position, no time, an id only on extractions
    stamped(events)    the same with position, time and id, as a log would give them
    restamped(events)  the same history at other positions and times, under other event ids
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es.events import (
    ArtifactMaterialised,
    BankCreated,
    Candidate,
    ConsolidationProposed,
    ContentErased,
    ContextBuilt,
    CorrectionCompleted,
    Decision,
    DecisionUndone,
    Erased,
    ErasedUnit,
    Event,
    Hit,
    ItemsLinked,
    JudgmentOverruled,
    LayerUse,
    LmCalled,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRead,
    MemoriesRestored,
    MemoriesRetracted,
    MemoriesRetrieved,
    MemoryProposed,
    NoteLogged,
    OntologyRegistered,
    PolicyChoice,
    PolicySet,
    Reliance,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
    WordsEmbedded,
)
from rbank_es.events.items import Item, ItemHead, ItemText, Polarity, Source, polarity_of
from rbank_es.events.memory_events import EndKind, ExtractionKind, ReturnKind
from rbank_es.events.run_events import JudgeKind, VerdictValue
from rbank_es.events.vector_text import text_digest, text_of_item, vector_text

RUNS = ("run-1", "run-2", "run-3", "run-4")
ITEMS = ("item-a", "item-b", "item-c", "item-d", "item-e", "item-f")
TOOLS = ("mem_search", "sparql_query", "ctx_peek")
DOMAINS = ("prov", "uniprot")
GUIDES = ("guide-1", "guide-2")
SOURCES: tuple[Source, ...] = get_args(Source)
WORDS = ("bound", "the", "query", "Query", "class", "label", "LIMIT", "first", "count", "taxa", "check", "prefix")
ODD = ("", "naïve café", "🦉 owl", 'a "quoted" OR b', "NEAR(x*", "nul\x00inside", "two\nlines", "Ünïcödé ΣΊΣΥΦΟΣ")

runs = st.sampled_from(RUNS)
item_ids = st.sampled_from(ITEMS)
some_items = st.lists(item_ids, max_size=3).map(tuple)
counts = st.integers(0, 5_000)
maybe_counts = st.none() | counts
# Dyadic fractions: their sums are exact in every order, in Python and in SQL.
dollars = st.none() | st.integers(0, 64).map(lambda sixteenths: sixteenths / 16)
seconds = st.none() | st.integers(0, 64).map(lambda sixteenths: sixteenths / 16)
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
texts = st.one_of(phrases, phrases, phrases, st.sampled_from(ODD))
occurred = st.none() | st.integers(0, 9).map(lambda n: f"2026-01-0{n}T12:00:00.000000Z".replace("-00T", "-10T"))


def uuid_of(number: int, kind: int = 0) -> str:
    """A well-formed version 7 UUID for a number; different kinds never meet."""
    return f"{kind:08x}-0000-7000-8000-{number:012x}"


def extraction_id(number: int) -> str:
    """The id of the extraction with that number (from 0) in a history."""
    return uuid_of(number, kind=0xE)


@st.composite
def heads(draw: st.DrawFn, ids: st.SearchStrategy[str] = item_ids) -> ItemHead:
    src = draw(st.sampled_from(SOURCES))
    polarities: tuple[Polarity, ...] = (polarity_of(src), "success", "failure")
    return ItemHead(
        id=draw(ids),
        src=src,
        polarity=draw(st.sampled_from(polarities)),
        role=draw(st.sampled_from((None, None, "planner"))),
        scope=draw(st.sampled_from(("", "", "general", "exception"))),
        domain=draw(st.sampled_from((None, *DOMAINS))),
    )


def words() -> st.SearchStrategy[ItemText]:
    tags = st.lists(st.sampled_from(("sparql", "schema")), max_size=2).map(tuple)
    return st.builds(ItemText, title=texts, desc=texts, content=texts, tags=tags)


def items(ids: st.SearchStrategy[str] = item_ids) -> st.SearchStrategy[Item]:
    """Whole items, as candidates of a consolidation."""
    return st.builds(Item.join, heads(ids), words())


ERASED = st.integers(0, 9).map(lambda digit: Erased(digest=str(digit) * 64))


calls = st.sampled_from(((), (), ("call-1",), ("call-1", "call-2")))
"""Ids of calls of a model, which no event may have."""


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


def _started(draw: st.DrawFn, story: Story) -> list[Event]:
    return [
        RunStarted(
            run=draw(runs),
            occurred_at=draw(occurred),
            ontology=draw(st.sampled_from((None, *DOMAINS))),
            model=draw(st.sampled_from((None, "model-1", "model-2"))),
            executor=draw(st.sampled_from((None, "rlm", "react"))),
            mode=draw(st.sampled_from((None, "auto", "tools", "both"))),
            iterations_max=draw(maybe_counts),
            rollout_group=draw(st.sampled_from((None, "group-1"))),
            rollout_index=draw(st.sampled_from((None, 0, 1))),
            scripted=draw(st.booleans()),
            task=draw(texts),
        )
    ]


def _finished(draw: st.DrawFn, story: Story) -> list[Event]:
    return [
        RunFinished(
            run=draw(runs),
            occurred_at=draw(occurred),
            outcome=draw(st.sampled_from(("submitted", "forced_at_limit", "failed"))),
            iterations=draw(maybe_counts),
            lm_calls=draw(maybe_counts),
            tokens_in=draw(maybe_counts),
            tokens_out=draw(maybe_counts),
            cost_usd=draw(dollars),
            duration_s=draw(seconds),
            answer_chars=draw(maybe_counts),
            answer=draw(st.none() | texts),
            sparql=draw(st.none() | texts),
            error=draw(st.none() | texts),
        )
    ]


def _context(draw: st.DrawFn, story: Story) -> list[Event]:
    layers = draw(st.lists(st.sampled_from(("base", "L0", "L1", "L2")), max_size=3, unique=True))
    uses = tuple(LayerUse(layer=layer, chars=draw(counts), truncated=draw(st.booleans())) for layer in layers)
    texts_ = tuple(draw(texts) for _ in layers)
    given = {"items": draw(some_items), "artifacts": draw(st.lists(st.sampled_from(GUIDES), max_size=1).map(tuple))}
    return [ContextBuilt(run=draw(runs), chars=draw(counts), layers=uses, texts=texts_, **given)]


def _retrieved(draw: st.DrawFn, story: Story) -> list[Event]:
    found = draw(some_items)
    mode: Literal["auto", "tool"] = draw(st.sampled_from(("auto", "tool")))
    hits = tuple(Hit(id=id, rank=rank, score=-1.0 / rank) for rank, id in enumerate(found, 1))
    k, query = draw(st.integers(0, 6)), draw(texts)
    return [MemoriesRetrieved(run=draw(st.none() | runs), mode=mode, k=k, policy="bm25-1", hits=hits, query=query)]


def _read(draw: st.DrawFn, story: Story) -> list[Event]:
    how: Literal["get", "quote"] = draw(st.sampled_from(("get", "get", "quote")))
    return [MemoriesRead(run=draw(runs), ids=draw(some_items), how=how, chars=draw(counts))]


def _tool(draw: st.DrawFn, story: Story) -> list[Event]:
    return [
        ToolCalled(
            run=draw(runs),
            tool=draw(st.sampled_from(TOOLS)),
            step=draw(st.none() | st.integers(0, 4)),
            chars=draw(maybe_counts),
            truncated=draw(st.none() | st.booleans()),
            duration_s=draw(seconds),
            error_code=draw(st.sampled_from((None, None, "timeout"))),
            result=draw(st.none() | texts),
        )
    ]


def _step(draw: st.DrawFn, story: Story) -> list[Event]:
    return [
        StepTaken(
            run=draw(runs),
            index=draw(st.integers(0, 4)),
            stdout_chars=draw(maybe_counts),
            prompt_chars=draw(maybe_counts),
            variables_n=draw(maybe_counts),
            variables_chars=draw(maybe_counts),
            code=draw(st.none() | texts),
        )
    ]


def _lm(draw: st.DrawFn, story: Story) -> list[Event]:
    return [
        LmCalled(
            run=draw(st.none() | runs),
            role=draw(st.sampled_from(("agent", "sub", "judge", "extractor"))),
            model="model-1",
            tokens_in=draw(maybe_counts),
            tokens_out=draw(maybe_counts),
            cost_usd=draw(dollars),
            response=draw(st.none() | texts),
        )
    ]


verdicts = st.sampled_from(get_args(VerdictValue))
relied = st.lists(st.builds(Reliance, run=runs, verdict=verdicts), max_size=3).map(tuple)


def _judged(draw: st.DrawFn, story: Story) -> list[Event]:
    facts: dict[str, Any] = {
        "run": draw(runs),
        "purpose": draw(st.sampled_from(("learning", "learning", "learning", "scoring"))),
        "verdict": draw(verdicts),
        "judge": draw(st.sampled_from(("judge-1", "judge-2"))),
        "judge_version": "1",
        "kind": draw(st.sampled_from(get_args(JudgeKind))),
        "sure": draw(st.booleans()),
        "confidence": draw(st.sampled_from((None, 0.5, 1.0))),
        "reason": draw(texts),
    }
    if draw(st.booleans()):
        return [JudgmentOverruled(**facts, by="someone")]
    shown = draw(st.lists(item_ids, max_size=2, unique=True).map(tuple))
    return [RunJudged(**facts, supervised=draw(st.booleans()), calls=draw(calls), precedents=shown)]


def _candidates(draw: st.DrawFn, story: Story) -> tuple[Candidate, ...]:
    one: st.SearchStrategy[Candidate] = st.one_of(words(), words(), ERASED) if story.erased else words()
    return tuple(draw(st.lists(one, max_size=3)))


def _extracted(draw: st.DrawFn, story: Story) -> list[Event]:
    candidates = _candidates(draw, story)
    surplus = draw(st.sampled_from((0, 0, 0, 0, 1, -1)))
    extraction = MemoriesExtracted(
        id=extraction_id(len(story.extractions)),
        kind=draw(st.sampled_from(get_args(ExtractionKind))),
        runs=draw(st.lists(runs, max_size=2).map(tuple)),
        relied=draw(relied),
        pending=draw(st.sampled_from((False, False, True))),
        calls=draw(calls),
        heads=tuple(draw(heads()) for _ in range(max(0, len(candidates) + surplus))),
        candidates=candidates,
    )
    story.extractions.append(extraction)
    return [extraction]


def _decision(draw: st.DrawFn, known: Sequence[ItemHead], index: int) -> Decision:
    sensible = index < len(known) and draw(st.integers(0, 7)) > 0
    return Decision(
        candidate=index,
        action=draw(st.sampled_from(("add", "add", "skip", "merge", "supersede", "discard"))),
        item=known[index].id if sensible else draw(item_ids),
        targets=draw(st.lists(item_ids, max_size=2).map(tuple)),
    )


def _consolidation(draw: st.DrawFn, id: str, known: Sequence[ItemHead]) -> MemoriesConsolidated:
    indexes = draw(st.lists(st.integers(0, 3), max_size=4)) if draw(st.integers(0, 3)) == 0 else range(len(known))
    decisions = tuple(_decision(draw, known, index) for index in indexes)
    return MemoriesConsolidated(extraction=id, policy="dedup-1", decisions=decisions)


def _consolidated(draw: st.DrawFn, story: Story) -> list[Event]:
    number = draw(st.integers(0, len(story.extractions) + 1))
    known = story.extractions[number].heads if number < len(story.extractions) else ()
    return [_consolidation(draw, extraction_id(number), known)]


def _learned(draw: st.DrawFn, story: Story) -> list[Event]:
    extraction = _extracted(draw, story)
    return [*extraction, _consolidation(draw, extraction[0].id, story.extractions[-1].heads)]


def _pair(draw: st.DrawFn, story: Story) -> tuple[str, int, str]:
    """A candidate as an event names it: mostly a known one."""
    if story.pairs and draw(st.integers(0, 7)) > 0:
        return draw(st.sampled_from(story.pairs))
    return extraction_id(draw(st.integers(0, 3))), draw(st.integers(0, 3)), draw(item_ids)


def _again(draw: st.DrawFn, story: Story, correction: str | None) -> MemoriesConsolidated:
    """Decisions made again, about candidates of several extractions."""
    decisions = []
    for extraction, index, item in [_pair(draw, story) for _ in range(draw(st.integers(0, 4)))]:
        decided = _decision(draw, (), index)
        decisions.append(replace(decided, extraction=extraction, item=item))
    again = draw(st.integers(0, 7)) > 0
    return MemoriesConsolidated(again=again, correction=correction, policy="reconcile-1", decisions=tuple(decisions))


def _act(draw: st.DrawFn, story: Story, correction: str | None) -> Event:
    """What ends items, or brings them back."""
    ids = draw(some_items)
    kind = draw(st.sampled_from(("forgotten", "restored", "restored", "retracted", "retracted", "admitted", "undone")))
    if kind == "forgotten":
        return MemoriesForgotten(ids=ids, policy="bounded-1", correction=correction, why="a reason")
    if kind == "restored":
        how = draw(st.sampled_from(get_args(ReturnKind)))
        return MemoriesRestored(ids=ids, how=how, correction=correction, why="a reason")
    if kind == "admitted":
        return MemoriesAdmitted(ids=ids, by="someone")
    extraction, index, _ = _pair(draw, story)
    if kind == "undone":
        return DecisionUndone(extraction=extraction, candidate=index, lifted=draw(st.booleans()))
    how = draw(st.sampled_from(get_args(EndKind)))
    if how != "tainted":
        return MemoriesRetracted(ids=ids, how=how, why="a reason")
    return MemoriesRetracted(
        how=how, extractions=(extraction,), run=draw(st.none() | runs), verdict=draw(st.none() | verdicts)
    )


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


def _set(draw: st.DrawFn, story: Story) -> list[Event]:
    known = st.sampled_from(("retrieval", "consolidation", "forgetting", "judging", "attribution"))
    kinds = draw(st.lists(known, max_size=3, unique=True))
    choice = st.builds(
        PolicyChoice,
        kind=st.sampled_from(kinds or ["retrieval"]),
        name=st.sampled_from(("bm25", "dedup", "never")),
        version=st.integers(1, 2),
        settings=st.dictionaries(st.sampled_from(("k", "weight")), st.integers(0, 3), max_size=2),
    )
    policies = (replace(draw(choice), kind=kind) for kind in kinds)
    settings: dict[str, dict[str, Any]] = {"judging": {"supervised": draw(st.booleans())}}
    if "attribution" in kinds:
        settings["attribution"] = {"counted": draw(st.sampled_from(("either", "injected", "read", "odd", 3)))}
    return [PolicySet(policies=tuple(replace(p, settings=settings.get(p.kind, p.settings)) for p in policies))]


def _vector_of(given: ItemText) -> str:
    digest = text_digest(text_of_item(given))
    return vector_text(digest, [int(digit, 16) - 7.5 for digit in digest[:3]])


# Made once: a strategy takes far longer to make than to draw from.
OTHERS: st.SearchStrategy[Event] = st.one_of(
    st.builds(NoteLogged, run=st.none() | runs, note=st.just('{"seen": true}')),
    st.builds(ItemsLinked, source=item_ids, target=item_ids, how=st.just("contradicts")),
    st.builds(MemoryProposed, run=runs, by=st.just("mem_add"), head=heads(), candidate=words()),
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
        items=st.lists(item_ids, max_size=2).map(tuple),
        vectors=st.lists(words().map(_vector_of) | texts, max_size=2).map(tuple),
    ),
    st.builds(
        ArtifactMaterialised,
        artifact=st.sampled_from(GUIDES),
        kind=st.just("guide"),
        run=st.none() | runs,
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
    "started": _started,
    "finished": _finished,
    "context": _context,
    "retrieved": _retrieved,
    "read": _read,
    "tool": _tool,
    "step": _step,
    "lm": _lm,
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
