"""The names of OpenTelemetry's attributes that tell of agents: one table for what is read and for what is written.

Three conventions have names for the same facts, and renamed them. Of several names of a fact the first that a span has
counts; the first of all is written. No other module knows a name of an attribute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Convention = Literal["gen_ai", "openinference", "traceloop", "otel"]
"""OpenTelemetry's for generative AI (in development), OpenInference's, Traceloop's; `otel` is stable."""


class AttributeName(NamedTuple):
    """A name of a fact: its convention, and the versions of it that have the name (both ends may be open)."""

    fact: str
    name: str
    convention: Convention
    versions: str


TABLE = (
    # What kind of work a span is.
    AttributeName("operation", "gen_ai.operation.name", "gen_ai", "1.27-"),
    AttributeName("kind", "openinference.span.kind", "openinference", "0.1-"),
    AttributeName("kind", "traceloop.span.kind", "traceloop", "0.1-"),
    AttributeName("kind", "llm.request.type", "traceloop", "0.1-0.51"),
    # Who works.
    AttributeName("service", "service.name", "otel", "1.0-"),
    AttributeName("release", "service.version", "otel", "1.0-"),
    AttributeName("instance", "service.instance.id", "otel", "1.0-"),
    AttributeName("agent", "gen_ai.agent.name", "gen_ai", "1.31-"),
    AttributeName("agent", "agent.name", "openinference", "0.1.19-"),
    AttributeName("agent", "traceloop.entity.name", "traceloop", "0.1-"),
    AttributeName("session", "gen_ai.conversation.id", "gen_ai", "1.34-"),
    AttributeName("session", "session.id", "openinference", "0.1.6-"),
    # A model's call.
    AttributeName("model", "gen_ai.response.model", "gen_ai", "1.26-"),
    AttributeName("model", "gen_ai.request.model", "gen_ai", "1.26-"),
    AttributeName("model", "llm.model_name", "openinference", "0.1-"),
    AttributeName("provider", "gen_ai.provider.name", "gen_ai", "1.37-"),
    AttributeName("provider", "gen_ai.system", "gen_ai", "1.26-1.36"),
    AttributeName("provider", "llm.provider", "openinference", "0.1.11-"),
    AttributeName("tokens_in", "gen_ai.usage.input_tokens", "gen_ai", "1.27-"),
    AttributeName("tokens_in", "gen_ai.usage.prompt_tokens", "gen_ai", "-1.26"),
    AttributeName("tokens_in", "llm.token_count.prompt", "openinference", "0.1-"),
    AttributeName("tokens_out", "gen_ai.usage.output_tokens", "gen_ai", "1.27-"),
    AttributeName("tokens_out", "gen_ai.usage.completion_tokens", "gen_ai", "-1.26"),
    AttributeName("tokens_out", "llm.token_count.completion", "openinference", "0.1-"),
    AttributeName("tokens_cached", "gen_ai.usage.cache_read.input_tokens", "gen_ai", "1.40-"),
    AttributeName("tokens_cached", "gen_ai.usage.cache_read_input_tokens", "traceloop", "0.40-"),
    AttributeName("tokens_cached", "llm.token_count.prompt_details.cache_read", "openinference", "0.1.17-"),
    AttributeName("cost_usd", "llm.cost.total", "openinference", "0.1.18-"),
    # Its messages: JSON of messages with parts, else the beginnings of flattened names.
    AttributeName("system", "gen_ai.system_instructions", "gen_ai", "1.37-"),
    AttributeName("input", "gen_ai.input.messages", "gen_ai", "1.37-"),
    AttributeName("output", "gen_ai.output.messages", "gen_ai", "1.37-"),
    AttributeName("flat_input", "llm.input_messages", "openinference", "0.1-"),
    AttributeName("flat_input", "gen_ai.prompt", "traceloop", "0.1-0.51"),
    AttributeName("flat_output", "llm.output_messages", "openinference", "0.1-"),
    AttributeName("flat_output", "gen_ai.completion", "traceloop", "0.1-0.51"),
    # What any span was given, and what it gave.
    AttributeName("input_text", "input.value", "openinference", "0.1-"),
    AttributeName("input_text", "traceloop.entity.input", "traceloop", "0.1-"),
    AttributeName("output_text", "output.value", "openinference", "0.1-"),
    AttributeName("output_text", "traceloop.entity.output", "traceloop", "0.1-"),
    # A tool's call.
    AttributeName("tool", "gen_ai.tool.name", "gen_ai", "1.31-"),
    AttributeName("tool", "tool.name", "openinference", "0.1-"),
    AttributeName("arguments", "gen_ai.tool.call.arguments", "gen_ai", "1.38-"),
    AttributeName("result", "gen_ai.tool.call.result", "gen_ai", "1.38-"),
    # A search, of a memory or of documents.
    AttributeName("query", "gen_ai.memory.query.text", "gen_ai", "after 1.41"),
    AttributeName("query", "gen_ai.retrieval.query.text", "gen_ai", "1.40-"),
    AttributeName("documents", "gen_ai.memory.records", "gen_ai", "after 1.41"),
    AttributeName("documents", "gen_ai.retrieval.documents", "gen_ai", "1.40-"),
    AttributeName("flat_documents", "retrieval.documents", "openinference", "0.1-"),
    AttributeName("store", "gen_ai.memory.store.id", "gen_ai", "after 1.41"),
    # How it went.
    AttributeName("error", "error.type", "otel", "1.23-"),
    AttributeName("exception", "exception.message", "otel", "1.0-"),
    AttributeName("exception_type", "exception.type", "otel", "1.0-"),
    AttributeName("evaluation", "gen_ai.evaluation.name", "gen_ai", "1.38-"),
    AttributeName("score", "gen_ai.evaluation.score.value", "gen_ai", "1.38-"),
    AttributeName("label", "gen_ai.evaluation.score.label", "gen_ai", "1.38-"),
    AttributeName("explanation", "gen_ai.evaluation.explanation", "gen_ai", "1.38-"),
)

OURS, SDK = "rbank-es", "telemetry.sdk.name"
"""The name of the resource that an export of a bank has, and under which it has it."""

EVALUATED = "gen_ai.evaluation.result"
"""The event, of a span or of a log, that has a verdict."""

DETAILS = "gen_ai.client.inference.operation.details"
"""The event of a log that has the messages of a model's span."""

OPERATIONS = {
    **dict.fromkeys(("chat", "text_completion", "generate_content"), "model"),
    **dict.fromkeys(("invoke_agent", "invoke_workflow", "create_agent"), "agent"),
    **dict.fromkeys(("retrieval", "search_memory"), "retrieval"),
    "execute_tool": "tool",
}
"""The kind of a span by its operation."""

KINDS = {
    **dict.fromkeys(("LLM", "CHAT", "COMPLETION"), "model"),
    **dict.fromkeys(("AGENT", "CHAIN", "WORKFLOW", "TASK"), "agent"),
    **{"TOOL": "tool", "RETRIEVER": "retrieval"},
}
"""The kind of a span by what OpenInference and Traceloop call it, in capitals."""

_NAMES: dict[str, tuple[str, ...]] = {}
for _each in TABLE:
    _NAMES[_each.fact] = (*_NAMES.get(_each.fact, ()), _each.name)


def names_of(fact: str) -> tuple[str, ...]:
    """Return the names of a fact, the one to be written first."""
    return _NAMES[fact]


def told(attributes: Mapping[str, Any], fact: str) -> Any:
    """Return the value of a fact, None where no attribute tells it."""
    for name in _NAMES[fact]:
        if (value := attributes.get(name)) is not None:
            return value
    return None
