"""An event that a coding agent gives to a hook, parsed: JSON of Claude Code, Codex, Cursor or Gemini CLI.

Only Python's own library is imported here, because a hook is a process for every prompt and every tool call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from rbank_es.limits import hook_limits as limits

KINDS = {
    "UserPromptSubmit": "prompt",
    "beforeSubmitPrompt": "prompt",
    "BeforeAgent": "prompt",
    "SessionStart": "start",
    "PostToolUse": "tool",
    "AfterTool": "tool",
    "PostToolUseFailure": "tool",
    "Stop": "stop",
    "AfterAgent": "stop",
    "SubagentStop": "subagent_stop",
    "StopFailure": "failure",
    "Interrupt": "interrupt",
    "SessionEnd": "end",
}
"""What each event of a host means here. All others are noted, and nothing more."""

_GEMINI = frozenset({"BeforeAgent", "AfterTool", "AfterAgent"})
_TURNS = ("prompt_id", "turn_id", "generation_id")


class UnreadableEvent(ValueError):
    """Standard input held no event; the message says why, in a few words."""


class HookEvent(NamedTuple):
    """One event. `turn` is the host's own id of the turn, where it has one; `facts` are the fields of the kind."""

    name: str
    kind: str
    host: str
    session: str
    turn: str | None
    cwd: str | None
    transcript: str | None
    facts: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The user's words; empty for other kinds."""
        return str(self.facts.get("prompt", ""))


def read_event(data: bytes) -> HookEvent:
    """Return the event in some bytes, with or without a byte order mark. Raises `UnreadableEvent`."""
    if len(data) > limits.HOOK_EVENT_BYTES:
        raise UnreadableEvent("the event is too large")
    try:
        given = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnreadableEvent("the event is not UTF-8") from None
    except (ValueError, RecursionError):
        raise UnreadableEvent("the event is not whole JSON" if data.strip() else "there was no event") from None
    if not isinstance(given, dict):
        raise UnreadableEvent("the event is no JSON object")
    name = _text(given.get("hook_event_name"), limits.SPOOL_NAME_CHARS)
    if not name:
        raise UnreadableEvent("the event has no hook_event_name")
    kind = KINDS.get(name, "unknown")
    return HookEvent(
        name=name,
        kind=kind,
        host=_host(given, name),
        session=_name(given, "session_id") or _name(given, "conversation_id") or "",
        turn=next((turn for key in _TURNS if (turn := _name(given, key))), None),
        cwd=_folder(given),
        transcript=_name(given, "transcript_path"),
        facts=_facts(kind, given),
    )


def answer_of(event_name: str, text: str) -> bytes:
    """Return the one form of answer that all hosts accept: a context for the model."""
    said = {"hookEventName": event_name, "additionalContext": text}
    return json.dumps({"hookSpecificOutput": said}).encode()


def _host(given: Mapping[str, Any], name: str) -> str:
    if "cursor_version" in given:
        return "cursor"
    if name in _GEMINI:
        return "gemini-cli"
    # Codex says `turn_id` wherever there is a turn, and may have no transcript.
    codex = "turn_id" in given or (given.get("transcript_path", "") is None and "prompt_id" not in given)
    return "codex" if codex else "claude-code"


def _folder(given: Mapping[str, Any]) -> str | None:
    if cwd := _name(given, "cwd"):
        return cwd
    roots = given.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else None
    return first if isinstance(first, str) and first else None


def _facts(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if model := _name(given, "model"):
        facts["model"] = model
    if kind == "prompt":
        facts["prompt"] = _text(given.get("prompt"), limits.SPOOL_PROMPT_CHARS)
    elif kind == "tool":
        facts |= _tool_facts(given)
    elif kind in ("stop", "subagent_stop"):
        facts["answer"] = _text(given.get("last_assistant_message"), limits.SPOOL_TEXT_CHARS)
        facts["going_on"] = bool(given.get("background_tasks"))
        facts["agent"] = _name(given, "agent_id")
    elif kind == "failure":
        facts["error"] = _text(given.get("error"), limits.SPOOL_TEXT_CHARS)
    elif kind in ("start", "end"):
        facts["why"] = _name(given, "source") or _name(given, "reason")
    return facts


def _tool_facts(given: Mapping[str, Any]) -> dict[str, Any]:
    duration = given.get("duration_ms")
    failed = "error" in given
    return {
        "tool": _name(given, "tool_name") or "unknown",
        "call": _name(given, "tool_use_id"),
        "arguments": _text(given.get("tool_input"), limits.SPOOL_TEXT_CHARS),
        "result": _text(
            given.get("error" if failed else "tool_response"), limits.SPOOL_TEXT_CHARS, limits.SPOOL_TEXT_CHARS // 2
        ),
        "failed": failed,
        "interrupted": given.get("is_interrupt") is True,
        "ms": duration if isinstance(duration, int | float) and 0 <= duration < 1e12 else None,
        "agent": _name(given, "agent_id"),
    }


def _name(given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    return value if isinstance(value, str) and 0 < len(value) <= limits.SPOOL_NAME_CHARS else None


def _text(value: Any, most: int, end: int = 0) -> str:
    """Return a text, or the JSON of any other value, cut to `most` characters, the last `end` of it among them.

    Raises `UnreadableEvent`.
    """
    if value is None:
        return ""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise UnreadableEvent("the event is nested too deeply") from None
    # With its end, because a summary of tests stands there.
    text = text if len(text) <= most else text[: most - end - 1] + "…" + text[len(text) - end :]
    # JSON can hold half a character, and neither a search nor a log can.
    return text.encode("utf-8", "replace").decode()
