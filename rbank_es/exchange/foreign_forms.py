"""Forms of files that people may take for importable: each is named as what it is, by the keys of its first object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Fields = Mapping[str, Any]


def _is_claude_code(fields: Fields) -> bool:
    noted = {"sessionId", "uuid", "leafUuid", "parentUuid", "snapshot"}
    return isinstance(fields.get("type"), str) and not noted.isdisjoint(fields)


def _is_stream(fields: Fields) -> bool:
    return isinstance(fields.get("type"), str) and "session_id" in fields


def _is_codex(fields: Fields) -> bool:
    items = {"function_call", "function_call_output", "reasoning", "local_shell_call"}
    return (
        "payload" in fields
        or "record_type" in fields
        or fields.get("type") in items
        or ("instructions" in fields and {"id", "timestamp"} <= fields.keys())
    )


def _is_gemini(fields: Fields) -> bool:
    return {"sessionId", "projectHash"} <= fields.keys()


def _is_atif(fields: Fields) -> bool:
    return str(fields.get("schema_version", "")).startswith("ATIF-") or {"agent", "steps"} <= fields.keys()


def _is_chat(fields: Fields) -> bool:
    return isinstance(fields.get("messages"), list) or {"role", "content"} <= fields.keys()


_FORMS: Mapping[str, Callable[[Fields], bool]] = {
    "a Gemini CLI transcript": _is_gemini,
    "the input of a coding agent's hook": lambda fields: "hook_event_name" in fields,
    "an ATIF trajectory": _is_atif,
    "a Claude Code transcript": _is_claude_code,
    "the output of a Claude Code session": _is_stream,
    "a Codex transcript": _is_codex,
    "a list of chat messages": _is_chat,
    "an OpenTelemetry trace": lambda fields: "resourceSpans" in fields,
}


def foreign_form(fields: Fields) -> str | None:
    """Return what a file is whose first object has these fields, if it is of a form that no importer here reads."""
    # An event of ours has a type and a position, whatever else is in it.
    if not fields or ("type" in fields and "seq" in fields):
        return None
    return next((name for name, fits in _FORMS.items() if fits(fields)), None)
