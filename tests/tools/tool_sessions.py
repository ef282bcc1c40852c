"""Toolboxes for tests: a bank in a temporary place, and raw tools written for the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rbank_es.bank import Bank
from rbank_es.events import Event, ToolCalled
from rbank_es.tools.context_tools import FAMILY, ContextTools
from rbank_es.tools.shared.handle_store import Store
from rbank_es.tools.shared.tool_family import RawTool, Reply, ToolPolicy, ToolSession
from rbank_es.tools.shared.toolbox import Toolbox

RUN = "run-1"


def bank_at(place: Path) -> Bank:
    """A new bank that doesn't wait for the disk."""
    return Bank.create(place, unsafe_no_sync=True)


def session_for(bank: Bank, policy: ToolPolicy | None = None, *, extractor: Any = None, **options: Any) -> ToolSession:
    """The session of one run; without an extractor, for tools that need none."""
    return ToolSession(bank, RUN, Store(bank, RUN), extractor, policy=policy or ToolPolicy(mode="both"), **options)


def toolbox_for(session: ToolSession, raw: Mapping[str, RawTool] | None = None) -> Toolbox:
    """The context tools, `put` (which stores a text), and those given."""

    def put(content: str) -> Reply:
        """Store a text."""
        return Reply({}, content, "text")

    family = ContextTools(session)
    context: dict[str, RawTool] = {
        name: getattr(family, name) for name in ("ctx_stats", "ctx_peek", "ctx_slice", "ctx_find")
    }
    return Toolbox(session, {"put": put, **context, **(raw or {})}, FAMILY.caps_chars, ticking())


def ticking() -> Callable[[], float]:
    """A clock that advances by a quarter of a second each time it is read."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.25
        return now

    return clock


def calls(bank: Bank) -> list[ToolCalled]:
    """The calls that the bank has recorded, texts in place."""
    return [event for event in bank.events(resolve=True) if isinstance(event, ToolCalled)]


def types(events: list[Event]) -> list[str]:
    """The types of events."""
    return [str(event.__struct_config__.tag) for event in events]
