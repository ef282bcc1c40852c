"""Trajectories: JSON Lines of one recorded run, `{"timestamp", "event_type", "data"}` each.

    run_start                 run_started, and context_built where it has the size of the context
    tool_call + tool_result   one tool_called, at the time of the result; it lasted from the one to the other
    iteration                 step_taken, at its place in the file, after the end of the run too
    run_complete, run_error   run_finished: submitted or forced_at_limit by `converged`; failed

A result belongs to the latest call of the same tool that has none yet. A call without a result and a result without a
call become a `tool_called` each, and `extra` says which of the two it is. Values without a field are kept in `extra`;
fields without a value stay unset. A text that may be truncated is listed in `previews`. Times without a zone are read
as UTC.

A run that its source names (`run_id` in run_start) is known by that name, any other by its first line: task and time of
start. A file that has grown at its end adds its new lines to the run. One that begins alike and goes on differently
tells of another run, which is known by as many lines as tell them apart. The run's name is the file's stem and a short
digest of its identity; ids of events follow from their lines, in any order, since exports write a call and its result
as neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from rbank_es.errors import BadImport, BadInput
from rbank_es.events import ContextBuilt, Event, RunFinished, RunStarted, StepTaken, ToolCalled
from rbank_es.events.event_envelope import Count
from rbank_es.exchange.importer import TIMESTAMP, Importer, ImportUnit, Parsed, sized
from rbank_es.exchange.json_records import JsonRecord, json_records
from rbank_es.exchange.record_identity import (
    MARK,
    Mark,
    Numbers,
    canonical,
    identity,
    mark_of,
    marked_id,
    name_in_source,
    name_of,
    part_id,
)
from rbank_es.exchange.trajectory_fields import (
    ANSWERED,
    BROKEN,
    CALL,
    CALL_TIMESTAMP,
    CALLED,
    COMPLETED,
    LM_USAGE,
    ONLY,
    RESERVED,
    STARTED,
    STEPPED,
    BadField,
    Part,
    fields_of,
    previews_of,
)
from rbank_es.system.utc_times import has_zone, recorded_time, utc_text, utc_time

FORM = "trajectory"
KEYS = frozenset({"timestamp", "event_type", "data"})
KINDS = ("run_start", "tool_call", "tool_result", "iteration", "run_complete", "run_error")
FAILED = "error"
"""Code of a tool's error where neither the line nor its preview names the exception."""

_EXCEPTION = re.compile(r"['\"]exception_type['\"]: ['\"](\w{1,200})['\"]")


class Record(msgspec.Struct, frozen=True):
    """One checked line: its kind, its data, and its time as written and in UTC.

    `content` is the line as canonical JSON, `number` its number among equal lines. `marked` is the value of its mark.
    """

    line: JsonRecord
    kind: str
    data: dict[str, Any]
    timestamp: str
    time: str
    content: str
    number: int
    marked: dict[str, Any] = {}
    zoneless: bool = False


def parse_trajectory(path: str, data: bytes) -> Parsed:
    """Parse a recorded run into one unit. Raises `BadImport` naming the line."""
    numbers = Numbers()
    records = [_record(path, line, numbers) for line in json_records(path, data)]
    _check_start(path, records)
    start = records[0]
    try:
        mark = mark_of(start.marked)
    except BadInput as error:
        raise start.line.bad(path, str(error)) from None
    if mark is not None:
        reader = _Reader(path, mark.run, identity(MARK, mark.started), mark)
    else:
        digest, name = run_identity(start.data, start.content)
        reader = _Reader(path, name_of(Path(path).stem if name is None else name, digest), digest)
    unit = reader.unit(records)
    if mark is None and name_in_source(start.data) is None:
        unit = replace(unit, apart=lambda count: _apart(path, records, count))
    return Parsed(path=path, form=FORM, units=(unit,), zoneless=frozenset(reader.zoneless))


def run_identity(data: dict[str, Any], first: str) -> tuple[bytes, str | None]:
    """Return the identity of a run without a mark, by the data of its run_start and that line as canonical JSON; and
    its name in its source, if it has one."""
    named = name_in_source(data)
    if named is not None:
        return identity(FORM, data.get("task"), *named), named[1]
    return identity(FORM, [first]), None


def lines_without_mark(lines: Sequence[dict[str, Any]]) -> frozenset[str] | None:
    """Return the ids that an import gives the lines of a run without a mark; None where it refuses them."""
    numbers = Numbers()
    try:
        records = [_record("", JsonRecord(at, b"", fields), numbers) for at, fields in enumerate(lines, 1)]
        _check_start("", records)
        digest, _ = run_identity(records[0].data, records[0].content)
        return _Reader("", "run", digest).unit(records).lines
    except BadImport:
        return None


