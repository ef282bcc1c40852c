"""The facts of one span that a run is made of: small, bounded, without secrets. All else of a span is dropped at once.

A span of a model, a tool, a search or an agent has facts, and one without a parent: its end is that of its trace. So
have the logs that tell a span's messages or an evaluation. Pure functions of what was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec

from rbank_es.agents.traces.otlp_body import LAST_NS, SentBody, SentSpan
from rbank_es.agents.traces.span_messages import (
    Message,
    MessageCall,
    input_messages,
    nested,
    output_messages,
    parsed,
    system_text,
)
from rbank_es.agents.transcripts.transcript_lines import holdable
from rbank_es.agents.transcripts.transcript_run import ToolUse, clipped, shortened, text_or_none
from rbank_es.bank.recorded_values import recorded_amount, recorded_count, recorded_name
from rbank_es.events.likely_secrets import redact_likely
from rbank_es.events.run_events import VerdictValue
from rbank_es.exchange.otlp_names import DETAILS, EVALUATED, KINDS, OPERATIONS, OURS, SDK, names_of, told
from rbank_es.limits import EVENT_USD
from rbank_es.limits.otlp_limits import OTLP_KEPT, OTLP_READ_CHARS, OTLP_TOOLS

Kind = Literal["agent", "model", "tool", "retrieval", "other", "log"]
_OPENING_DIGITS = 16
_UNNAMED = "unknown_service"
"""How the SDK calls a service that nobody named."""

_GOOD = frozenset({"pass", "passed", "success", "correct", "true", "yes", "good"})
_BAD = frozenset({"fail", "failed", "failure", "incorrect", "false", "no", "bad"})


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict that an evaluator gave, whoever it is."""

    name: str
    verdict: VerdictValue
    reason: str = ""
    at_ns: int = 0


class SpanFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one span, or one log, tells of its run. Texts are redacted, and long ones only begun.

    `prompt` is what a user asked, `given` are texts of the host, `text` is what came out, `made` are the calls of a
    conversation since the user's last words. `remote`: the parent is in another process. `*_chars`: of the whole.
    `instance` names the process, `opening` is a digest of the user's first words in a conversation.
    """

    trace: str
    span: str
    kind: Kind
    parent: str = ""
    remote: bool = False
    began_ns: int = 0
    ended_ns: int = 0
    name: str = ""
    host: str = ""
    release: str = ""
    session: str = ""
    instance: str = ""
    opening: str = ""
    model: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost_usd: float | None = None
    prompt: str = ""
    given: tuple[str, ...] = ()
    text: str = ""
    text_chars: int = 0
    reasoning: str = ""
    arguments: Any = None
    made: tuple[ToolUse, ...] = ()
    is_error: bool = False
    error: str = ""
    evaluations: tuple[Evaluation, ...] = ()
    dropped: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        """By what it is told from others: a span by its id, a log by what it says."""
        part = sha256(msgspec.json.encode(self, order="sorted")).hexdigest() if self.kind == "log" else ""
        return self.trace, self.span, part


class FactReader:
    """A reader of spans. `hidden` are secrets of this environment, which no fact holds."""

    def __init__(self, hidden: tuple[str, ...]) -> None:
        self._hidden = hidden

    def facts(self, sent: SentSpan) -> SpanFacts | None:
        """Return the facts of a span or a log; None where it says nothing of an agent."""
        if sent.resource.get(SDK) == OURS:
            return None
        if sent.event is not None:
            return self._of_log(sent)
        kind = _kind_of(sent.attributes)
        if kind == "other" and sent.parent and not sent.remote and not sent.events:
            return None
        facts = self._common(sent, kind)
        if kind == "model":
            facts |= self._of_model(sent.attributes)
        elif kind in ("tool", "retrieval"):
            facts |= self._of_tool(sent.attributes, kind)
        else:
            facts |= self._of_agent(sent.attributes)
        return SpanFacts(**facts)

    def _of_log(self, sent: SentSpan) -> SpanFacts | None:
        told_by: dict[str, Any] = {"trace": sent.trace, "span": sent.span, "kind": "log", "began_ns": sent.began_ns}
        if sent.event == EVALUATED:
            found = (self._evaluation(sent.attributes, sent.began_ns),)
            return SpanFacts(**told_by, evaluations=found)
        return SpanFacts(**told_by, **self._of_model(sent.attributes)) if sent.event == DETAILS else None

    def _common(self, sent: SentSpan, kind: Kind) -> dict[str, Any]:
        given, service = sent.attributes, str(told(sent.resource, "service") or "")
        host = "" if service.startswith(_UNNAMED) else service
        raised = next((each.attributes for each in sent.events if each.name == "exception"), {})
        message = sent.message or told(raised, "exception") or told(given, "error") or told(raised, "exception_type")
        is_error = sent.is_error or told(given, "error") is not None
        judged = [each.attributes for each in sent.events if each.name == EVALUATED]
        return {
            **{"trace": sent.trace, "span": sent.span, "parent": sent.parent, "kind": kind, "remote": sent.remote},
            "began_ns": min(sent.began_ns, LAST_NS),
            "ended_ns": min(max(sent.ended_ns, sent.began_ns), LAST_NS),
            "is_error": is_error,
            "name": self._name(told(given, "tool") or told(given, "agent") or sent.name),
            "host": self._name(host or told(given, "agent")),
            "release": self._name(told(sent.resource, "release")),
            "session": self._name(told(given, "session")),
            "instance": self._name(told(sent.resource, "instance")),
            "error": self._text(message)[0] if is_error else "",
            "evaluations": tuple(self._evaluation(each, sent.ended_ns) for each in judged[:OTLP_KEPT]),
            "dropped": sent.dropped,
        }

    def _of_model(self, given: Mapping[str, Any]) -> dict[str, Any]:
        asked, said = input_messages(given), output_messages(given)
        prompt = _last(asked, "user") if asked else _stated(given, "input_text")
        text = "\n".join(each.text for each in said if each.text) if said else _stated(given, "output_text")
        systems = [system_text(given), *(each.text for each in asked if each.role in ("system", "developer"))]
        out, chars = self._text(text)
        return {
            "model": self._name(told(given, "model")),
            "tokens_in": recorded_count(told(given, "tokens_in")),
            "tokens_out": recorded_count(told(given, "tokens_out")),
            "tokens_cached": recorded_count(told(given, "tokens_cached")),
            "cost_usd": recorded_amount(told(given, "cost_usd"), EVENT_USD),
            "prompt": self._text(prompt)[0],
            "opening": _digest(next((each.text for each in asked if each.role == "user" and each.text), "")),
            "given": tuple(self._text(each)[0] for each in dict.fromkeys(filter(None, systems)))[:OTLP_KEPT],
            **{"text": out, "text_chars": chars},
            "reasoning": self._text("\n".join(each.reasoning for each in said if each.reasoning))[0],
            "made": tuple(self._made(asked)),
        }

    def _made(self, asked: list[Message]) -> list[ToolUse]:
        """Return the calls with their results since the user's last words."""
        last = max((number for number, each in enumerate(asked) if each.role == "user"), default=-1)
        calls: dict[str, MessageCall] = {}
        made = list[ToolUse]()
        for message in asked[last + 1 :]:
            calls |= {call.id: call for call in message.calls}
            for id, result in message.results:
                if (call := calls.pop(id, None)) is not None and len(made) < OTLP_TOOLS:
                    # Numbered, because some servers name each call alike.
                    made.append(self._made_call(self._name(f"{len(made)} {id}"), call, result))
        return made

    def _made_call(self, id: str, call: MessageCall, result: str) -> ToolUse:
        text, chars = self._text(result)
        use = ToolUse(id=id, name=self._name(call.name) or "unknown", arguments=self._json(call.arguments))
        use.answer(text)
        use.chars = chars
        return use

    def _of_tool(self, given: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
        if kind == "retrieval":
            query = told(given, "query")
            arguments: Any = {"query": query} if query is not None else parsed(told(given, "input_text"))
            documents = told(given, "documents") or [
                found for prefix in names_of("flat_documents") for found in nested(given, prefix)
            ]
            result = documents or told(given, "output_text")
        else:
            arguments = parsed(told(given, "arguments") or told(given, "input_text"))
            result = told(given, "result") or told(given, "output_text")
        text, chars = self._text(result)
        return {"arguments": self._json(arguments), "text": text, "text_chars": chars}

    def _of_agent(self, given: Mapping[str, Any]) -> dict[str, Any]:
        said = self._of_model(given)
        return {name: said[name] for name in ("prompt", "text", "text_chars", "model")}

    def _evaluation(self, given: Mapping[str, Any], at_ns: int) -> Evaluation:
        label, score = str(told(given, "label") or "").strip().lower(), recorded_amount(told(given, "score"), 1e9)
        verdict: VerdictValue = "undecided"
        if label in _GOOD | _BAD:
            verdict = "success" if label in _GOOD else "failure"
        elif score is not None and not label and score in (0, 1):
            verdict = "success" if score else "failure"
        name = self._name(told(given, "evaluation")) or "evaluation"
        return Evaluation(name=name, verdict=verdict, reason=self._text(told(given, "explanation"))[0], at_ns=at_ns)

    # ---------------------------------------------------------------- values

    def _name(self, value: Any) -> str:
        return recorded_name(redact_likely(value, self._hidden), "") if text_or_none(value) else ""

    def _text(self, value: Any) -> tuple[str, int]:
        """Return the beginning of a text, redacted, and the characters of all of it."""
        text = _plain(value)
        # Redact before clipping, and not all of it: an attribute may have megabytes.
        clean = redact_likely(holdable(text[:OTLP_READ_CHARS]).replace("\0", ""), self._hidden)
        return clipped(clean), len(text)

    def _json(self, value: Any) -> Any:
        """Return arguments as plain data with short texts, redacted as the text that they are recorded as."""
        if value is None or isinstance(value, str):
            return self._text(value)[0] if value else None
        text = msgspec.json.encode(shortened(holdable(value))).decode()
        return parsed(redact_likely(text, self._hidden)) if len(text) <= OTLP_READ_CHARS else self._text(text)[0]


def facts_of(body: SentBody, reader: FactReader) -> list[SpanFacts]:
    """Return the facts of a body's spans; refuse those that are nested too deeply."""
    found = list[SpanFacts]()
    for sent in body.spans:
        try:
            if (facts := reader.facts(sent)) is not None:
                found.append(facts)
        except (RecursionError, ValueError, msgspec.MsgspecError) as error:
            body.refuse("nested too deeply" if isinstance(error, RecursionError) else str(error))
    return found


def _kind_of(given: Mapping[str, Any]) -> Kind:
    operation, kind = told(given, "operation"), told(given, "kind")
    found: Any = OPERATIONS.get(str(operation)) or KINDS.get(str(kind).upper())
    if found is None and operation is None and kind is None and told(given, "model") is not None:
        return "model"
    return found or "other"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:_OPENING_DIGITS] if text else ""


def _last(messages: list[Message], role: str) -> str:
    return next((each.text for each in reversed(messages) if each.role == role and each.text), "")


def _stated(given: Mapping[str, Any], fact: str) -> str:
    return _plain(told(given, fact))


def _plain(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(holdable(value)).decode()
