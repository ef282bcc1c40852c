"""From a file's bytes to events: which form it is, by what is in it and not by its name; and whether it fits a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import BadEvent, BadImport, LimitExceeded
from rbank_es.importers.event_lines import parse_exported
from rbank_es.importers.item_lists import parse_items
from rbank_es.importers.reasoningbank import parse_reasoningbank
from rbank_es.importers.trajectories import parse_trajectory
from rbank_es.importers.units import Parsed, Unit, decode
from rbank_es.log.groups import Circumstances, compose, prepare

BOM = b"\xef\xbb\xbf"
FORMS = (
    "a list of items, a trajectory (event_type), a ReasoningBank file (task_id, memory_items) "
    "and exported events (type, seq)"
)
_SALT = "A" * 24

Parser = Callable[[str, bytes], Parsed]


def parse(path: str, data: bytes) -> Parsed:
    """The events of a file, checked against every limit of the log; nothing is appended.

    `path` names the file in messages, and its stem the run of a trajectory. Pure. Raises `BadImport` with the line,
    `LimitExceeded` for more than `limits.IMPORT_FILE_BYTES`.
    """
    if len(data) > limits.IMPORT_FILE_BYTES:
        raise LimitExceeded(f"bytes of {path}", len(data), limits.IMPORT_FILE_BYTES, "split it at line ends")
    bare = data.removeprefix(BOM)
    parsed = _parser(path, bare)(path, bare)
    return replace(parsed, units=tuple(_sized(path, unit) for unit in parsed.units))


def _parser(path: str, data: bytes) -> Parser:
    start = data.lstrip()[:1]
    if start == b"[":
        return parse_items
    if start != b"{":
        found = "it is empty" if not start else "it begins with neither [ nor {"
        raise BadImport(path, f"of no known form: {found}; known are {FORMS}")
    return _by_keys(path, *_first_object(path, data))


def _first_object(path: str, data: bytes) -> tuple[dict[str, Any], int]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            fields = decode(path, line, number)
            return (fields if isinstance(fields, dict) else {}), number
    return {}, 1


def _by_keys(path: str, fields: dict[str, Any], line: int) -> Parser:
    if "event_type" in fields:
        return parse_trajectory
    if "type" in fields:
        return parse_exported
    if "memory_items" in fields or "task_id" in fields:
        return parse_reasoningbank
    keys = ", ".join(sorted(fields)[:8]) or "none"
    raise BadImport(path, f"of no known form: its first object has the keys {keys}; known are {FORMS}", line=line)


def _sized(path: str, unit: Unit) -> Unit:
    """The unit with its size, having passed all that an append would check."""
    count = len(unit.events)
    if count > limits.GROUP_EVENTS:
        allowed = f"{limits.GROUP_EVENTS:,} of one append"
        raise BadImport(path, f"{count:,} events belong together, more than the {allowed}")
    try:
        prepared = prepare(unit.events, [event.id for event in unit.events], [_SALT] * count)
        group = compose(prepared, Circumstances(1, "", 0, 0, {}, lambda: _SALT))
    except (BadEvent, LimitExceeded) as error:
        raise BadImport(path, str(error)) from None
    return replace(unit, size=len(group.data))