def _apart(path: str, records: list[Record], count: int) -> ImportUnit | None:
    """Return the run as one that is known by its first `count` lines."""
    if count > len(records):
        return None
    digest = identity(FORM, [record.content for record in records[:count]])
    return sized(path, _Reader(path, name_of(Path(path).stem, digest), digest).unit(records))


def _record(path: str, line: JsonRecord, numbers: Numbers) -> Record:
    unknown = sorted(line.fields.keys() - KEYS)
    missing = sorted(KEYS - line.fields.keys())
    if unknown or missing:
        what = f"unknown key {unknown[0]!r}" if unknown else f"{missing[0]!r} is missing"
        raise line.bad(path, f"{what}; a line has timestamp, event_type and data")
    kind, data, timestamp = line.fields["event_type"], line.fields["data"], line.fields["timestamp"]
    if kind not in KINDS:
        raise line.bad(path, f"unknown event_type {kind!r}; there are: {', '.join(KINDS)}")
    if not isinstance(data, dict) or not isinstance(timestamp, str):
        raise line.bad(path, "data must be an object and timestamp a string")
    if taken := sorted(RESERVED & data.keys()):
        raise line.bad(path, f"data may not have a key {taken[0]!r}")
    own = {key: value for key, value in data.items() if key != MARK}
    content = canonical([kind, timestamp, own])
    try:
        return Record(
            line,
            kind,
            own,
            timestamp,
            utc_time(timestamp),
            content,
            numbers.next(content),
            {MARK: data[MARK]} if MARK in data else {},
            zoneless=not has_zone(timestamp),
        )
    except ValueError as error:
        raise line.bad(path, f"timestamp: {error}") from None


def _check_start(path: str, records: Sequence[Record]) -> None:
    starts = [record.line for record in records if record.kind == "run_start"]
    if not records:
        raise BadImport(path, "a trajectory begins with run_start")
    if records[0].kind != "run_start":
        raise records[0].line.bad(path, "a trajectory begins with run_start")
    if len(starts) > 1:
        raise starts[1].bad(path, "a second run_start; a file holds one run")


def _pairs(records: Sequence[Record]) -> dict[int, Record]:
    """Return the call that each result answers, by the number of the result's line."""
    open_calls: dict[str, list[Record]] = {}
    pairs: dict[int, Record] = {}
    for record in records:
        tool = str(record.data.get("tool"))
        if record.kind == "tool_call":
            open_calls.setdefault(tool, []).append(record)
        elif record.kind == "tool_result" and open_calls.get(tool):
            # The latest call, because nested calls of one tool end in reverse order.
            pairs[record.line.number] = open_calls[tool].pop()
    return pairs


