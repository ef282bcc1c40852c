"""The plan of an absorption: which events of another log are new here, and under which names they come in.

Nothing is appended. The whole other log is read before the plan is made: damage in it, an unknown type or an event
that can't be stored is found first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank.absorbed_events import (
    Renaming,
    content_id,
    free_run_name,
    is_gone,
    names_begun,
    names_in,
    same_event,
    stays,
    texts_in,
    words_digest,
    words_of,
)
from rbank_es.errors import BadEvent, BadInput
from rbank_es.events import Erased, Event, MemoriesConsolidated, MemoriesExtracted, RunStarted, type_of
from rbank_es.events.codec import check_identity, event_types
from rbank_es.events.items import ItemText
from rbank_es.events.vector_text import text_digest, text_of_item
from rbank_es.law.decisions import ids_of_decisions
from rbank_es.log import EventLog
from rbank_es.log.escaped_words import SoughtWords
from rbank_es.log.groups import system_clock, utc_text

Reached = Callable[[int], None]
"""Called with a position of the other log that was reached."""

_COMPARED_EVENTS = 1_000
"""Events that are compared at a time with those of the same ids."""

_GAP = 64
"""Known positions are read in one piece where no more events than this are between two of them."""

_NAMING = ("run_started", "memories_extracted")
_BIRTHS = ("add", "merge", "supersede")


class Refusal(Struct, frozen=True, kw_only=True):
    """An event of the other bank that stays out: its position there, and that of the event here that has its id.

    `known_at` is 0 where the other bank itself has the id twice, or gives an event an id that decisions have.
    """

    seq: int
    id: str
    type: str
    known_at: int


class AbsorptionPlan:
    """The events that an absorption would bring; `brings` answers for a position of the other log."""

    def __init__(self, upto: int, renaming: Renaming) -> None:
        self.renaming = renaming
        self.brought = self.known = self.own = self.refused = self.waiting = 0
        self.refusals: list[Refusal] = []
        self.latest, self.waiting_until = "", ""
        """The latest time of what is brought, and of what waits until it is no more in the future."""
        self.erased_there: list[tuple[int, str]] = []
        """Position and path of the texts that are here and were erased there."""
        self.items_erased_there: dict[str, None] = {}
        self.sought = SoughtWords(())
        self.erased_items: frozenset[str] = frozenset()
        # A byte for each event, because a set of positions takes fifty times as much.
        self._brought = bytearray(upto + 1)

    def brings(self, seq: int) -> bool:
        """Return whether the event at a position of the other log is brought."""
        return bool(self._brought[seq])

    def bring(self, seq: int) -> None:
        """Note that the event at a position of the other log is new here."""
        self._brought[seq] = 1
        self.brought += 1

    def wait(self, when: str) -> None:
        """Note that an event that happened at a time stays there: it is in the future, or names one that is."""
        self.waiting += 1
        self.waiting_until = max(self.waiting_until, when)

    def refuse(self, event: Event, known_at: int) -> None:
        """Note that another event has the id of one."""
        self.refused += 1
        if len(self.refusals) < limits.REFUSALS_LISTED:
            self.refusals.append(Refusal(seq=event.seq, id=event.id, type=type_of(event), known_at=known_at))


def plan_absorption(log: EventLog, other: EventLog, upto: int, reached: Reached) -> AbsorptionPlan:
    """Compare another log, up to a position, with a log.

    Raises what reading raises; `BadInput` for an event that can't be stored: without an id, or with what is no time.
    """
    held = _Held(log)
    names = _names(held, other, upto)
    plan = AbsorptionPlan(upto, names.brought)
    plan.erased_items = held.erased_items()
    _Comparison(log, held, names, plan).run(other, upto, reached)
    return plan


class _Held:
    """A log's contents: positions by id, runs by their start and starts by run, the words of items, the items born."""

    def __init__(self, log: EventLog) -> None:
        self.ids: dict[str, int] = {}
        self.starts: dict[str, str] = {}
        self.run_of: dict[str, str] = {}
        self.heads: dict[str, tuple[str, ...]] = {}
        self.words: dict[str, str] = {}
        self.born: set[str] = set()
        self._erased: set[str] = set()
        for event in log.read(upto=log.position(), resolve=("memories_extracted",)):
            self.ids[event.id] = event.seq
            if isinstance(event, RunStarted):
                self.run_of[event.id] = event.run
                self.starts.setdefault(event.run, event.id)
            elif isinstance(event, MemoriesExtracted):
                self._take(event)
            elif isinstance(event, MemoriesConsolidated):
                self.born.update(each.item for each in event.decisions if each.action in _BIRTHS)

    def _take(self, event: MemoriesExtracted) -> None:
        self.heads[event.id] = tuple(head.id for head in event.heads)
        for head, words in zip(event.heads, event.candidates, strict=False):
            if (digest := words_digest(words)) is not None:
                self.words.setdefault(head.id, digest)
            elif isinstance(words, Erased):
                self._erased.add(head.id)

    def erased_items(self) -> frozenset[str]:
        """Return the items whose words were all erased here."""
        return frozenset(self._erased - self.words.keys())


