"""Exporters: a bank as it was at a point, in forms that others read and `import` takes back.

    items           the active items as a JSON list, each with a mark of what it is a copy of; ids, words and facts come
                    back as they are
    trajectories    JSON Lines, one file per run; an imported run comes back under its id, with its keys and values
    reasoningbank   JSON Lines, one per run, with the active items that were drawn from it
    events          JSON Lines: the lines of the log, with texts in place of handles
    prov            the lineage in W3C PROV-O, as Turtle
    otlp            JSON Lines of OpenTelemetry's protocol, a trace a run; import leaves them out

After an erasure, `items` and `reasoningbank` leave out items without words, `trajectories` leaves out the keys, and
`events` keeps the erased marks. trajectories and reasoningbank have no place for searches, contexts and scoring;
reasoningbank leaves out items that no run brought (`without_run` counts them). In `events`, the checksum of a line is
that of the log's line: where texts replace handles, it doesn't fit the exported line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import asdict, replace

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import (
    Event,
    RunFinished,
    StepTaken,
    ToolCalled,
)
from rbank_es.events.codec import encode_body, event_types
from rbank_es.events.items import Item, digest_of_words, polarity_of
from rbank_es.exchange.exported_runs import begun_runs, extra_of
from rbank_es.exchange.importer import TIMESTAMP
from rbank_es.exchange.otlp_export import trace_lines
from rbank_es.exchange.reasoningbank_export import memory_lines
from rbank_es.exchange.record_identity import MARK, CopyMark, Mark
from rbank_es.exchange.trajectories import error_code_of, lines_without_mark, seconds_before
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
    data_of,
    in_order,
)
from rbank_es.law import State
from rbank_es.law.validity import witnesses_of
from rbank_es.log.lines import REF
from rbank_es.log.run_reader import RunEvents, run_starts
from rbank_es.system.utc_times import recorded_time, utc_time

ExportForm = Literal["items", "trajectories", "reasoningbank", "events", "prov", "otlp"]
FORMS: tuple[str, ...] = get_args(ExportForm)

SUFFIXES = {
    "items": ".json",
    "trajectories": ".jsonl",
    "reasoningbank": ".jsonl",
    "events": ".jsonl",
    "prov": ".ttl",
    "otlp": ".jsonl",
}
"""Suffix of a file of each form."""

Point = str | int | None
_OF_RUNS = ("run_started", "context_built", "tool_called", "step_taken", "lm_called", "run_finished")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]")


def export(bank: Bank, point: Point, form: str, *, run: str | None = None) -> Iterator[bytes]:
    """Return the bank at a point in one form, in pieces to be written one after the other.

    `run` narrows trajectories and reasoningbank to one run; trajectories of several runs are several files, so they
    need it (or `export_files`). Raises `BadInput` for an unknown form, `BadPoint`, `NotInBank`; and as reading the
    log does.
    """
    if form not in FORMS:
        raise BadInput(f"no form {form!r} to export; there are: {', '.join(FORMS)}")
    upto = bank.resolve(point)
    if form == "items":
        return _items(bank.state(upto))
    if form == "events":
        return _events(bank, upto)
    if form == "prov":
        return _provenance(bank, upto)
    if form == "otlp":
        return trace_lines(bank, upto, run)
    if form == "reasoningbank":
        return memory_lines(bank, upto, run)
    return _one_trajectory(bank, upto, run)


def export_files(bank: Bank, point: Point, form: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the bank at a point as files: the name of each, without a directory, and its pieces.

    Trajectories are one file per run, all other forms one file with the bank's name. Raises as `export` does.
    """
    if form == "trajectories":
        for run in begun_runs(bank, bank.resolve(point), None, _OF_RUNS):
            yield file_name(run.run) + SUFFIXES[form], _trajectory(bank, run)
    else:
        yield file_name(bank.name) + SUFFIXES[form], export(bank, point, form)


