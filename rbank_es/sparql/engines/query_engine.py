"""The engine: whatever runs a query that the guard has let through."""

from __future__ import annotations

from typing import Protocol

import msgspec

from rbank_es import limits
from rbank_es.sparql.answers import Answer, Form


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """What a query may cost. `rows` is what the answer may hold: an engine is asked for one more, and drops it."""

    rows: int = limits.QUERY_ROWS_DEFAULT
    size_bytes: int = limits.RESULT_BYTES
    cell_chars: int = limits.RESULT_CELL_CHARS
    timeout_s: float = limits.QUERY_TIME_S


class Engine(Protocol):
    """Runs queries; safe for several threads. Never guards: what reaches it is run."""

    def run(self, query: str, form: Form, caps: Caps) -> Answer:
        """The answer, within the caps. Raises `QueryFailed`; the engine is ready for the next query then."""
        ...

    def close(self) -> None:
        """Let go of processes and connections. A closed engine opens again by itself when used."""
        ...
