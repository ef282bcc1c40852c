"""The import of files: checked, planned against the bank's state, and appended; a second import adds nothing.

Planning is pure: it decides about candidates by the consolidation policy in force.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank.bank import Bank
from rbank_es.bank.decisions import Decider, Latest, optimistically, same_but_held
from rbank_es.errors import BadImport, DuplicateEvent
from rbank_es.events import Event, MemoriesConsolidated, RunStarted
from rbank_es.events.codec import event_types
from rbank_es.exchange.importer import TIMESTAMP, ImportUnit, Parsed, events_of, parse, recorded_time, utc_text
from rbank_es.log import Appended, EventLog
from rbank_es.policies.admission import held_back
from rbank_es.policies.known_items import KnownItems
from rbank_es.state import BIRTHS, State
from rbank_es.system.files import kind_of
from rbank_es.system.given_file import read_given
from rbank_es.system.progress import OnProgress

# Ids of an import that are looked up one by one; for more, reading the log once is quicker.
_LOOKUPS = 8

SUFFIXES = frozenset({".json", ".jsonl"})
"""Suffixes of the files of a directory; a file that is named itself may have any suffix."""


class FileImport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one file. A group is appended together or not at all.

    `groups_known` groups were in the bank already; `appended` counts events; `first` and `last` are positions, 0 if
    nothing was appended. `items_added` and `items_skipped` count decisions. `left_out` counts events of an export
    that have no place in another bank. `times_unset` counts events whose time has no zone and was left unset.
    """

    path: str
    form: str
    groups: int = 0
    groups_known: int = 0
    appended: int = 0
    items_added: int = 0
    items_skipped: int = 0
    runs: int = 0
    left_out: int = 0
    times_unset: int = 0
    first: int = 0
    last: int = 0


class ImportReport(msgspec.Struct, frozen=True):
    """The outcome of an import, file by file, in order."""

    files: tuple[FileImport, ...]

    @property
    def appended(self) -> int:
        """Events appended."""
        return sum(file.appended for file in self.files)


def files_in(paths: Iterable[str | Path]) -> list[Path]:
    """Return the files named, and those below the directories named that end in .json or .jsonl, sorted by path.

    Raises `BadImport` for a path that doesn't exist, and for a directory without such a file.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and kind_of(file) == "a file")
        if not inside:
            raise BadImport(str(path), "no file below this directory ends in .json or .jsonl")
        found += inside
    return found


def read_file(path: Path) -> Parsed:
    """Read and parse a file. Raises `BadImport`, also for a time with a zone in the future; `LimitExceeded`."""
    try:
        # A link that a user names is followed; `files_in` leaves out those that it finds.
        data = read_given(path, limits.IMPORT_FILE_BYTES)
    except OSError as error:
        raise BadImport(str(path), error.strerror or str(error)) from None
    parsed, now = parse(str(path), data), utc_text(datetime.now(UTC))
    for event in events_of(parsed.units):
        if event.occurred_at and event.occurred_at > now and event.id not in parsed.zoneless:
            reason = f"the time {event.occurred_at} is in the future: here it is {now}; correct the time or the clock"
            raise BadImport(str(path), reason)
    return parsed


def import_paths(bank: Bank, paths: Iterable[str | Path], progress: OnProgress | None = None) -> ImportReport:
    """Import files, and all .json and .jsonl files of directories, in the order of the times at which they begin.

    Files without times come first, as named and then by path: what they hold is older than any run that used it.
    Times without a zone are read as UTC. If one of them then lies in the future, their zone is another, unknown one:
    all such times of its file are left unset, and kept as written in `extra`.
    All files are read and checked before the first is appended, so a broken one stops the import before it begins.
    A file is one atomic append, or as few as the limits of an append allow; if the process ends between two of them,
    importing the file again adds the rest. What is in the bank already, by the ids of its events, is not added again
    and not decided again.

    Raises `BadImport`, `LimitExceeded`, `BadPolicy`; `DuplicateEvent` if an exported event is known with other
    content; `PositionConflict` if other writers were faster `limits.IMPORT_TRIES` times; and as `EventLog.append`.
    """
    files = files_in(paths)
    if len(files) > 1:
        # Each is parsed twice, because all of them together may not fit into memory.
        files.sort(key={path: _began(read_file(path)) for path in files}.__getitem__)
    sizes = [path.stat().st_size if path.is_file() else 0 for path in files]
    importer = _Importer(bank.log, bank.latest)
    reports: list[FileImport] = []
    # File by file, because decisions about one depend on the items of those before.
    for number, path in enumerate(files):
        reports.append(importer.add(read_file(path)))
        if progress is not None:
            progress(sum(sizes[: number + 1]), sum(sizes))
    return ImportReport(tuple(reports))


def _began(parsed: Parsed) -> str:
    """Return the time of the first thing that happened in a file; empty where it has no times."""
    return min((event.occurred_at for event in events_of(parsed.units) if event.occurred_at), default="")


def _without_false_times(parsed: Parsed) -> tuple[Parsed, int]:
    """Return the file without its times that have no zone and can't be UTC, and of how many events they were."""
    now = utc_text(datetime.now(UTC))
    if all((event.occurred_at or "") <= now for event in events_of(parsed.units)):
        return parsed, 0
    units = tuple(
        replace(unit, events=tuple(_untimed(event) if event.id in parsed.zoneless else event for event in unit.events))
        for unit in parsed.units
    )
    return replace(parsed, units=units), len(parsed.zoneless)