# ---------------------------------------------------------------- names


class _Names(NamedTuple):
    """Names of runs and items: `brought` are those under which the other bank's events come in.

    `alike` names one of all ids that both banks give to the same candidates. By these, events that both have are
    compared, because two items here may be one there: one whose id was taken there, so that it got the id of its words,
    and another one with the same words.
    """

    brought: Renaming
    alike: Renaming


def _names(held: _Held, other: EventLog, upto: int) -> _Names:
    """Return the names here of the other bank's runs and items that are taken by others, or were when they came in.

    An item that has its name here too keeps it; any other has the name under which a candidate of it came in.
    """
    runs, alike = dict[str, str](), dict[str, str]()
    new, same, came, born = (dict[str, str]() for _ in range(4))
    for event in other.read(upto=upto, types=_NAMING, resolve=("memories_extracted",)):
        if isinstance(event, RunStarted):
            runs.setdefault(event.run, _run_name(held, event))
        elif isinstance(event, MemoriesExtracted):
            known = held.heads.get(event.id, ())
            for index, (head, words) in enumerate(zip(event.heads, event.candidates, strict=False)):
                if index >= len(known):
                    new.setdefault(head.id, _new_name(held, head.id, words))
                elif known[index] == head.id:
                    (born if head.id in held.born else same)[head.id] = head.id
                elif _is_same(head.id, content_id(words), known[index]):
                    came.setdefault(head.id, known[index])
                    _unite(alike, head.id, known[index])
    brought = Renaming(_changed(runs), _changed(new | same | came | born))
    return _Names(brought, Renaming({}, {name: _root(alike, name) for name in alike}))


def _is_same(there: str, content: str | None, here: str) -> bool:
    """Return whether two ids of one candidate name the same item: only the id of its words takes the place of another.

    `content` is the id of its words there. Where these were erased, nothing speaks against it.
    """
    return content is None or content in (here, there)


def _root(alike: Mapping[str, str], name: str) -> str:
    while name in alike:
        name = alike[name]
    return name


def _unite(alike: dict[str, str], one: str, other: str) -> None:
    roots = {_root(alike, one), _root(alike, other)}
    if len(roots) == 2:
        alike[max(roots)] = min(roots)


def _changed(names: Mapping[str, str]) -> dict[str, str]:
    return {there: here for there, here in names.items() if there != here}


def _run_name(held: _Held, event: RunStarted) -> str:
    there, here = event.run, held.run_of.get(event.id)
    if here is not None:  # the same run, which one of the two banks had to give another name
        renamed = free_run_name(there, event.id) == here or free_run_name(here, event.id) == there
        return here if renamed else there
    return free_run_name(there, event.id) if there in held.starts else there


def _new_name(held: _Held, there: str, words: Any) -> str:
    """Return the id here of an item there, from a candidate that is new here."""
    mine, theirs = held.words.get(there), words_digest(words)
    return there if mine is None or theirs is None or mine == theirs else content_id(words) or there


# ---------------------------------------------------------------- comparison