def file_name(name: str) -> str:
    """Return a run's or bank's name as a file name: unchanged where possible, else made fit, with a digest."""
    # No dot at the beginning: it would hide the file, and `..` names a folder.
    fit = _UNFIT.sub("-", name)[: limits.EXPORT_NAME_CHARS].lstrip(".")
    return fit if fit == name else f"{fit}-{sha256(name.encode()).hexdigest()[:8]}"


# ---------------------------------------------------------------- items


def _items(state: State) -> Iterator[bytes]:
    separator = b"[\n"
    for entry in state.items.values():
        if entry.state == "active" and not entry.erased:
            mark = CopyMark(
                copy_of=_originals(state, entry.item.id), words=digest_of_words(entry.item.title, entry.item.content)
            )
            yield separator + msgspec.json.encode(_item_fields(entry.item) | {MARK: mark})
            separator = b",\n"
    yield b"\n]\n" if separator == b",\n" else b"[]\n"


def _originals(state: State, item: str) -> tuple[str, ...]:
    """Return the extractions that brought an item in its own words, in order: those that count, if any does.

    In the place of a copy there are those that it is a copy of, so no mark names a copy.
    """
    pairs = sorted(state.records[item].pairs, key=lambda pair: state.pairs[pair].order)
    landed = set(state.records[item].landed)
    counting = [pair for pair in pairs if pair in landed and witnesses_of(pair, state)]
    first = (state.pairs[pair].originals or (pair[0],) for pair in counting or pairs)
    return tuple(dict.fromkeys(chain.from_iterable(first)))[: limits.COPY_ORIGINALS]


def _item_fields(item: Item) -> dict[str, Any]:
    """Return an item as item JSON has it; a value that follows from the rest is left out."""
    fields: dict[str, Any] = {name: getattr(item, name) for name in ("id", "title", "desc", "content", "src", "tags")}
    if item.polarity != polarity_of(item.src):
        fields["polarity"] = item.polarity
    return fields | {name: value for name in ("role", "scope", "domain") if (value := getattr(item, name))}


# ---------------------------------------------------------------- events


def _events(bank: Bank, upto: int) -> Iterator[bytes]:
    stored, resolved = bank.log.lines(upto=upto), bank.log.read(upto=upto, resolve=event_types().keys())
    for line, event in zip(stored, resolved, strict=True):
        yield (line if REF not in line else _with_texts(line, event)) + b"\n"


def _with_texts(line: bytes, event: Event) -> bytes:
    """Return the line with its texts in place of their handles; all else byte for byte."""
    salt: Any = getattr(event, "salt", "")
    # Not encoded as a whole, because the envelope must stay byte for byte, with the log's own checksum.
    # The first and the last of their kind, because texts in between may hold the same characters.
    head, tail = line.index(b',"v":'), line.rindex(b',"more":')
    envelope = line[:head] + f',"v":{event.v}'.encode()
    if event.occurred_at:
        envelope += f',"occurred_at":"{event.occurred_at}"'.encode()
    if event.origin:
        envelope += f',"origin":"{event.origin}"'.encode()
    return envelope + encode_body(event, salt) + line[tail:]


def _provenance(bank: Bank, upto: int) -> Iterator[bytes]:
    from rbank_es.projections.provenance import provenance

    with bank.as_of(upto) as view:
        yield from (piece.encode() for piece in provenance(view))


# ---------------------------------------------------------------- runs


def _one_trajectory(bank: Bank, upto: int, run: str | None) -> Iterator[bytes]:
    if run is None:
        runs = sum(1 for _ in run_starts(bank.log, upto))
        if runs != 1:
            raise BadInput(f"{bank.name} has {runs:,} runs, and a trajectory file holds one: name one, or a folder")
    found = [_trajectory(bank, each) for each in begun_runs(bank, upto, run, _OF_RUNS)]
    if not found:
        raise NotInBank(str(run), upto)
    return chain.from_iterable(found)


