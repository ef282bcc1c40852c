"""What each face allows an answer: the one place where an answer may be less on one face than on another."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from rbank_es.limits import mcp_limits, page_limits

Face = Literal["whole", "api", "page", "file", "agents"]
"""whole: Python and the command line. api: programs that ask a server. page: what the server's own page asks, whose
texts open when they are clicked. file: an exported page. agents: the tools of `rbank-es mcp`."""


class Bounds(Struct, frozen=True, kw_only=True):
    """What a face allows an answer.

    rows_most    rows of a page at most;  chars  characters of each text, unless asked for fewer
    text_chars   the same of the answers about one run, event or supposition
    events_bytes bytes of JSON of a run's events in one answer at most, but one event at least
    statement_s  seconds of each question to the read models
    answer_s     seconds of an answer that computes: what-if, bisection, checks
    files        whether files of this machine, and other banks, may be named
    prompts      whether what models were sent and answered is shown
    digits       significant digits of fractions in an event's facts
    command      the bank as commands of this face name it, by default its name
    head         the position up to which the log is known, by default the newest
    """

    rows_most: int | None = None
    chars: int | None = None
    text_chars: int | None = None
    events_bytes: int | None = None
    statement_s: float | None = None
    answer_s: int | None = None
    files: bool = True
    prompts: bool = True
    digits: int | None = None
    command: str = ""
    head: int | None = None


def bounds_of(face: Face, **facts: Any) -> Bounds:
    """Return the bounds of a face, with such facts as `command`, `head` and `prompts`."""
    return replace(_BOUNDS[face](), **facts)


def _file() -> Bounds:
    return Bounds(
        rows_most=page_limits.LIST_ROWS_MOST,
        chars=page_limits.LIST_TEXT_CHARS,
        text_chars=page_limits.TEXT_CHARS,
        events_bytes=page_limits.EVENTS_BYTES,
        digits=page_limits.FRACTION_DIGITS,
    )


def _page() -> Bounds:
    return replace(_file(), statement_s=page_limits.STATEMENT_S, answer_s=page_limits.ANSWER_S, files=False)


def _api() -> Bounds:
    return replace(_page(), chars=None, text_chars=None, digits=None)


def _agents() -> Bounds:
    return Bounds(
        rows_most=mcp_limits.MCP_ROWS,
        chars=mcp_limits.MCP_TEXT_CHARS,
        text_chars=mcp_limits.MCP_TEXT_CHARS,
        statement_s=mcp_limits.MCP_STATEMENT_S,
        answer_s=mcp_limits.MCP_ANSWER_S,
        files=False,
        prompts=False,
    )


_BOUNDS = {"whole": Bounds, "api": _api, "page": _page, "file": _file, "agents": _agents}
