"""The import of files: checked, planned against the bank's state, and appended; a second import adds nothing.

Planning is pure: it decides about candidates by the consolidation policy in force.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank.bank import Bank
from rbank_es.errors import BadFiles, BadImport, BadInput, Notice
from rbank_es.events import Event, MemoriesConsolidated, RunStarted
from rbank_es.exchange.event_lines import news_of_export
from rbank_es.exchange.importer import ImportUnit, LineRefusal, News, Parsed, RecordChange, events_of, parse, untimed
from rbank_es.exchange.item_lists import news_of_list
from rbank_es.exchange.known_records import news_of
from rbank_es.exchange.streamed_files import stream_head
from rbank_es.law import BIRTHS, State
from rbank_es.law.decisions import Decider, Latest, optimistically
from rbank_es.law.similar_items import KnownItems
from rbank_es.log import Appended, EventLog
from rbank_es.policies.admission import held_back
from rbank_es.system.files import kind_of
from rbank_es.system.input_file import read_given
from rbank_es.system.progress import OnProgress
from rbank_es.system.unreadable_files import left_out_files
from rbank_es.system.utc_times import utc_text

_COMPANION = ".meta.json"
"""Ending of what an agent notes beside the transcript of a sub-agent."""

SUFFIXES = frozenset({".json", ".jsonl"})
"""Suffixes of the files of a directory; a file that is named itself may have any suffix."""


class FileImport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one file. What is new of a group is appended together or not at all.

    Of `groups_known` groups the bank had everything; `appended` counts events; `first` and `last` are positions, 0 if
    nothing was appended. `items_added` and `items_skipped` count decisions. `left_out` counts what of the file stays
    out: events of another bank's own affairs, texts that are no items, and what differs under a known id. `changes` are
    known records that the file has otherwise than the bank, the first `limits.REFUSALS_LISTED` of `changed`. `notes`
    say what can't be known of the file's records. `times_unset` counts events whose time has no zone and was left
    unset. Of a transcript, `lines_refused`, `refusals` and `unknown_types` are as in `Parsed`.
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
    changed: int = 0
    changes: tuple[RecordChange, ...] = ()
    notes: tuple[str, ...] = ()
    times_unset: int = 0
    lines_refused: int = 0
    refusals: tuple[LineRefusal, ...] = ()
    unknown_types: dict[str, int] = {}
    first: int = 0
    last: int = 0


class FileRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A file of which nothing was imported: its path and why, with the line if that is known."""

    path: str
    reason: str
    line: int | None = None


class ImportReport(msgspec.Struct, frozen=True):
    """The outcome of an import, file by file, in order. `refused` are files that stayed out beside transcripts."""

    files: tuple[FileImport, ...]
    refused: tuple[FileRefusal, ...] = ()

    @property
    def appended(self) -> int:
        """Events appended."""
        return sum(file.appended for file in self.files)

    @property
    def is_whole(self) -> bool:
        """Whether everything that was given could be read."""
        return not self.refused and not any(file.lines_refused for file in self.files)


class FoundImports(NamedTuple):
    """The files of an import, and the errors of those that can't be read."""

    files: tuple[Path, ...]
    failures: tuple[BadInput, ...]
    transcripts: frozenset[Path] = frozenset()

    def usable(self, *, skip_unreadable: bool = False) -> tuple[Path, ...]:
        """Return the files. Raises `BadFiles` for those that can't be read, unless they are skipped; if none can.

        Beside transcripts they are always skipped: a folder in which agents write is never whole.
        """
        if self.failures and not ((skip_unreadable or self.transcripts) and self.files):
            alone = len(self.failures) == 1 and not self.files
            raise self.failures[0] if alone else BadFiles(self.failures, len(self.files))
        return self.files

    def check_transcripts(self) -> None:
        """Raise `BadImport` where all files are transcripts of which nothing can be read."""
        failure: BadInput | None = None
        for path in self.files:
            head = stream_head(path)
            try:
                # The first piece with something in it is enough.
                if head is None or any(piece.units for piece in head.pieces):
                    return
            except BadInput as error:
                failure = failure or error
        if failure is not None:
            raise failure


def find_imports(paths: Iterable[str | Path]) -> FoundImports:
    """Read the files named, and those below the directories named that end in .json or .jsonl, without keeping them.

    Return them in the order of the times at which they begin, those without times first, as named and then by path.
    """
    found: list[Path] = []
    failures: list[BadInput] = []
    began: dict[Path, str] = {}
    transcripts: set[Path] = set()
    for path in map(Path, paths):
        inside, refused = files_below(path) if _is_directory(path) else ([path], [])
        found += inside
        failures += refused
    for path in dict.fromkeys(found):
        try:
            if (head := stream_head(path)) is not None:
                transcripts.add(path)
                began[path] = head.began
            else:
                began[path] = _began(read_file(path))
        except BadInput as failure:
            failures.append(failure)
    files = sorted((path for path in found if path in began), key=began.__getitem__)
    return FoundImports(tuple(files), tuple(failures), frozenset(transcripts))


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    # Whoever reads it as a file says what is wrong with it.
    except OSError:
        return False


