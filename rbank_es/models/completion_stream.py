"""A completion that comes in pieces: the events of a stream, put together to the body of a whole answer."""

from __future__ import annotations

import json
from typing import Any

from rbank_es.limits import reply_limits
from rbank_es.models.repetition import Repetition, repetition_of
from rbank_es.models.reply_syntax import has_ended


class CompletionStream:
    """The pieces of one completion, as OpenAI's protocol streams them (`data:` lines of chunks, then `[DONE]`).

    `began`: the first word has come. `ended`: nothing more is needed, by the server's word or for a repetition, which
    `repetition` has unless it stands behind the end marker.
    """

    def __init__(self) -> None:
        self.began = self.ended = False
        self.repetition: Repetition | None = None
        self._rest = bytearray()
        self._error: Any = None
        self._finish: str | None = None
        self._facts: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {"content": [], "reasoning_content": [], "refusal": []}
        self._calls: list[dict[str, Any]] = []
        self._places: dict[Any, int] = {}
        self._unchecked = 0

    def feed(self, piece: bytes) -> None:
        """Take the next bytes. Raises ValueError, TypeError or a kin for what is no chunk."""
        self._rest += piece
        if b"\n" not in piece:
            return
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            self._take(line.strip())

    def body(self) -> bytes | None:
        """Return the completion as a server that streams nothing would have sent it; None if it broke off.

        Raises as `feed`.
        """
        self._take(bytes(self._rest).strip())
        if self._error is not None:
            told = self._error if isinstance(self._error, dict) else {"message": str(self._error)}
            return json.dumps({"error": told}).encode()
        if not self.ended and self._finish is None:
            return None
        message: dict[str, Any] = {name: "".join(texts) for name, texts in self._texts.items() if texts}
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"message": {"role": "assistant", **message}, "finish_reason": self._finish}
        return json.dumps({**self._facts, "choices": [choice]}).encode()

    def _take(self, line: bytes) -> None:
        kind, colon, data = line.partition(b":")
        if self.ended or not colon or kind not in (b"data", b"error"):
            return  # comments, which keep connections open, and names of events
        if data.strip() == b"[DONE]":
            self.ended = True
            return
        chunk = json.loads(data)
        if kind == b"error" or chunk.get("error"):
            self._error, self.ended = chunk.get("error", chunk), True
            return
        self._facts.update({name: chunk[name] for name in ("id", "model", "usage") if chunk.get(name)})
        for choice in chunk.get("choices") or []:
            if not choice.get("index"):
                self._add(choice)

    def _add(self, choice: dict[str, Any]) -> None:
        self._finish = choice.get("finish_reason") or self._finish
        delta = choice.get("delta") or choice.get("message") or {}
        self._add_text("content", delta.get("content"))
        self._add_text("reasoning_content", delta.get("reasoning_content") or delta.get("reasoning"))
        self._add_text("refusal", delta.get("refusal"))
        for at, call in enumerate(delta.get("tool_calls") or []):
            self._add_call(call, call.get("index", at))

    def _add_text(self, name: str, text: Any) -> None:
        if not isinstance(text, str) or not text:
            return
        self.began = True
        texts = self._texts[name]
        texts.append(text)
        self._unchecked += len(text)
        if self._unchecked < reply_limits.REPEATED_CHECK_CHARS:
            return
        self._unchecked = 0
        texts[:] = ["".join(texts)]
        found = repetition_of(texts[0])
        if found is not None:
            # Behind its end marker the answer is whole all the same.
            self.repetition = None if has_ended(texts[0]) else found
            self._finish, self.ended = "length", True

    def _add_call(self, call: dict[str, Any], at: Any) -> None:
        self.began = True
        empty = {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        key = self._places.get(at)
        # Some servers number all calls alike, and tell them apart by their ids.
        if key is None or (call.get("id") and self._calls[key]["id"] not in (None, call["id"])):
            key = self._places[at] = len(self._calls)
            self._calls.append(empty)
        known, given = self._calls[key], call.get("function") or {}
        known["id"] = call.get("id") or known["id"]
        known["function"]["name"] += given.get("name") or ""
        arguments = given.get("arguments") or ""
        known["function"]["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments)
