"""Trajectories: JSON Lines of one recorded run, `{"timestamp", "event_type", "data"}` each.

    run_start                 run_started, and context_built where it has the size of the context
    tool_call + tool_result   one tool_called, at the time of the result; it lasted from the one to the other
    iteration                 step_taken, at its place in the file, after the end of the run too
    run_complete, run_error   run_finished: submitted or forced_at_limit by `converged`; failed

A result belongs to the latest call of the same tool that has none yet. A call without a result and a result without a
call become a `tool_called` each, and `extra` says which of the two it is. Values without a field are kept in `extra`;
fields without a value stay unset. A text that may be truncated is listed in `previews`. Times without a zone are read
as UTC.

The run's id is the file's stem and a short digest. That digest, and the ids of the events, follow from the lines as
canonical JSON, in any order: the same run written with other spacing, or exported from a bank, is still the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from rbank_es.errors import BadImport
from rbank_es.events import ContextBuilt, Event, RunFinished, RunStarted, StepTaken, ToolCalled
from rbank_es.events.derived_ids import derived_id
from rbank_es.events.event import Count
from rbank_es.exchange.importer import (
    TIMESTAMP,
    Importer,
    ImportUnit,
    JsonLine,
    Parsed,
    canonical,
    has_zone,
    json_lines,
    name_of,
    recorded_time,
    utc_text,
    utc_time,
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

KEYS = frozenset({"timestamp", "event_type", "data"})
KINDS = ("run_start", "tool_call", "tool_result", "iteration", "run_complete", "run_error")
FAILED = "error"
"""Code of a tool's error where neither the line nor its preview names the exception."""

_EXCEPTION = re.compile(r"['\"]exception_type['\"]: ['\"](\w{1,200})['\"]")


class Record(msgspec.Struct, frozen=True):
    """One checked line: its kind, its data, and its time as written and in UTC."""

    line: int
    kind: str
    data: dict[str, Any]
    timestamp: str
    time: str
    zoneless: bool = False


def parse_trajectory(path: str, data: bytes) -> Parsed:
    """Parse a recorded run into one unit. Raises `BadImport` naming the line."""
    lines = list(json_lines(path, data))
    # Sorted, because an export writes a call and its result as neighbours, where recorders may not.
    digest = sha256("\n".join(sorted(canonical(line.fields) for line in lines)).encode()).digest()
    records = [_record(path, line) for line in lines]
    _check_start(path, records)
    reader = _Reader(path, name_of(Path(path).stem, digest), digest)
    units = (ImportUnit(tuple(reader.events(records))),)
    return Parsed(path=path, form="trajectory", units=units, zoneless=frozenset(reader.zoneless))


def _record(path: str, line: JsonLine) -> Record:
    unknown = sorted(line.fields.keys() - KEYS)
    missing = sorted(KEYS - line.fields.keys())
    if unknown or missing:
        what = f"unknown key {unknown[0]!r}" if unknown else f"{missing[0]!r} is missing"
        raise BadImport(path, f"{what}; a line has timestamp, event_type and data", line=line.number)
    kind, data, timestamp = line.fields["event_type"], line.fields["data"], line.fields["timestamp"]
    if kind not in KINDS:
        raise BadImport(path, f"unknown event_type {kind!r}; there are: {', '.join(KINDS)}", line=line.number)
    if not isinstance(data, dict) or not isinstance(timestamp, str):
        raise BadImport(path, "data must be an object and timestamp a string", line=line.number)
    if taken := sorted(RESERVED & data.keys()):
        raise BadImport(path, f"data may not have a key {taken[0]!r}", line=line.number)
    try:
        return Record(line.number, kind, data, timestamp, utc_time(timestamp), zoneless=not has_zone(timestamp))
    except ValueError as error:
        raise BadImport(path, f"timestamp: {error}", line=line.number) from None


def _check_start(path: str, records: Sequence[Record]) -> None:
    starts = [record.line for record in records if record.kind == "run_start"]
    if not starts or records[0].kind != "run_start":
        raise BadImport(path, "a trajectory begins with run_start", line=records[0].line if records else None)
    if len(starts) > 1:
        raise BadImport(path, "a second run_start; a file holds one run", line=starts[1])


def _pairs(records: Sequence[Record]) -> dict[int, Record]:
    """Return the call of each result that has one, by the result's line."""
    open_calls: dict[str, list[Record]] = {}
    pairs: dict[int, Record] = {}
    for record in records:
        tool = str(record.data.get("tool"))
        if record.kind == "tool_call":
            open_calls.setdefault(tool, []).append(record)
        elif record.kind == "tool_result" and open_calls.get(tool):
            # The latest call, because nested calls of one tool end in reverse order.
            pairs[record.line] = open_calls[tool].pop()
    return pairs


class _Reader:
    """A parser of the records of one run into events."""

    def __init__(self, path: str, run: str, digest: bytes) -> None:
        self._path, self._run, self._digest = path, run, digest
        self.zoneless: set[str] = set()

    def events(self, records: Sequence[Record]) -> Iterator[Event]:
        pairs = _pairs(records)
        answered = {call.line for call in pairs.values()}
        for record in records:
            if record.kind == "run_start":
                yield from self._started(record)
            elif record.kind == "tool_result":
                yield self._called(record, pairs.get(record.line), record)
            elif record.kind == "tool_call" and record.line not in answered:
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
        return ToolCalled(**self._common(record, extra), **fields)

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
            raise BadImport(self._path, "'converged' must be true or false", line=record.line)
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

    def _common(self, record: Record, extra: dict[str, Any], part: int = 0) -> dict[str, Any]:
        """Return the fields that every event of the run has."""
        # Not in a second event of the same line: an export writes that line from the first one.
        if record.timestamp != recorded_time(record.time) and not part:
            extra = extra | {TIMESTAMP: record.timestamp}
        event_id = derived_id(self._digest, record.line, part)
        if record.zoneless:
            self.zoneless.add(event_id)
        return {
            "id": event_id,
            "occurred_at": record.time,
            "run": self._run,
            "extra": msgspec.json.encode(extra, order="sorted").decode() if extra else None,
        }

    def _fields(self, part: Part, record: Record, data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            return fields_of(part, data)
        except BadField as error:
            raise BadImport(self._path, f"{record.kind}: {error}", line=record.line) from None

    def _need(self, record: Record, fields: dict[str, Any], field: str, key: str) -> None:
        if field not in fields:
            raise BadImport(self._path, f"{record.kind}: {key!r} is missing", line=record.line)

    def _count(self, record: Record, key: str, value: Any) -> int:
        try:
            return msgspec.convert(value, type=Count)
        except msgspec.ValidationError as error:
            raise BadImport(self._path, f"{record.kind}: {key!r}: {error}", line=record.line) from None


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
    form="trajectory",
    about="a trajectory (event_type)",
    recognise=lambda opening: "event_type" in opening.fields,
    parse=parse_trajectory,
)
