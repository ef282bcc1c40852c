"""Transcripts of the Gemini CLI: JSON Lines whose first one is metadata, or one document with all messages.

The same id again replaces a message, `$rewindTo` removes it and all behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rbank_es.agents.transcripts.transcript_lines import Line, LineTally
from rbank_es.agents.transcripts.transcript_run import (
    ToolUse,
    TranscriptRun,
    text_in,
    text_or_none,
)

FORM = "gemini-cli"
_SILENT = frozenset({"info", "warning", "about", "help", "stats", "model_stats", "tool_stats", "quit", "compression"})


def is_gemini(fields: Mapping[str, Any]) -> bool:
    """Return whether an object is the metadata of a session, or a session whole."""
    return {"sessionId", "projectHash"} <= fields.keys()


def gemini_runs(lines: Iterable[Line], tally: LineTally) -> Iterator[TranscriptRun]:
    """Yield the runs of a session, in order."""
    session, messages = "", dict[str, Line]()
    for line in lines:
        fields = line.fields
        if "$rewindTo" in fields:
            tally.withdrawn += [_begun(session, each) for each in _taken_back(messages, line, tally)]
        elif is_gemini(fields):
            tally.known += 1
            session = text_or_none(fields.get("sessionId")) or ""
            whole = fields.get("messages")
            for message in whole if isinstance(whole, list) else ():
                _place(messages, Line(line.number, message if isinstance(message, dict) else {}), tally)
        elif "$set" not in fields:
            _place(messages, line, tally)
    yield from _runs(session, messages.values(), tally)


def _taken_back(messages: dict[str, Line], line: Line, tally: LineTally) -> Iterator[Line]:
    """Remove the messages from one on; yield those of the user."""
    to = line.fields["$rewindTo"]
    if not isinstance(to, str) or to not in messages:
        tally.refuse(line.number, "it goes back to a message that isn't in the file")
        return
    ids = list(messages)
    for id in ids[ids.index(to) :]:
        if (message := messages.pop(id)).fields.get("type") == "user":
            yield message


def _place(messages: dict[str, Line], line: Line, tally: LineTally) -> None:
    id = text_or_none(line.fields.get("id"))
    if id is None or not isinstance(line.fields.get("type"), str):
        tally.refuse(line.number, "a message without id or type")
        return
    tally.known += 1
    messages[id] = line


def _runs(session: str, messages: Iterable[Line], tally: LineTally) -> Iterator[TranscriptRun]:
    run: TranscriptRun | None = None
    for line in messages:
        fields, kind = line.fields, line.fields["type"]
        if kind == "user":
            if run is not None:
                run.close(goes_on=True)
                yield run
            run = _begun(session, line)
        elif run is None:
            tally.outside += 1
        elif kind == "gemini":
            _said(run, fields)
        elif kind == "error":
            run.error, run.ended = text_in(fields.get("content")) or "error", text_or_none(fields.get("timestamp"))
        elif kind not in _SILENT:
            tally.unknown[kind] += 1
    if run is not None:
        run.close(goes_on=False)
        yield run


def _begun(session: str, line: Line) -> TranscriptRun:
    time, text = text_or_none(line.fields.get("timestamp")), text_in(line.fields.get("content"))
    key = (session, line.fields["id"], text)
    return TranscriptRun(form=FORM, host=FORM, key=key, session=session, line=line.number, prompts=[text], began=time)


def _said(run: TranscriptRun, fields: Mapping[str, Any]) -> None:
    at, used = text_or_none(fields.get("timestamp")), fields.get("tokens")
    run.error, run.ended = "", at
    said = run.message(fields["id"], text_or_none(fields.get("model")), at)
    said.text = text_in(fields.get("content"))
    if isinstance(used, dict):
        said.use(used, "input", "output", "cached")
    calls = fields.get("toolCalls")
    calls = [each for each in calls if isinstance(each, dict)] if isinstance(calls, list) else []
    said.is_last = not calls
    for given in calls:
        id = text_or_none(given.get("id")) or f"{fields['id']} {len(run.acts)}"
        call = ToolUse(id=id, name=text_or_none(given.get("name")) or "unknown", arguments=given.get("args"), at=at)
        run.add(call)
        call.is_error, call.is_stopped = given.get("status") == "error", given.get("status") == "cancelled"
        if given.get("result") is not None:
            call.answer(_output(given["result"]), text_or_none(given.get("timestamp")))


def _output(result: Any) -> str:
    parts = result if isinstance(result, list) else [result]
    told = []
    for part in parts:
        answer = part.get("functionResponse") if isinstance(part, dict) else None
        response = answer.get("response") if isinstance(answer, dict) else None
        told.append(
            str(response.get("output") or response.get("error") or "") if isinstance(response, dict) else text_in(part)
        )
    return "\n".join(told)
