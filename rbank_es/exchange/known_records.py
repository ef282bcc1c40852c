"""What of a file a bank has already: its records are compared with the log, by the ids that their identities give.

A record none of whose events is known is new. What a known record has in addition is added to it: lines at the end of
a run that has grown, a verdict that it hadn't, what was drawn under that verdict. What differs under a known id is left
out and reported. A verdict that came before doesn't come again, so that an older copy of a file undoes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from rbank_es.bank.absorbed_events import Renaming, free_run_name
from rbank_es.events import DecisionUndone, Event, MemoriesExtracted, RunJudged, RunStarted, type_of
from rbank_es.events.codec import event_types
from rbank_es.events.derived_ids import derived_id
from rbank_es.events.items import ItemText
from rbank_es.exchange.importer import ImportUnit, News, Parsed, RecordChange, untimed
from rbank_es.law import State
from rbank_es.law.decisions import same_but_held
from rbank_es.log import EventLog

_LOOKUPS = 2_000
"""Ids that are looked up one by one; for more, reading the log once is quicker."""

_GAP = 64
"""Known positions are read in one piece where no more events than this are between two of them."""

OF_RUNS = ("run_started", "context_built", "tool_called", "step_taken", "run_finished")
"""Types of the events that the lines of a recorded run tell of."""


def news_of(log: EventLog, parsed: Parsed, position: int, state: Callable[[], State]) -> News:
    """Return what of a parsed file is new at a position of a log; `state` returns the state there."""
    if all(unit.by_id for unit in parsed.units):
        return _news_by_id(log, parsed, position)
    known = stored_events(log, [unit.events[0].id for unit in parsed.units if unit.events], position)
    copies = any(unit.copy for unit in parsed.units)
    if not known and not copies:
        return News(list(parsed.units))
    return _Comparison(log, parsed, position, known, state if copies else None).news()


def _news_by_id(log: EventLog, parsed: Parsed, position: int) -> News:
    """Return what is new of units whose events need no comparison: those whose ids the log hasn't."""
    units, changes = list[ImportUnit](), list[RecordChange]()
    judged = [event for unit in parsed.units for event in unit.events if isinstance(event, RunJudged)]
    known = stored_events(log, [each.id for each in judged], position)
    other = {each.id for each in judged if _is_judged_otherwise(each, known.get(each.id))}
    for unit in parsed.units:
        for run in (event.run for event in unit.events if isinstance(event, RunJudged) and event.id in other):
            changes.append(RecordChange(record=unit.record, run=run, differing=("run_judged",)))
        # A record that grew keeps its beginning, so one of which neither end is there is new.
        if not any(is_stored(log, unit.events[end].id, position) for end in (0, -1)):
            units.append(unit)
            continue
        missing = tuple(event for event in unit.events if not is_stored(log, event.id, position))
        if not missing:
            continue
        units.append(replace(unit, events=missing))
        run = getattr(missing[0], "run", None) or ""
        changes.append(RecordChange(record=unit.record, run=run, added=dict(Counter(map(type_of, missing)))))
    told = [f"taken back by the user after it came in: {run}; {_STILL}" for run in _still_there(log, parsed, position)]
    return News(units, tuple(changes), tuple(told), len(parsed.units) - len(units), len(other))


_STILL = "its lessons stay until a person gives it the verdict undecided, with rbank-es overrule"


def _still_there(log: EventLog, parsed: Parsed, position: int) -> list[str]:
    """Return the runs of a bank whose user has taken them back since."""
    return [run for started, run in parsed.withdrawn.items() if is_stored(log, started, position)]


def _is_judged_otherwise(judged: RunJudged, known: Event | None) -> bool:
    return isinstance(known, RunJudged) and known.verdict != judged.verdict


def is_stored(log: EventLog, event_id: str, position: int) -> bool:
    """Return whether a log has an event with this id up to a position."""
    seq = log.seq_of_id(event_id)
    return seq is not None and seq <= position


