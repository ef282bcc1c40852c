"""The tools of one run, built together: the calls of an agent, its manual, and the same calls for a Python program."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, QueryFailed
from rbank_es.events import Ref, ToolCalled
from rbank_es.events.event import Timer
from rbank_es.tools.runtime.invocation import Tool
from rbank_es.tools.runtime.run_meter import RunMeter
from rbank_es.tools.runtime.store import Store
from rbank_es.tools.runtime.tool_family import (
    TOOL_FAMILIES,
    RawTool,
    ToolPolicy,
    ToolSession,
    offered_tools,
    public_methods,
)

if TYPE_CHECKING:
    from rbank_es.bank.memory_graph import MemoryGraph
    from rbank_es.ontology.loader import Ontology
    from rbank_es.sparql.source import Source
    from rbank_es.tools.memory.query_extractor import Extractor

Function = Callable[..., dict[str, Any]]


class Manual(NamedTuple):
    """One tool as the agent reads about it, and the characters of JSON that it returns at most."""

    name: str
    usage: str
    doc: str
    cap_chars: int


class Toolbox:
    """The tools of one run, by name. A context manager; calls from several threads are made one at a time."""

    def __init__(
        self,
        session: ToolSession,
        tools: Mapping[str, RawTool],
        caps_chars: Mapping[str, int] | None = None,
        clock: Timer = time.perf_counter,
    ) -> None:
        def built(named: Mapping[str, RawTool]) -> dict[str, Tool]:
            caps = caps_chars or {}
            return {
                name: Tool(name, raw, session, caps.get(name, limits.TOOL_RETURN_CHARS), clock)
                for name, raw in named.items()
            }

        self.session = session
        self._calls = session.calls
        self._lock = RLock()
        self._tools = built(tools)
        self._python = built(dict(public_methods(TOOL_FAMILIES.get("python").tools(session))))
        self.functions: dict[str, Function] = {name: self._function(tool) for name, tool in self._tools.items()}
        """Plain functions by name, with the signature and the docstring that the agent reads."""

    def _function(self, tool: Tool) -> Function:
        def function(*given: Any, **named: Any) -> dict[str, Any]:
            return self._call(tool, given, named)

        hints = {**tool.hints, "return": dict[str, Any]}
        parameters = [each.replace(annotation=hints.get(each.name, Any)) for each in tool.signature.parameters.values()]
        function.__name__ = function.__qualname__ = tool.name
        function.__doc__ = tool.doc
        function.__annotations__ = hints
        function.__signature__ = inspect.Signature(parameters, return_annotation=dict[str, Any])  # type: ignore[attr-defined]
        return function

    def _call(self, tool: Tool, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        # One at a time, because a call's number and its place in the log must agree.
        with self._lock:
            meter = self.session.meter
            excess = meter.count_call()
            # Of many refusals only the first is recorded: a loop over calls must not fill the log with them.
            if excess is not None and not meter.is_first(excess):
                return tool.refusal(excess)
            self._calls += 1
            self.session.call = f"call-{self._calls}"
            return tool.call(given, named, excess)

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a tool by name. A failure is data: `{"ok": false, "error": {code, message, hint}}`.

        Raises `BadInput` for a name that no tool has.
        """
        if name not in self._tools:
            raise BadInput(f"no tool {name!r}; there are: {', '.join(self._tools)}")
        return self._call(self._tools[name], (), arguments or {})

    def manual(self) -> tuple[Manual, ...]:
        """Return every tool as the agent reads about it."""
        return tuple(Manual(tool.name, tool.usage, tool.doc, tool.cap_chars) for tool in self._tools.values())

    def load_graph(self, path: str | Path) -> Ref:
        """Return a handle to a graph as N-Quads, read from a file or a directory. Raises `QueryFailed`."""
        return self._ref("load_graph", {"path": str(path)})

    def execute_query(self, sparql: str, limit: int = limits.QUERY_ROWS_DEFAULT) -> Ref:
        """Return a handle to the result of a query on the run's source. Raises `QueryFailed`."""
        return self._ref("execute_query", {"query": sparql, "limit": limit})

    def retrieve_memories(self, query: str, k: int = 1) -> Ref:
        """Return a handle to the `k` items that fit a query best, in full, as JSON. Raises `QueryFailed`."""
        return self._ref("retrieve_memories", {"query": query, "k": k})

    def _ref(self, name: str, arguments: Mapping[str, Any]) -> Ref:
        result = self._call(self._python[name], (), arguments)
        if not result["ok"]:
            error = result["error"]
            raise QueryFailed(error["code"], error["message"], error["hint"])
        return self.session.store.resolve(result)

    def close(self) -> None:
        """Release the source's processes and connections."""
        if self.session.source is not None:
            self.session.source.close()

    def __enter__(self) -> Toolbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def build_tools(
    bank: Bank,
    *,
    run: str,
    ontology: Ontology | str | Path | None = None,
    endpoint: str | None = None,
    void: str | Path | None = None,
    source: Source | None = None,
    memory_graph: MemoryGraph | None = None,
    policy: ToolPolicy | None = None,
    extractor: Extractor | None = None,
    meter: RunMeter | None = None,
    clock: Timer = time.perf_counter,
    new_id: Callable[[], str] | None = None,
    embed: Callable[[str], None] | None = None,
) -> Toolbox:
    """Build the tools of one run over a local ontology, an endpoint, a source that is already open, or memory alone.

    Every call appends its events to `bank` under `run`. `void` is a file that describes the endpoint. `memory_graph` is
    the bank's own provenance, which the agent may query too; the caller closes it. Without
    `extractor`, queries are proposed by `QueryPattern`; `meter` has the bounds of the run, by default those of
    `RunBounds`; `clock` measures the duration of calls, in seconds; `new_id` makes the keys of handles, by default the
    log does; `embed` has a vector recorded for a query before the bank is searched for it.

    Raises:
        BadInput: `run` is too long, or more than one of `ontology`, `endpoint` and `source` is given.
        BadOntology: the ontology can't be loaded.
        BadPlugin: a plugin fails, or its tool has a name that is taken.
    """
    from rbank_es.tools.memory.query_extractor import QueryPattern

    if not 1 <= len(run) <= limits.NAME_CHARS:
        raise BadInput(f"a run's id has 1 to {limits.NAME_CHARS} characters, not {len(run):,}")
    if sum(given is not None for given in (ontology, endpoint, source)) > 1:
        raise BadInput("give one of ontology, endpoint and source, not several")
    opened = source or _open(ontology, endpoint, void)
    store = Store(bank, run, new_id)
    extractor, policy, meter = extractor or QueryPattern(), policy or ToolPolicy(), meter or RunMeter()
    session = ToolSession(bank, run, store, extractor, opened, memory_graph, policy, meter, embed=embed)
    _resume(session)
    return Toolbox(session, *offered_tools(session), clock)