class _Comparison:
    """The comparison of another log with what a log has."""

    def __init__(self, log: EventLog, held: _Held, names: _Names, plan: AbsorptionPlan) -> None:
        self._log, self._held, self._names, self._plan = log, held, names, plan
        self._latest = utc_text(system_clock() + int(limits.CLOCK_AHEAD_S * 1_000_000))
        self._erased_here: set[str] = set()
        # Names that only events have that wait, and those of items that came with an event before these.
        self._absent, self._came = set[str](), set[str]()

    def run(self, other: EventLog, upto: int, reached: Reached) -> None:
        events = other.read(upto=upto, resolve=event_types().keys())
        while batch := list(islice(events, _COMPARED_EVENTS)):
            known: list[Event] = []
            for event in batch:
                self._take(event, known)
            self._compare(known)
            reached(batch[-1].seq)
        self._plan.sought = SoughtWords(self._erased_here)

    def _take(self, event: Event, known: list[Event]) -> None:
        if stays(event):
            self._plan.own += 1
            return
        self._check(event)
        seq = self._held.ids.get(event.id)
        if seq:
            known.append(event)
            return
        when = event.occurred_at or event.at
        if when > self._latest or (self._absent and not self._absent.isdisjoint(names_in(event))):
            self._plan.wait(when)
            self._absent |= names_begun(event) - self._came - self._held.words.keys() - self._held.starts.keys()
            return
        # Ids of decisions follow from that of the extraction, so a bank that has one of them can't decide about it.
        reserved = (event.id, *(ids_of_decisions(event) if isinstance(event, MemoriesExtracted) else ()))
        if any(id in self._held.ids for id in reserved):
            self._plan.refuse(event, 0)
            return
        self._held.ids.update(dict.fromkeys(reserved, 0))
        self._plan.bring(event.seq)
        self._plan.latest = max(self._plan.latest, when)
        if isinstance(event, MemoriesExtracted):
            self._came |= names_begun(event)
        if isinstance(event, MemoriesExtracted) and self._plan.erased_items:
            for head, words in zip(event.heads, event.candidates, strict=False):
                if head.id in self._plan.erased_items:
                    self._bar(words)

    def _bar(self, text: Any) -> None:
        """Note words that were erased here, and the digest under which a vector of them is kept."""
        self._erased_here.update(words_of(text))
        if isinstance(text, str | ItemText):
            self._erased_here.add(text_digest(text if isinstance(text, str) else text_of_item(text)))

    def _check(self, event: Event) -> None:
        try:
            check_identity(replace(event, occurred_at=event.occurred_at or event.at or None))
        except BadEvent as error:
            raise BadInput(f"the event at position {event.seq:,} of the other bank can't be stored: {error}") from None
        if not event.id:
            raise BadInput(f"the event at position {event.seq:,} of the other bank has no id, so it can't be absorbed")

    def _compare(self, known: list[Event]) -> None:
        mine = dict(_stored(self._log, [self._held.ids[event.id] for event in known]))
        for event in known:
            seq = self._held.ids[event.id]
            given = self._plan.renaming.applied(event)
            stored, given = (self._names.alike.applied(each) for each in (mine[seq], given))
            if not same_event(stored, given):
                self._plan.refuse(event, seq)
                continue
            self._plan.known += 1
            for (name, index, here), (_, _, there) in zip(texts_in(stored), texts_in(given), strict=True):
                if isinstance(here, Erased):
                    self._bar(there)
                elif isinstance(there, Erased) and not is_gone(here, name, stored):
                    self._erased_there(stored, name, index)

    def _erased_there(self, stored: Event, name: str, index: int) -> None:
        row = isinstance(getattr(stored, name), tuple)
        self._plan.erased_there.append((stored.seq, f"{name}.{index}" if row else name))
        if isinstance(stored, MemoriesExtracted) and name == "candidates":
            self._plan.items_erased_there[stored.heads[index].id] = None


class _Stretch(NamedTuple):
    """Positions of a log from the first to the last, both included."""

    first: int
    last: int


def _stored(log: EventLog, positions: Iterable[int]) -> Iterator[tuple[int, Event]]:
    """Yield the events at and between some positions, with their texts; those that are near in one piece."""
    for stretch in _stretches(sorted(positions)):
        for event in log.read(after=stretch.first - 1, upto=stretch.last, resolve=event_types().keys()):
            yield event.seq, event


def _stretches(positions: Iterable[int]) -> Iterator[_Stretch]:
    stretch: _Stretch | None = None
    for seq in positions:
        if stretch is not None and seq - stretch.last <= _GAP:
            stretch = _Stretch(stretch.first, seq)
            continue
        if stretch is not None:
            yield stretch
        stretch = _Stretch(seq, seq)
    if stretch is not None:
        yield stretch