def _untimed(event: Event) -> Event:
    kept = msgspec.json.decode(getattr(event, "extra", None) or "{}")
    written = {TIMESTAMP: recorded_time(event.occurred_at or "")} | kept
    return replace(event, occurred_at=None, extra=msgspec.json.encode(written, order="sorted").decode())


class _Importer:
    """A writer of parsed files to one log."""

    def __init__(self, log: EventLog, latest: Latest) -> None:
        self._log, self._latest = log, latest

    def add(self, parsed: Parsed) -> FileImport:
        parsed, times_unset = _without_false_times(parsed)
        report = FileImport(
            path=parsed.path,
            form=parsed.form,
            groups=len(parsed.units),
            groups_known=len(parsed.units),
            left_out=parsed.left_out,
            times_unset=times_unset,
        )

        def try_once(position: int) -> FileImport:
            nonlocal report
            new = _unknown(parsed, _known(self._log, parsed, position))
            for batch in _batches(self._planned(parsed, new, position)):
                appended = self._log.append(events_of(batch), expected=position)
                position = appended.last
                # Another process imported the same file meanwhile; its import counts, not this one.
                report = report if appended.duplicate else _counted(report, len(batch), appended)
            return report

        done = optimistically(self._log, try_once, limits.IMPORT_TRIES)
        # A file that was known already left no time unset in this bank.
        return done if done.appended else replace(done, times_unset=0)

    def _planned(self, parsed: Parsed, new: list[ImportUnit], position: int) -> list[ImportUnit]:
        if parsed.decided or not new:
            return new
        with self._latest.at(position) as basis:
            return list(plan(basis.state, new, basis.known))


def _known(log: EventLog, parsed: Parsed, position: int) -> Collection[str]:
    """Return the ids of the file's events that the log has; of a source without ids, only of each unit's first."""
    if parsed.exported:
        given = {event.id: event for event in events_of(parsed.units)}
        stored = log.read(upto=position, resolve=event_types().keys())
        return {_same(event, given[event.id]) for event in stored if event.id in given}
    wanted = {unit.events[0].id for unit in parsed.units}
    # Only the first event of each unit, because units are appended whole.
    if len(wanted) <= _LOOKUPS:
        return {event_id for event_id in wanted if log.seq_of_id(event_id) is not None}
    return wanted.intersection(event.id for event in log.read(upto=position))


def _same(stored: Event, given: Event) -> str:
    # By the rule of `parse_exported`: a time of recording stands in where there is no other.
    if not same_but_held(replace(stored, occurred_at=stored.occurred_at or stored.at), given):
        raise DuplicateEvent(stored.id, stored.seq, "with other content")
    return stored.id


def _unknown(parsed: Parsed, known: Collection[str]) -> list[ImportUnit]:
    """Return the units that are not in the log; of an export, which may end anywhere, their unknown events."""
    if not parsed.exported:
        return [unit for unit in parsed.units if unit.events[0].id not in known]
    rest = (
        replace(unit, events=tuple(event for event in unit.events if event.id not in known)) for unit in parsed.units
    )
    return [unit for unit in rest if unit.events]


def _batches(units: Sequence[ImportUnit]) -> Iterator[list[ImportUnit]]:
    """Neighbouring units together, as many as one append may hold."""
    batch: list[ImportUnit] = []
    count = size = 0
    for unit in units:
        if batch and (count + len(unit.events) > limits.GROUP_EVENTS or size + unit.size > limits.IMPORT_GROUP_BYTES):
            yield batch
            batch, count, size = [], 0, 0
        batch.append(unit)
        count += len(unit.events)
        size += unit.size
    if batch:
        yield batch


def _counted(report: FileImport, groups: int, appended: Appended) -> FileImport:
    consolidated = [event for event in appended.events if isinstance(event, MemoriesConsolidated)]
    actions = [decision.action for event in consolidated for decision in event.decisions]
    added = sum(action in BIRTHS for action in actions)
    return replace(
        report,
        groups_known=report.groups_known - groups,
        appended=report.appended + len(appended.events),
        items_added=report.items_added + added,
        items_skipped=report.items_skipped + len(actions) - added,
        runs=report.runs + sum(isinstance(event, RunStarted) for event in appended.events),
        first=report.first or appended.first,
        last=appended.last,
    )


def plan(state: State, units: Iterable[ImportUnit], known: KnownItems | None = None) -> Iterator[ImportUnit]:
    """Yield the units with a `memories_consolidated` behind every extraction that has candidates.

    Each is decided in the state that those before it lead to, and pending where the admission policy says so. A bank
    without a consolidation policy gets every new item, as under `append`. Raises `BadPolicy` if this release doesn't
    know a policy in force.
    """
    decider = Decider(state, known)
    for unit in units:
        # Importing is a person's word for what the file holds, whoever learned it.
        events = held_back(unit.events, state.policies.get("admission"), lambda event: "person")
        yield ImportUnit(decider.decided(events), unit.size)
