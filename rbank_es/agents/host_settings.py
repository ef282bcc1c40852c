"""The settings files of coding agents as text: our hooks appended to them, and taken out again.

A file is edited as its text, never written anew: what others wrote keeps its order, its spacing and its numbers. Our
groups come last in their lists, because Codex trusts a hook by its place in the list. They are known by their command,
which is the same for ever. What isn't strict JSON is refused, because the host ignores or loses such a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from json.decoder import JSONDecoder
from typing import Any, Literal, NamedTuple

from rbank_es.errors import BadInput

Host = Literal["claude-code", "codex"]

COMMAND = "rbank-es hook"
EVENTS: Mapping[Host, Mapping[str, int]] = {
    "claude-code": {
        "SessionStart": 5,
        "UserPromptSubmit": 5,
        "PostToolUse": 5,
        "PostToolUseFailure": 5,
        "Stop": 5,
        "SubagentStop": 5,
        "StopFailure": 5,
        "SessionEnd": 5,
    },
    # Codex gives the last two three seconds at most, and warns about more.
    "codex": {
        "SessionStart": 5,
        "UserPromptSubmit": 5,
        "PostToolUse": 5,
        "Stop": 5,
        "SubagentStop": 5,
        "SessionEnd": 3,
        "Interrupt": 3,
    },
}
"""The events that are hooked, each with its timeout in seconds."""

_SPACE = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"\n([ \t]+)\S")
_BOM = "\ufeff"


class BadSettings(BadInput):
    """A settings file is not what its host reads, so it is left as it is."""

    def __init__(self, path: str, reason: str, line: int | None = None) -> None:
        self.path, self.reason, self.line = path, reason, line
        at = f"{path}:{line}" if line else path
        super().__init__(f"{at}: {reason}. Nothing was changed; mend the file, or remove it, and run the same again")


class _Part(NamedTuple):
    """A member of an object or an element of a list: its key, where it begins, and where its value begins and ends."""

    key: str
    begin: int
    value: int
    end: int


def with_hooks(text: str, host: Host, path: str) -> str:
    """Return the settings with our groups for all events of a host appended; the same where they are all there.

    Raises `BadSettings`.
    """
    bare = text.removeprefix(_BOM)
    mark = text[: len(text) - len(bare)]
    if not bare.strip():
        bare = "{}\n"
    _checked(bare, path)
    newline = "\r\n" if "\r\n" in bare else "\n"
    found = _INDENT.search(bare.replace("\r\n", "\n"))
    style = _Style(newline, found[1] if found else "  ")
    if _member(bare, _start(bare), "hooks") is None:
        bare = style.added(bare, _start(bare), 0, '"hooks": {}')
    for event, timeout_s in EVENTS[host].items():
        hooks = _member(bare, _start(bare), "hooks")
        assert hooks is not None
        if _member(bare, hooks.value, event) is None:
            bare = style.added(bare, hooks.value, 1, f"{json.dumps(event)}: []")
            hooks = _member(bare, _start(bare), "hooks")
            assert hooks is not None
        groups = _member(bare, hooks.value, event)
        assert groups is not None
        if not any(_is_ours(bare, group) for group in _parts(bare, groups.value)):
            bare = style.added(bare, groups.value, 2, style.group(timeout_s))
    return mark + bare


def without_hooks(text: str, path: str) -> str:
    """Return the settings without our groups, and without the lists that are empty then. Raises `BadSettings`."""
    bare = text.removeprefix(_BOM)
    mark = text[: len(text) - len(bare)]
    if not bare.strip():
        return text
    _checked(bare, path)
    while (cut := _next_cut(bare)) is not None:
        bare = bare[: cut[0]] + bare[cut[1] :]
    return mark + bare


def hooked_events(text: str, path: str) -> dict[str, int]:
    """Return the events for which a file has our group, each with the group's index. Raises `BadSettings`."""
    bare = text.removeprefix(_BOM)
    if not bare.strip():
        return {}
    _checked(bare, path)
    hooks = _member(bare, _start(bare), "hooks")
    lists = _parts(bare, hooks.value) if hooks else []
    return {
        each.key: index
        for each in lists
        for index, group in enumerate(_parts(bare, each.value))
        if _is_ours(bare, group)
    }


def moved_events(text: str, path: str) -> list[str]:
    """Return the events in which groups of others follow ours: their places change when ours goes."""
    bare = text.removeprefix(_BOM)
    found = hooked_events(text, path)
    hooks = _member(bare, _start(bare), "hooks") if found else None
    lists = _parts(bare, hooks.value) if hooks else []
    return [each.key for each in lists if each.key in found and found[each.key] + 1 < len(_parts(bare, each.value))]


