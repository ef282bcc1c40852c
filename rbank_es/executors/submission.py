"""What an agent hands in: an answer, the query behind it, and what it rests on. Typed, whatever it gave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from rbank_es.tools.runtime.encoder import text_of

FIELDS = ("answer", "sparql", "evidence")

FINAL = "FINAL: "
"""What the output of a step begins with that submitted; then comes the submission as JSON."""


class Refused(ValueError):
    """A submission without an answer; the message is for the agent."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in words, the SPARQL query behind it (empty if there is none), and what it rests on."""

    answer: str
    sparql: str = ""
    evidence: dict[str, Any] = {}

    @classmethod
    def of(cls, given: Any) -> Submission:
        """The submission that the fields mean. What is no text becomes its JSON; evidence that is a list of keys, or
        one key, becomes `{"keys": [...]}`. Raises `Refused` where there is no answer.
        """
        fields = given if isinstance(given, Mapping) else {"answer": given}
        answer = _words(fields.get("answer"))
        if not answer.strip():
            raise Refused("SUBMIT: the answer is empty; submit what you found, or say that it can't be told")
        return cls(answer=answer, sparql=_words(fields.get("sparql")), evidence=_evidence(fields.get("evidence")))

    @property
    def output(self) -> str:
        """The output of the step that handed it in."""
        return FINAL + json.dumps(msgspec.to_builtins(self), ensure_ascii=False)


def submitted_fields(output: str) -> str | None:
    """The JSON of the fields that a step submitted, from its output; None if that is no submission."""
    return output.removeprefix(FINAL) if output.startswith(FINAL) else None


def _words(value: Any) -> str:
    if value is None:
        return ""
    return text_of(value if isinstance(value, str) else _json(value))


def _evidence(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        value = _decoded(value)
    if value is None or value in ("", [], ()):
        return {}
    kept: dict[str, Any] = json.loads(text_of(_json(value if isinstance(value, Mapping) else {"keys": _list(value)})))
    return kept


def _decoded(text: str) -> Any:
    """JSON where it is a list or an object; else the text itself, one key."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, list | dict) else text


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]


def _json(value: Any) -> str:
    """JSON of anything: what JSON doesn't know is its text, and numbers that are none are texts."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except (ValueError, TypeError, RecursionError):
        return json.dumps(str(value), ensure_ascii=False)
