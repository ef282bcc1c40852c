"""The submission of a run: an answer with its query and its evidence, and what is refused as one. Loads no dspy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rbank_es.events.codec import encodable
from rbank_es.executors.run_step import EXAMPLE_QUERY
from rbank_es.executors.told_words import is_told
from rbank_es.models.reply_syntax import means_nothing, query_of
from rbank_es.sandbox.step_outcome import SubmissionRefused

FIELDS = ("answer", "sparql", "evidence")

FINAL = "FINAL: "
"""The prefix of the output of a step that submitted; the submission as JSON follows."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in words, the SPARQL query behind it (empty if there is none), and its evidence."""

    answer: str
    sparql: str = ""
    evidence: dict[str, Any] = {}

    @classmethod
    def of(cls, given: Any, told: Iterable[str] = ()) -> Submission:
        """Return a typed submission of any fields. Raises `SubmissionRefused` without an answer of the agent's own.

        `told` are the texts that the agent was told in its run: small models hand them in as they stand.

        Non-texts become JSON; evidence that is a key, or a list of keys, becomes `{"keys": [...]}`. Query and evidence
        are optional: missing, empty and a word for nothing are all the same.
        """
        fields = given if isinstance(given, Mapping) else {"answer": given}
        answer = _words(fields.get("answer"))
        if not answer.strip():
            raise SubmissionRefused("SUBMIT: the answer is empty; submit what you found, or say that it can't be told")
        if is_told(answer, told):
            raise SubmissionRefused("SUBMIT: the answer is what you were told; put what you found in its place")
        sparql = query_of(_words(fields.get("sparql")))
        sparql = "" if means_nothing(sparql) or sparql == EXAMPLE_QUERY else sparql
        return cls(answer=answer, sparql=sparql, evidence=_evidence(fields.get("evidence")))

    @property
    def output(self) -> str:
        """The output of the step that submitted it."""
        return FINAL + json.dumps(msgspec.to_builtins(self), ensure_ascii=False)


def submitted_fields(output: str) -> str | None:
    """Return the JSON of a submission from the output of its step; None if that is no submission."""
    return output.removeprefix(FINAL) if output.startswith(FINAL) else None


def _words(value: Any) -> str:
    if value is None:
        return ""
    return encodable(value if isinstance(value, str) else _json(value))


def _evidence(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        value = None if means_nothing(value) else _decoded(value)
    if value is None or value in ("", [], ()):
        return {}
    # Through JSON and back, because an event holds plain data only.
    kept: dict[str, Any] = json.loads(encodable(_json(value if isinstance(value, Mapping) else {"keys": _list(value)})))
    return kept


def _decoded(text: str) -> Any:
    # A JSON list or object is decoded; any other text is one key.
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, list | dict) else text


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]


def _json(value: Any) -> str:
    # Anything has JSON here: unknown types and NaN become text.
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except (ValueError, TypeError, RecursionError):
        return json.dumps(str(value), ensure_ascii=False)
