"""The importer of traces in files: JSON Lines of requests as collectors write them, one request, or protobuf."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from rbank_es import limits
from rbank_es.agents.traces.otlp_body import SentBody, Signal, body_of_document, body_of_protobuf
from rbank_es.agents.traces.span_facts import FactReader, SpanFacts, facts_of
from rbank_es.agents.traces.trace_events import TraceEvents
from rbank_es.agents.traces.trace_run import FORM, is_due, traces_of
from rbank_es.agents.transcripts.transcript_events import EventWriter
from rbank_es.errors import BadImport, BadInput
from rbank_es.events.readable_text import count
from rbank_es.events.redaction import secrets
from rbank_es.exchange.importer import Importer, ImportUnit, LineRefusal, Opening, Parsed
from rbank_es.exchange.json_records import json_records
from rbank_es.system.utc_times import utc_text

_JSON = {"resourceSpans": "traces", "resourceLogs": "logs"}
_RESOURCE, _SCOPE = b"\x0a", b"\x12"
"""The first bytes of the parts of a request in protobuf."""


def is_traces(opening: Opening) -> bool:
    """Return whether a file is of OpenTelemetry's protocol. White space before it is cut off, and so is its tag."""
    if opening.fields:
        return any(isinstance(opening.fields.get(name), list) for name in _JSON)
    size, at = 0, 0
    for at, byte in enumerate(opening.data[:_LENGTH_BYTES], 1):
        size |= (byte & 0x7F) << 7 * (at - 1)
        if not byte & 0x80:
            break
    return size > 1 and opening.data[at : at + 1] in (_RESOURCE, _SCOPE)


_LENGTH_BYTES = 5


def parse_traces(path: str, data: bytes) -> Parsed:
    """Return the runs of the traces in a file. Raises `BadImport`, `MissingExtra` for protobuf without its library."""
    reader, facts = FactReader(secrets()), list[SpanFacts]()
    refused, refusals, spans = 0, list[LineRefusal](), 0
    for line, body in _bodies(path, data):
        spans += len(body.spans)
        facts += facts_of(body, reader)
        if body.refused:
            refused += body.refused
            refusals.append(LineRefusal(line=line, reason=f"{count(body.refused, 'span')}: {body.reason}"))
    if refused and not spans:
        raise BadImport(path, f"none of {count(refused, 'span')} can be read: {refusals[0].reason}")
    events, units = TraceEvents(EventWriter(secrets(), utc_text(datetime.now(UTC)))), list[ImportUnit]()
    waiting = others = 0
    for trace in traces_of(facts):
        if not trace.tells:
            others += 1
        # Its root may be in the part of the file that isn't written yet.
        elif not trace.is_rooted and not is_due(rooted=False, quiet_s=time.time() - trace.ended_ns / 1e9):
            waiting += 1
        else:
            units += events.units(trace)
    sentences = {
        f"without a span of an agent in this file, and left out: {count(others, 'trace')}": others,
        f"without a root, and left out until it comes or some time has passed: {count(waiting, 'trace')}": waiting,
    }
    notes = tuple(sentence for sentence, number in sentences.items() if number)
    return events.parsed(
        path, units, notes=notes, lines_refused=refused, refusals=tuple(refusals[: limits.REFUSALS_LISTED])
    )


def _bodies(path: str, data: bytes) -> Iterator[tuple[int, SentBody]]:
    if not data.lstrip().startswith((b"{", b"[")):
        yield 1, _of_protobuf(path, data)
        return
    for record in json_records(path, data):
        signals: list[Signal] = ["traces", "logs"]
        for signal in signals:
            body = body_of_document(record.fields, signal)
            if body.spans or body.refused:
                yield record.number, body


def _of_protobuf(path: str, data: bytes) -> SentBody:
    try:
        traces = body_of_protobuf(data, "traces")
        # Both have the same outer form: a log read as a span has no id.
        return traces if traces.spans else body_of_protobuf(data, "logs")
    except BadInput as error:
        raise BadImport(path, str(error)) from None


IMPORTER = Importer(form=FORM, about="an OpenTelemetry trace (resourceSpans)", recognise=is_traces, parse=parse_traces)