def files_below(folder: Path) -> tuple[list[Path], list[BadInput]]:
    """Return the files to import below a directory, sorted by path, and the errors of those that can't be listed."""
    refused: list[OSError] = []
    below = list[Path]()
    for place, folders, names in os.walk(folder, onerror=refused.append):
        if _is_trial(Path(place)):
            # What else is in it tells of the same run: the verdict is read with the trajectory, logs are its source.
            folders.clear()
            names = ["agent/trajectory.json"]
        below += [Path(place, name) for name in names if not name.endswith(_COMPANION)]
    inside = sorted(file for file in below if file.suffix in SUFFIXES and kind_of(file) == "a file")
    failures: list[BadInput] = [BadImport(str(each.filename), each.strerror or str(each)) for each in refused]
    if not inside and not failures:
        failures.append(BadImport(str(folder), "no file below this directory ends in .json or .jsonl"))
    return inside, failures


def _is_trial(folder: Path) -> bool:
    return kind_of(folder / "agent" / "trajectory.json") == kind_of(folder / "result.json") == "a file"


def read_file(path: Path) -> Parsed:
    """Read and parse a file. Raises `BadImport`, also for a time with a zone in the future; `LimitExceeded`."""
    try:
        # A link that a user names is followed; `find_imports` leaves out those that it finds.
        data = read_given(path, limits.IMPORT_FILE_BYTES)
    except OSError as error:
        raise BadImport(str(path), error.strerror or str(error)) from None
    parsed, now = parse(str(path), data), utc_text(datetime.now(UTC))
    for event in events_of(parsed.units):
        if event.occurred_at and event.occurred_at > now and event.id not in parsed.zoneless:
            reason = f"the time {event.occurred_at} is in the future: here it is {now}; correct the time or the clock"
            raise BadImport(str(path), reason)
    return parsed


OnNotes = Callable[[str, Sequence[str]], None]
"""Called with the path of a file and the notes about it, before anything of it is written."""


def import_paths(
    bank: Bank,
    paths: Iterable[str | Path],
    progress: OnProgress | None = None,
    *,
    dry_run: bool = False,
    skip_unreadable: bool = False,
    on_notes: OnNotes | None = None,
) -> ImportReport:
    """Import files, and all .json and .jsonl files of directories, in the order of the times at which they begin.

    Files without times come first, as named and then by path: what they hold is older than any run that used it.
    Times without a zone are read as UTC. If one of them then lies in the future, their zone is another, unknown one:
    all such times of its file are left unset, and kept as written in `extra`.
    All files are read and checked before the first is appended, so a broken one stops the import before it begins,
    unless `skip_unreadable`: then the others are imported, and a `Notice` names those that are left out.
    A file is one atomic append, or as few as the limits of an append allow; if the process ends between two of them,
    importing the file again adds the rest. What is in the bank already, by the identity of its record
    (`rbank_es.exchange.record_identity`), is not added again and not decided again. A dry run imports into a copy,
    which is removed.

    A transcript of a coding agent is read line by line and appended in pieces, because it may be of any size, and its
    agent may be writing it: lines that can't be read are reported, and all others come in. Files that can't be read
    beside transcripts are reported too, and the others come in; see `ImportReport.is_whole`.

    Raises `BadImport`, `BadFiles`, `LimitExceeded`, `BadPolicy`; `DuplicateEvent` if an exported event is known with
    other content; `PositionConflict` if other writers were faster `limits.IMPORT_TRIES` times; and as
    `EventLog.append`.
    """
    named = tuple(map(Path, paths))
    alone = len(named) == 1 and not _is_directory(named[0])
    # Several are parsed twice each, because all of them together may not fit into memory.
    found = FoundImports(named, ()) if alone else find_imports(named)
    files = found.usable(skip_unreadable=skip_unreadable)
    refused = [_refusal(failure) for failure in found.failures] if found.transcripts else []
    if found.failures and not refused:
        warnings.warn(Notice(left_out_files(found.failures, len(files))), stacklevel=2)
    if dry_run:
        with bank.log.copy(bank.log.position()) as trial:
            return _imported(_Importer(trial, Latest(trial), on_notes), files, progress, refused, alone=alone)
    return _imported(_Importer(bank.log, bank.latest, on_notes), files, progress, refused, alone=alone)


def import_parsed(bank: Bank, parsed: Parsed) -> FileImport:
    """Import what another way in has parsed, as `import_paths` does a file."""
    return _Importer(bank.log, bank.latest).add(parsed)


def _imported(
    importer: _Importer,
    files: Sequence[Path],
    progress: OnProgress | None,
    refused: list[FileRefusal],
    *,
    alone: bool,
) -> ImportReport:
    sizes = [path.stat().st_size if path.is_file() else 0 for path in files]
    reports: list[FileImport] = []
    # File by file, because decisions about one depend on the items of those before.
    for number, path in enumerate(files):
        head = stream_head(path)
        try:
            reports.append(importer.add(read_file(path)) if head is None else importer.add_all(head.pieces))
        except BadInput as failure:
            if alone or head is None:
                raise
            refused.append(_refusal(failure))
        if progress is not None:
            progress(sum(sizes[: number + 1]), sum(sizes))
    if refused and not reports:
        raise BadImport(refused[0].path, refused[0].reason, line=refused[0].line)
    return ImportReport(tuple(reports), tuple(refused))


