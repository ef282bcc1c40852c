"""Forms of files that people may take for importable: each is named as what it is, by the keys of its first object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Fields = Mapping[str, Any]


def _is_stream(fields: Fields) -> bool:
    return isinstance(fields.get("type"), str) and "session_id" in fields


def _is_codex(fields: Fields) -> bool:
    items = {"function_call", "function_call_output", "reasoning", "local_shell_call"}
    return (
        "record_type" in fields
        or fields.get("type") in items
        or ("instructions" in fields and {"id", "timestamp"} <= fields.keys())
    )


_FORMS: Mapping[str, Callable[[Fields], bool]] = {
    "the input of a coding agent's hook": lambda fields: "hook_event_name" in fields,
    "the output of a Claude Code session": _is_stream,
    "a Codex transcript of 2025, before its lines had a payload": _is_codex,
}


def foreign_form(fields: Fields) -> str | None:
    """Return what a file is whose first object has these fields, if it is of a form that no importer here reads."""
    # An event of ours has a type and a position, whatever else is in it.
    if not fields or ("type" in fields and "seq" in fields):
        return None
    return next((name for name, fits in _FORMS.items() if fits(fields)), None)