def stored_events(log: EventLog, ids: Iterable[str], position: int) -> dict[str, Event]:
    """Return the events of a log up to a position that have these ids, texts in place, by id."""
    wanted = set(ids)
    every = event_types().keys()
    if len(wanted) > _LOOKUPS:
        return {event.id: event for event in log.read(upto=position, resolve=every) if event.id in wanted}
    found = sorted(seq for event_id in wanted if (seq := log.seq_of_id(event_id)) is not None and seq <= position)
    events = (log.read(after=first - 1, upto=last, resolve=every) for first, last in _ranges(found))
    return {event.id: event for piece in events for event in piece if event.id in wanted}


def _ranges(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = 0
    for position in positions:
        if first and position - last > _GAP:
            yield first, last
            first = 0
        first, last = first or position, position
    if first:
        yield first, last


class _Comparison:
    """The records of a file against a log."""

    def __init__(
        self,
        log: EventLog,
        parsed: Parsed,
        position: int,
        firsts: dict[str, Event],
        state: Callable[[], State] | None,
    ) -> None:
        self._log, self._parsed, self._position, self._firsts = log, parsed, position, firsts
        # Only a copy brings a name of its own; all others end in a digest of their identity.
        self._names = set(state().runs) if state else set[str]()
        known = [unit for unit in parsed.units if unit.events and unit.events[0].id in firsts]
        self._stored = stored_events(log, {each for unit in known for each in _ids(unit)}, position)
        self._changes: list[RecordChange] = []
        self._notes: list[str] = []

    def news(self) -> News:
        """Return what is new."""
        units = [unit for each in self._parsed.units if (unit := self._new_of(each)) is not None]
        known = len(self._parsed.units) - len(units)
        left_out = sum(len(change.differing) for change in self._changes)
        return News(units, tuple(self._changes), tuple(self._notes), known, left_out)

    def _new_of(self, unit: ImportUnit) -> ImportUnit | None:
        """Return what is new of a record; None where nothing is."""
        if unit.events[0].id not in self._firsts:
            return self._named(unit)
        first = self._stored[unit.events[0].id]
        run = getattr(first, "run", None) or ""
        if unit.copy and not isinstance(first, RunStarted):  # a mark that no export of ours wrote
            self._changes.append(RecordChange(record=unit.record, run=run, differing=(type_of(unit.events[0]),)))
            return None
        missing = [*self._undone(unit), *self._missing(unit, self._stored)]
        if missing and unit.apart is not None and self._goes_on_differently(unit, run):
            return self._apart(unit, run)
        differing = sorted({type_of(event) for event in unit.events if self._differs(unit, event)})
        if missing or differing:
            self._changes.append(
                RecordChange(
                    record=unit.record,
                    run=run,
                    added=dict(Counter(type_of(event) for event in missing)),
                    differing=tuple(differing),
                )
            )
        if not missing:
            return None
        return self._of_run(replace(unit, events=tuple(missing)), run)

    def _missing(self, unit: ImportUnit, stored: dict[str, Event]) -> list[Event]:
        """Return the events of a record that are not stored; of a call that is known alone, that of its result."""
        missing: list[Event] = []
        replaced = not unit.replaced_by.isdisjoint(stored)
        for event in unit.events:
            if replaced and isinstance(event, MemoriesExtracted):
                continue
            known, answer = stored.get(event.id), unit.answers.get(event.id)
            if known is None:
                missing.append(event)
            elif answer is not None and answer.id not in stored and unit.is_unanswered(known):
                missing.append(answer)
        return missing

    def _undone(self, unit: ImportUnit) -> Iterator[Event]:
        """Yield the ends of what was drawn from a record without a verdict, where what is new was drawn under one.

        One run is one witness, and a verdict on it reaches only what relied on one.
        """
        if not any(isinstance(event, MemoriesExtracted) and event.id not in self._stored for event in unit.events):
            return
        for extraction in filter(None, map(self._stored.get, unit.replaces)):
            if isinstance(extraction, MemoriesExtracted):
                for index in range(len(extraction.heads)):
                    event_id = derived_id(extraction.id.encode(), "replaced", index)
                    if self._log.seq_of_id(event_id) is None:
                        yield DecisionUndone(id=event_id, extraction=extraction.id, candidate=index)

    def _differs(self, unit: ImportUnit, event: Event) -> bool:
        stored = self._stored.get(event.id)
        if stored is None or unit.lines:  # ids of lines follow from the whole line
            return False
        if unit.copy:
            return _has_other_words(stored, event)
        return not same_but_held(stored, event)

    # ---------------------------------------------------------------- runs that begin alike

    def _goes_on_differently(self, unit: ImportUnit, run: str) -> bool:
        """Return whether the known run has lines that this record hasn't."""
        own = self._log.read(upto=self._position, types=OF_RUNS)
        return any(getattr(event, "run", None) == run and event.id not in unit.lines for event in own)

    def _apart(self, unit: ImportUnit, run: str) -> ImportUnit | None:
        """Return what is new of a record that begins like a known run and goes on differently: it is another run."""
        count, other = 2, unit.apart(2) if unit.apart else None
        while other is not None:
            known = stored_events(self._log, _ids(other), self._position)
            first = known.get(other.events[0].id)
            if first is None:
                self._notes.append(f"{unit.record} begins like {run} and goes on differently: imported as another run")
                return _timed_as(other, unit)
            missing = self._missing(other, known)
            name = getattr(first, "run", None) or ""
            if not missing:
                return None
            if not self._goes_on_differently(other, name):
                kinds = dict(Counter(map(type_of, missing)))
                self._changes.append(RecordChange(record=unit.record, run=name, added=kinds))
                return self._of_run(_timed_as(replace(other, events=tuple(missing)), unit), name)
            count += 1
            other = unit.apart(count) if unit.apart else None
        return None

    # ---------------------------------------------------------------- names

    def _named(self, unit: ImportUnit) -> ImportUnit:
        """Return a new record under a name that is free here."""
        start = unit.events[0]
        if not unit.copy or not isinstance(start, RunStarted):
            return unit
        name = free_run_name(start.run, start.id) if start.run in self._names else start.run
        self._names.add(name)
        return self._of_run(unit, name)

    def _of_run(self, unit: ImportUnit, run: str) -> ImportUnit:
        """Return the unit as events of the run with that name here."""
        names = {getattr(event, "run", None) for event in unit.events}
        names |= {each for event in unit.events if isinstance(event, MemoriesExtracted) for each in event.runs}
        renaming = Renaming(runs={name: run for name in names if name and name != run})
        events = tuple(renaming.applied(event) for event in unit.events)
        # The bank that recorded an event is named where that is another one.
        own = (replace(each, origin=None) if each.origin == self._log.bank_id else each for each in events)
        return replace(unit, events=tuple(own))


def _ids(unit: ImportUnit) -> set[str]:
    return {event.id for event in unit.events} | unit.lines | unit.replaces | unit.replaced_by


def _timed_as(unit: ImportUnit, other: ImportUnit) -> ImportUnit:
    """Return the unit without its times if those of the same record under its other identity were left unset."""
    if any(event.occurred_at for event in other.events):
        return unit
    return replace(unit, events=tuple(untimed(event) if event.occurred_at else event for event in unit.events))


def _has_other_words(stored: Event, given: Event) -> bool:
    """Return whether a copy of an extraction has an item that its original hasn't."""
    if not isinstance(stored, MemoriesExtracted) or not isinstance(given, MemoriesExtracted):
        return False
    if not all(isinstance(text, ItemText) for text in stored.candidates):
        return False  # words that were erased would be confirmed
    here = {_words(text) for text in stored.candidates}
    return any(_words(text) not in here for text in given.candidates)


def _words(text: object) -> tuple[str, str]:
    return (text.title.strip(), text.content.strip()) if isinstance(text, ItemText) else ("", "")