def _trajectory(bank: Bank, run: RunEvents) -> Iterator[bytes]:
    """Yield the lines of a run, as its recorder would have written them; with a mark where they don't tell the run."""
    lines = list(_lines(run))
    made = lines_without_mark([fields for _, fields in lines])
    if made is None or not made >= {event.id for event, _ in lines}:
        _mark(bank, run, lines)
    yield from (json.dumps(fields).encode() + b"\n" for _, fields in lines)


def _mark(bank: Bank, run: RunEvents, lines: list[tuple[Any, dict[str, Any]]]) -> None:
    """Write the ids of its events into the lines of a run."""
    start, context = lines[0][0], None if run.context is None else run.context.id
    mark = Mark(bank=start.origin or bank.log.bank_id, run=run.run, started=start.id, context=context)
    for event, fields in lines:
        fields["data"][MARK] = msgspec.to_builtins(mark) if event is start else event.id


def _lines(run: RunEvents) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield each line of a run, after the event that it tells of."""
    start, context = run.started, run.context
    assert start is not None  # `begun_runs` gives no others
    size = {} if context is None else {"context_size": context.chars}
    yield start, _line(start, "run_start", data_of(STARTED, start) | size)
    # An end without a recorded call has totals of its own.
    totals = asdict(run.totals) if run.lm_calls else {}
    for event in run.events:
        if isinstance(event, ToolCalled):
            yield from ((event, line) for line in _called(event))
        elif isinstance(event, StepTaken):
            yield event, _line(event, "iteration", data_of(STEPPED, event))
        elif isinstance(event, RunFinished):
            yield event, _finished(replace(event, **totals))


def _line(event: Any, kind: str, data: dict[str, Any], *, timestamp: str | None = None) -> dict[str, Any]:
    """Return a line of the fields' data, overlaid by that in `extra`, in the recorders' order."""
    extra = extra_of(event)
    kept = {key: value for key, value in extra.items() if key not in RESERVED}
    time = timestamp or extra.get(TIMESTAMP) or recorded_time(event.occurred_at or event.at)
    return {"timestamp": time, "event_type": kind, "data": in_order(kind, data | kept)}


def _called(event: ToolCalled) -> Iterator[dict[str, Any]]:
    extra = extra_of(event)
    if extra.get(ONLY) != "tool_result":
        data = data_of(CALLED, event) | extra.get(CALL, {})
        # The rest of `extra` is about the line of the result.
        bare = replace(event, extra=None)
        lone = extra.get(ONLY) == "tool_call"
        yield _line(bare, "tool_call", data, timestamp=extra.get(TIMESTAMP) if lone else _call_time(event, extra))
    if extra.get(ONLY) != "tool_call":
        data = data_of(ANSWERED, event)
        preview = event.result if isinstance(event.result, str) else None
        # Left out, because the import derives this code from the preview: the recorder's line didn't have it.
        if "error" in data and data.get("error_code") == error_code_of(preview):
            del data["error_code"]
        yield _line(event, "tool_result", data)


def _call_time(event: ToolCalled, extra: dict[str, Any]) -> str | None:
    if CALL_TIMESTAMP in extra:
        return str(extra[CALL_TIMESTAMP])
    if event.duration_s is None:
        return None
    try:
        ended = utc_time(extra[TIMESTAMP]) if TIMESTAMP in extra else event.occurred_at or event.at
        return recorded_time(seconds_before(ended, event.duration_s))
    except OverflowError:  # a duration that no calendar holds
        return None


def _finished(event: RunFinished) -> dict[str, Any]:
    if event.outcome == "failed":
        return _line(event, "run_error", data_of(BROKEN, event))
    data = {"converged": event.outcome == "submitted"} | data_of(COMPLETED, event)
    extra = extra_of(event)
    kept = extra.get("lm_usage", {})
    usage = data_of(LM_USAGE, event) | kept if isinstance(kept, dict) else kept
    if usage or "lm_usage" in extra:
        extra["lm_usage"] = in_order("lm_usage", usage) if isinstance(usage, dict) else usage
    return _line(replace(event, extra=json.dumps(extra)), "run_complete", data)