def _refusal(failure: BadInput) -> FileRefusal:
    if isinstance(failure, BadImport):
        return FileRefusal(path=failure.path, reason=failure.reason, line=failure.line)
    return FileRefusal(path="", reason=str(failure))


def _began(parsed: Parsed) -> str:
    """Return the time of the first thing that happened in a file; empty where it has no times."""
    return min((event.occurred_at for event in events_of(parsed.units) if event.occurred_at), default="")


def _without_false_times(parsed: Parsed) -> tuple[Parsed, int]:
    """Return the file without its times that have no zone and can't be UTC, and of how many events they were."""
    now = utc_text(datetime.now(UTC))
    if all((event.occurred_at or "") <= now for event in events_of(parsed.units)):
        return parsed, 0

    def bare(event: Event) -> Event:
        return untimed(event) if event.id in parsed.zoneless else event

    units = tuple(
        replace(
            unit,
            events=tuple(map(bare, unit.events)),
            answers={call: bare(event) for call, event in unit.answers.items()},
        )
        for unit in parsed.units
    )
    return replace(parsed, units=units), sum(event.id in parsed.zoneless for event in events_of(units))


class _Importer:
    """A writer of parsed files to one log."""

    def __init__(self, log: EventLog, latest: Latest, on_notes: OnNotes | None = None) -> None:
        self._log, self._latest, self._on_notes = log, latest, on_notes

    def add(self, parsed: Parsed) -> FileImport:
        parsed, times_unset = _without_false_times(parsed)
        report = FileImport(
            path=parsed.path,
            form=parsed.form,
            groups=len(parsed.units),
            groups_known=len(parsed.units),
            lines_refused=parsed.lines_refused,
            refusals=parsed.refusals,
            unknown_types=parsed.unknown_types,
        )
        told: tuple[str, ...] = ()

        def try_once(position: int) -> FileImport:
            nonlocal report, told
            news = self._news(parsed, position)
            report = _compared(report, parsed, news)
            if self._on_notes is not None and report.notes and report.notes != told:
                self._on_notes(parsed.path, report.notes)
                told = report.notes
            for batch in _batches(self._planned(parsed, news.units, position)):
                appended = self._log.append(events_of(batch), expected=position)
                position = appended.last
                # Another process imported the same file meanwhile; its import counts, not this one.
                report = report if appended.duplicate else _counted(report, appended)
            return report

        done = optimistically(self._log, try_once, limits.IMPORT_TRIES)
        # A file that was known already left no time unset in this bank.
        return replace(done, times_unset=times_unset if done.appended else 0)

    def add_all(self, pieces: Iterable[Parsed]) -> FileImport:
        """Append a file piece by piece; return the outcome of the whole."""
        reports = [self.add(piece) for piece in pieces]
        counts = ("groups", "groups_known", "appended", "items_added", "items_skipped", "runs", "left_out", "changed")
        changes = tuple(change for report in reports for change in report.changes)
        return replace(
            reports[-1],
            **{name: sum(getattr(report, name) for report in reports) for name in counts},
            changes=changes[: limits.REFUSALS_LISTED],
            first=next((report.first for report in reports if report.first), 0),
            last=max(report.last for report in reports),
        )

    def _news(self, parsed: Parsed, position: int) -> News:
        if parsed.compared is not None:
            return parsed.compared(self._log, parsed, position)
        if parsed.exported:
            return news_of_export(self._log, parsed, position)
        if parsed.listed:
            with self._latest.at(position) as basis:
                return news_of_list(parsed, basis.state)
        return news_of(self._log, parsed, position, lambda: self._state(position))

    def _state(self, position: int) -> State:
        with self._latest.at(position) as basis:
            return basis.state

    def _planned(self, parsed: Parsed, new: list[ImportUnit], position: int) -> list[ImportUnit]:
        if parsed.decided or not new:
            return new
        with self._latest.at(position) as basis:
            return list(plan(basis.state, new, basis.known))


def _compared(report: FileImport, parsed: Parsed, news: News) -> FileImport:
    """Return the report with what the file has otherwise than the bank. What was appended before stays counted."""
    return replace(
        report,
        groups_known=min(report.groups_known, news.known),
        left_out=parsed.left_out + news.left_out,
        changed=len(news.changes),
        changes=news.changes[: limits.REFUSALS_LISTED],
        notes=parsed.notes + news.notes,
    )


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


def _counted(report: FileImport, appended: Appended) -> FileImport:
    consolidated = [event for event in appended.events if isinstance(event, MemoriesConsolidated)]
    actions = [decision.action for event in consolidated for decision in event.decisions]
    added = sum(action in BIRTHS for action in actions)
    return replace(
        report,
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
        yield replace(unit, events=decider.decided(events))
