"""Lists of chat messages as OpenAI's API has them: a JSON list, JSON Lines of messages, or of `{"messages": […]}`.

They have no ids and no times. A turn is known by all messages from the start of its conversation to its user's words,
so a conversation that goes on has the same turns, and a copy of it too. Behind a line that can't be read no turn is
known any more: a mended file would have others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from rbank_es.agents.transcripts.transcript_lines import Line, LineTally
from rbank_es.agents.transcripts.transcript_run import (
    ModelMessage,
    ToolUse,
    TranscriptRun,
    decoded,
    shortened,
    text_in,
    text_or_none,
)
from rbank_es.exchange.json_records import JsonRecord
from rbank_es.exchange.record_identity import canonical

FORM = "chat"
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def is_chat(fields: Mapping[str, Any]) -> bool:
    """Return whether an object is a message, or has a list of them."""
    messages = fields.get("messages")
    if isinstance(messages, list):
        return bool(messages) and isinstance(messages[0], dict) and messages[0].get("role") in _ROLES
    return fields.get("role") in _ROLES and ("content" in fields or "tool_calls" in fields)


def chat_runs(records: Iterable[JsonRecord | Line], tally: LineTally) -> Iterator[TranscriptRun]:
    """Yield the runs of the conversations in a file, in order."""
    loose, refused = _Conversation(tally), 0
    for record in records:
        loose.is_broken = loose.is_broken or tally.refused > refused
        messages = record.fields.get("messages")
        if isinstance(messages, list):
            whole = _Conversation(tally, text_or_none(record.fields.get("model")))
            for message in messages:
                yield from whole.read(record.number, message)
            yield from whole.rest()
        else:
            yield from loose.read(record.number, record.fields)
        refused = tally.refused
    yield from loose.rest()


class _Conversation:
    """The state of reading one conversation."""

    def __init__(self, tally: LineTally, model: str | None = None) -> None:
        self._tally, self._model = tally, model
        self._digest = sha256()
        self._run: TranscriptRun | None = None
        self._given: list[str] = []
        self.is_broken = False

    def read(self, number: int, message: Any) -> Iterator[TranscriptRun]:
        """Take a message; yield the run that it ends."""
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            self._tally.refuse(number, "no chat message: it has none of the known roles")
            return
        self._tally.known += 1
        if self.is_broken:
            self._tally.outside += 1
            return
        self._digest.update(canonical(message).encode("utf-8", "replace"))
        text, run = text_in(message.get("content")), self._run
        match message["role"]:
            case "user":
                yield from self.rest(goes_on=True)
                self._begin(number, text)
            case "system" | "developer":
                self._given.append(text) if run is None else run.give(text)
            case "assistant" if run is not None:
                self._said(run, message, text)
            case "tool" | "function" if run is not None:
                self._answered(run, number, message, text)
            case _:
                self._tally.outside += 1

    def rest(self, *, goes_on: bool = False) -> Iterator[TranscriptRun]:
        """Yield the current run, ended."""
        if self._run is not None:
            self._run.close(goes_on=goes_on)
            yield self._run
        self._run = None

    def _begin(self, number: int, text: str) -> None:
        key = (self._digest.hexdigest(),)
        self._run = TranscriptRun(form=FORM, host=FORM, key=key, session="", line=number, prompts=[text])
        self._run.model = self._model
        for given in self._given:
            self._run.give(given)
        self._given.clear()

    def _said(self, run: TranscriptRun, message: Mapping[str, Any], text: str) -> None:
        calls = message.get("tool_calls") or ()
        single = message.get("function_call")
        if isinstance(single, dict):
            calls = [{"id": f"function {len(run.acts)}", "function": single}]
        model = text_or_none(message.get("model")) or self._model
        refused = text_or_none(message.get("refusal"))
        run.add(ModelMessage(id=f"message {len(run.acts)}", model=model, text=text or refused or "", is_last=not calls))
        run.model = run.model or model
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                id = text_or_none(call.get("id")) or f"call {len(run.acts)}"
                name = text_or_none(function.get("name")) or "unknown"
                run.add(ToolUse(id=id, name=name, arguments=shortened(decoded(function.get("arguments")))))

    def _answered(self, run: TranscriptRun, number: int, message: Mapping[str, Any], text: str) -> None:
        id, name = text_or_none(message.get("tool_call_id")), message.get("name")
        waiting = (call for call in run.calls if not call.answered and call.name == name)
        found = run.call(id) if id else next(waiting, None)
        if found is None:
            self._tally.refuse(number, "the result of a call that isn't in its turn")
        elif not found.answered:
            found.answer(text)