class _Style(NamedTuple):
    """The spacing of a file."""

    newline: str
    indent: str

    def added(self, text: str, container: int, depth: int, piece: str) -> str:
        """Return the text with a piece as the last part of the object or list that begins at `container`."""
        parts = _parts(text, container)
        inner, outer = (self.newline + self.indent * each for each in (depth + 1, depth))
        if parts:
            end = parts[-1].end
            return f"{text[:end]},{inner}{piece}{text[end:]}"
        return f"{text[: container + 1]}{inner}{piece}{outer}{text[_SPACE.match(text, container + 1).end() :]}"  # type: ignore[union-attr]

    def group(self, timeout_s: int) -> str:
        """Return our group, as the third level of a file."""
        hook = {"type": "command", "command": COMMAND, "timeout": timeout_s}
        shown = json.dumps({"hooks": [hook]}, indent=self.indent)
        return shown.replace("\n", self.newline + self.indent * 3)


def _checked(text: str, path: str) -> None:
    """Raise `BadSettings` unless the text is strict JSON of the form that hosts read."""
    try:
        settings = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_single)
    except json.JSONDecodeError as error:
        before = text[: error.pos].rstrip()
        line = text[error.pos :].lstrip()
        comment = line.startswith(("//", "/*", "#"))
        reason = "a comment, which no strict JSON has" if comment else f"not JSON ({error.msg})"
        if before.endswith(",") and line.startswith(("}", "]")):
            reason = "not JSON (a comma before the end)"
        raise BadSettings(path, reason, error.lineno) from None
    except RecursionError:
        raise BadSettings(path, "it is nested too deeply") from None
    except ValueError as error:
        raise BadSettings(path, str(error)) from None
    if not isinstance(settings, dict):
        raise BadSettings(path, "it is no JSON object")
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise BadSettings(path, "its hooks are not lists by event")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has {next(name for name in names if names.count(name) > 1)!r} twice in one object")
    return found


def _start(text: str) -> int:
    return _skipped(text, 0)


def _skipped(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _parts(text: str, container: int) -> list[_Part]:
    """Return the parts of the object or list that begins at a place; none of any other value."""
    closing, found, at = {"{": "}", "[": "]"}.get(text[container], ""), list[_Part](), _skipped(text, container + 1)
    while closing and text[at] != closing:
        at = _skipped(text, at + 1) if text[at] == "," else at
        begin, key = at, ""
        if closing == "}":
            key, at = JSONDecoder().raw_decode(text, at)
            at = _skipped(text, _skipped(text, at) + 1)
        _, end = JSONDecoder().raw_decode(text, at)
        found.append(_Part(key, begin, at, end))
        at = _skipped(text, end)
    return found


def _member(text: str, container: int, key: str) -> _Part | None:
    return next((part for part in _parts(text, container) if part.key == key), None)


def _is_ours(text: str, group: _Part) -> bool:
    value = json.loads(text[group.value : group.end])
    hooks = value.get("hooks") if isinstance(value, dict) else None
    return isinstance(hooks, list) and bool(hooks) and all(map(_is_our_hook, hooks))


def _is_our_hook(hook: Any) -> bool:
    if not isinstance(hook, dict):
        return False
    command, args = hook.get("command"), hook.get("args")
    words = [command, *args] if isinstance(args, list) else str(command).split()
    return words[:2] == COMMAND.split()


def _next_cut(text: str) -> tuple[int, int] | None:
    """Return the span of one group of ours, with its list or all hooks where nothing else is in them; None of none."""
    hooks = _member(text, _start(text), "hooks")
    lists = _parts(text, hooks.value) if hooks else []
    for each in lists:
        groups = _parts(text, each.value)
        ours = [group for group in groups if _is_ours(text, group)]
        if not ours or hooks is None:
            continue
        if len(ours) < len(groups):
            return _span(groups, ours[-1], text)
        others = [one for one in lists if one is not each]
        return _span(lists, each, text) if others else _span(_parts(text, _start(text)), hooks, text)
    return None


def _span(parts: list[_Part], part: _Part, text: str) -> tuple[int, int]:
    """Return what to cut for one of some parts: with the comma before it, or of the first the one behind."""
    place = parts.index(part)
    if place:
        return parts[place - 1].end, part.end
    if len(parts) > 1:
        return part.begin, parts[1].begin
    # The only one: also the space around it, which an empty object or list has no use for.
    begin = len(text[: part.begin].rstrip(" \t\r\n"))
    return begin, _skipped(text, part.end)