class _Reader:
    """A parser of the records of one run into events."""

    def __init__(self, path: str, run: str, digest: bytes, mark: Mark | None = None) -> None:
        self._path, self._run, self._digest, self._mark = path, run, digest, mark
        self.zoneless: set[str] = set()

    def unit(self, records: Sequence[Record]) -> ImportUnit:
        """Return the run as one unit."""
        pairs = _pairs(records)
        events = tuple(self._events(records, pairs))
        answers: dict[str, Event] = {
            self._id(pairs[record.line.number]): self._called(record, None, record)
            for record in records
            if record.line.number in pairs
        }
        return ImportUnit(
            events,
            record="the run",
            copy=self._mark is not None,
            lines=frozenset(map(self._id, records)) | {event.id for event in events},
            answers=answers,
            is_unanswered=_is_unanswered,
        )

    def _events(self, records: Sequence[Record], pairs: dict[int, Record]) -> Iterator[Event]:
        answered = {call.line.number for call in pairs.values()}
        for record in records:
            if record.kind == "run_start":
                yield from self._started(record)
            elif record.kind == "tool_result":
                yield self._called(record, pairs.get(record.line.number), record)
            elif record.kind == "tool_call" and record.line.number not in answered:
                yield self._called(record, record, None)
            elif record.kind == "iteration":
                yield self._stepped(record)
            elif record.kind in ("run_complete", "run_error"):
                yield self._finished(record)

    def _started(self, record: Record) -> Iterator[Event]:
        fields, extra = self._fields(STARTED, record, record.data)
        size = extra.get("context_size")
        if size is not None:
            size = self._count(record, "context_size", extra.pop("context_size"))
        yield RunStarted(**self._common(record, extra), **fields)
        if size is not None:
            yield ContextBuilt(**self._common(record, {}, part=1), chars=size)

    def _called(self, record: Record, call: Record | None, result: Record | None) -> ToolCalled:
        fields: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        if result is not None:
            fields, extra = self._answered(result)
        if call is not None:
            asked, rest = self._fields(CALLED, call, call.data)
            fields |= asked
            extra |= {CALL: rest} if rest else {}
        if call is None or result is None:
            extra[ONLY] = record.kind
        else:
            lasted = _seconds_between(call.time, result.time)
            fields |= {"duration_s": lasted} if lasted >= 0 else {}
            # Kept where an export couldn't compute it, as for a time in another zone or after the result.
            if lasted < 0 or recorded_time(seconds_before(result.time, lasted)) != call.timestamp:
                extra[CALL_TIMESTAMP] = call.timestamp
        self._need(record, fields, "tool", "tool")
        # By the call's line, because it comes first: a call is known before its result is.
        return ToolCalled(**self._common(record, extra, of=call), **fields)

    def _answered(self, result: Record) -> tuple[dict[str, Any], dict[str, Any]]:
        fields, extra = self._fields(ANSWERED, result, result.data)
        if fields.get("error") is not None and "error_code" not in fields:
            fields["error_code"] = error_code_of(fields.get("result"))
        return fields | {"previews": previews_of(ANSWERED, fields, result.data)}, extra

    def _stepped(self, record: Record) -> StepTaken:
        fields, extra = self._fields(STEPPED, record, record.data)
        self._need(record, fields, "index", "iteration")
        previews = previews_of(STEPPED, fields, record.data)
        return StepTaken(**self._common(record, extra), **fields, previews=previews)

    def _finished(self, record: Record) -> RunFinished:
        if record.kind == "run_error":
            fields, extra = self._fields(BROKEN, record, record.data)
            return RunFinished(**self._common(record, extra), **fields, outcome="failed")
        data = dict(record.data)
        converged, usage = data.pop("converged", None), data.get("lm_usage")
        if not isinstance(converged, bool):
            raise record.line.bad(self._path, "'converged' must be true or false")
        fields, extra = self._fields(COMPLETED, record, data)
        if isinstance(usage, dict):
            totals, rest = self._fields(LM_USAGE, record, usage)
            fields, extra = fields | totals, {key: value for key, value in extra.items() if key != "lm_usage"}
            # An empty object is kept too, so that an export can give it back.
            extra |= {"lm_usage": rest} if rest or not totals else {}
        return RunFinished(
            **self._common(record, extra),
            **fields,
            outcome="submitted" if converged else "forced_at_limit",
            previews=previews_of(COMPLETED, fields, data),
        )

    def _common(self, record: Record, extra: dict[str, Any], part: int = 0, of: Record | None = None) -> dict[str, Any]:
        """Return the fields that every event of the run has. `of` is the line that it is known by, if not its own."""
        # Not in a second event of the same line: an export writes that line from the first one.
        if record.timestamp != recorded_time(record.time) and not part:
            extra = extra | {TIMESTAMP: record.timestamp}
        event_id = self._context_id() if part else self._id(of or record)
        if record.zoneless:
            self.zoneless.add(event_id)
        return {
            "id": event_id,
            "origin": self._mark.bank if self._mark else None,
            "occurred_at": record.time,
            "run": self._run,
            "extra": msgspec.json.encode(extra, order="sorted").decode() if extra else None,
        }

    def _id(self, record: Record) -> str:
        """Return the id of the event that a line tells of: that of its mark, else one that follows from the line."""
        try:
            given = self._mark.started if self._mark and record.kind == "run_start" else marked_id(record.marked)
        except BadInput as error:
            raise record.line.bad(self._path, str(error)) from None
        return given if self._mark and given else part_id(self._digest, "line", record.content, record.number)

    def _context_id(self) -> str:
        given = self._mark.context if self._mark else None
        return given or part_id(self._digest, "context")

    def _fields(self, part: Part, record: Record, data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            return fields_of(part, data)
        except BadField as error:
            raise record.line.bad(self._path, f"{record.kind}: {error}") from None

    def _need(self, record: Record, fields: dict[str, Any], field: str, key: str) -> None:
        if field not in fields:
            raise record.line.bad(self._path, f"{record.kind}: {key!r} is missing")

    def _count(self, record: Record, key: str, value: Any) -> int:
        try:
            return msgspec.convert(value, type=Count)
        except msgspec.ValidationError as error:
            raise record.line.bad(self._path, f"{record.kind}: {key!r}: {error}") from None


def _is_unanswered(event: Event) -> bool:
    """Return whether an event tells of a call without its result."""
    extra = getattr(event, "extra", None)
    return isinstance(extra, str) and f'"{ONLY}":"tool_call"' in extra


def error_code_of(preview: str | None) -> str:
    """Return the exception that a failed tool's answer names, as recorders write it, else `error`."""
    found = _EXCEPTION.search(preview or "")
    return found[1] if found else FAILED


def seconds_before(time: str, seconds: float) -> str:
    """Return the time, as the log writes it, that many seconds before another."""
    return utc_text(datetime.fromisoformat(time) - timedelta(seconds=seconds))


def _seconds_between(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


IMPORTER = Importer(
    form=FORM,
    about="a trajectory (event_type)",
    recognise=lambda opening: "event_type" in opening.fields,
    parse=parse_trajectory,
)