def _resume(session: ToolSession) -> None:
    """Continue the numbers of calls and aliases where an earlier process of the same run stopped."""
    started_seq = _started_seq(session)
    if started_seq is None:
        return
    found = session.bank.events(after=started_seq, types={"tool_called"}, run=session.run)
    calls = [event for event in found if isinstance(event, ToolCalled)]
    session.calls = len(calls)
    session.meter.resume(len(calls), sum(map(_kept_chars, calls)))
    session.store.remember(calls)


def _kept_chars(call: ToolCalled) -> int:
    if isinstance(call.result, Ref):
        return call.result.sz
    return len(call.result) if isinstance(call.result, str) else 0


def _started_seq(session: ToolSession) -> int | None:
    """Return the position of the run's start, None if it hasn't begun."""
    from rbank_es.tools.memory.item_search import items_view

    # The newest events first, because most runs have only just begun: that saves bringing projections up to date.
    after = max(0, session.bank.position - limits.LOOK_BACK_EVENTS)
    for started in session.bank.events(after=after, types={"run_started"}, run=session.run):
        return started.seq
    if not after:
        return None
    with items_view(session) as (view, _):
        row = view.run(session.run)
    return None if row is None else int(row["started_seq"])


def _open(ontology: Ontology | str | Path | None, endpoint: str | None, void: str | Path | None) -> Source | None:
    if ontology is None and endpoint is None:
        return None
    from rbank_es.sparql.source import open_source

    if isinstance(ontology, (str, Path)):
        from rbank_es.ontology.loader import load_ontology

        ontology = load_ontology(ontology)
    return open_source(ontology=ontology, endpoint=endpoint, void=void)
