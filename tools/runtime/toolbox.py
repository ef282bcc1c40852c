"""The tools of one run, built together: what the agent may call, its manual, and the same things for Python."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, QueryFailed
from rbank_es.events import Ref, ToolCalled
from rbank_es.tools.runtime.invocation import Clock, RawTool, Tool
from rbank_es.tools.runtime.store import Store
from rbank_es.tools.runtime.tool_session import ToolPolicy, ToolSession

if TYPE_CHECKING:
    from rbank_es.ontology.loader import Ontology
    from rbank_es.sparql.source import Source
    from rbank_es.tools.memory.query_extractor import Extractor

CAPS_CHARS = {
    "mem_get": limits.ITEMS_RETURN_CHARS,
    "sparql_slice": limits.SLICE_RETURN_CHARS,
    "ctx_slice": limits.SLICE_RETURN_CHARS,
}
"""What a tool returns at most, in characters of JSON; all others `TOOL_RETURN_CHARS`."""

READS_MEMORY = frozenset({"mem_search", "mem_get", "mem_quote"})
"""Tools that are left out where memory reaches the agent by its context alone."""

Function = Callable[..., dict[str, Any]]


class Manual(NamedTuple):
    """What the agent is told about one tool, and what it returns at most, in characters of JSON."""

    name: str
    usage: str
    doc: str
    cap_chars: int


class Toolbox:
    """The tools of one run. A context manager; calls are made one at a time, from any thread."""

    def __init__(
        self, session: ToolSession, raw: Mapping[str, RawTool], hidden: Mapping[str, RawTool], clock: Clock
    ) -> None:
        self.session = session
        self._calls = session.calls
        self._lock = RLock()
        self._tools = {name: self._tool(name, tool, clock) for name, tool in raw.items()}
        self._hidden = {name: self._tool(name, tool, clock) for name, tool in hidden.items()}
        self.functions: dict[str, Function] = {name: self._function(tool) for name, tool in self._tools.items()}
        """Plain functions by name, with the signature and the docstring that the agent is shown."""

    def _tool(self, name: str, raw: RawTool, clock: Clock) -> Tool:
        return Tool(name, raw, self.session, CAPS_CHARS.get(name, limits.TOOL_RETURN_CHARS), clock)

    def _function(self, tool: Tool) -> Function:
        def function(*given: Any, **named: Any) -> dict[str, Any]:
            return self._called(tool, given, named)

        hints = {**tool.hints, "return": dict[str, Any]}
        parameters = [each.replace(annotation=hints.get(each.name, Any)) for each in tool.signature.parameters.values()]
        function.__name__ = function.__qualname__ = tool.name
        function.__doc__ = tool.doc
        function.__annotations__ = hints
        function.__signature__ = inspect.Signature(parameters, return_annotation=dict[str, Any])  # type: ignore[attr-defined]
        return function

    def _called(self, tool: Tool, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._calls += 1
            self.session.call = f"call-{self._calls}"
            return tool.call(given, named)

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a tool by name. A failure is data: `{"ok": false, "error": {code, message, hint}}`.

        Raises `BadInput` for a name that no tool has.
        """
        if name not in self._tools:
            raise BadInput(f"no tool {name!r}; there are: {', '.join(self._tools)}")
        return self._called(self._tools[name], (), arguments or {})

    def manual(self) -> tuple[Manual, ...]:
        """Every tool as the agent is told about it."""
        return tuple(Manual(tool.name, tool.usage, tool.doc, tool.cap_chars) for tool in self._tools.values())

    # ---------------------------------------------------------------- the same things for Python

    def load_graph(self, path: str | Path) -> Ref:
        """A handle to a graph as N-Quads, read from a file or a directory. Raises `QueryFailed` with the code."""
        return self._ref("load_graph", {"path": str(path)})

    def execute_query(self, sparql: str, limit: int = limits.QUERY_ROWS_DEFAULT) -> Ref:
        """A handle to the result of a query on the run's source. Raises `QueryFailed` with the code."""
        return self._ref("execute_query", {"query": sparql, "limit": limit})

    def retrieve_memories(self, query: str, k: int = 1) -> Ref:
        """A handle to the items that fit a query best, in full, as JSON. Raises `QueryFailed` with the code."""
        return self._ref("retrieve_memories", {"query": query, "k": k})

    def _ref(self, name: str, arguments: Mapping[str, Any]) -> Ref:
        result = self._called(self._hidden[name], (), arguments)
        if not result["ok"]:
            error = result["error"]
            raise QueryFailed(error["code"], error["message"], error["hint"])
        return self.session.store.resolve(result)

    # ---------------------------------------------------------------- closing

    def close(self) -> None:
        """Let go of the source's processes and connections."""
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
    policy: ToolPolicy | None = None,
    extractor: Extractor | None = None,
    clock: Clock = time.perf_counter,
    new_id: Callable[[], str] | None = None,
) -> Toolbox:
    """The tools of one run: over a local ontology, an endpoint, a source that is open already, or memory alone.

    `void` is a file that describes the endpoint; `clock` measures how long calls take, in seconds. Every call writes
    its events to `bank` under `run`. `new_id` makes the keys of handles; the log's own ids, unless given.
    Raises `BadOntology` and `BadInput` for what can't be a source.
    """
    from rbank_es.tools.memory.query_extractor import QueryPattern

    if not 1 <= len(run) <= limits.NAME_CHARS:
        raise BadInput(f"a run's id has 1 to {limits.NAME_CHARS} characters, not {len(run):,}")
    if sum(given is not None for given in (ontology, endpoint, source)) > 1:
        raise BadInput("give one of ontology, endpoint and source, not several")
    opened = source or _opened(ontology, endpoint, void)
    chosen = policy or ToolPolicy()
    session = ToolSession(bank, run, Store(bank, run, new_id), extractor or QueryPattern(), opened, chosen)
    _take_up(session)
    return Toolbox(session, dict(_raw_tools(session)), _python_tools(session), clock)


def _take_up(session: ToolSession) -> None:
    """Go on counting calls and aliases where an earlier process of the same run left off."""
    begun = _begun_at(session)
    if begun is None:
        return
    found = session.bank.events(after=begun, types={"tool_called"}, run=session.run)
    calls = [event for event in found if isinstance(event, ToolCalled)]
    session.calls = len(calls)
    session.store.remember(calls)


def _begun_at(session: ToolSession) -> int | None:
    """Where the run began; None if it did not. Most have only just begun, which spares the read models a look."""
    from rbank_es.tools.memory.item_search import LOOK_BACK_EVENTS, items_view

    after = max(0, session.bank.position - LOOK_BACK_EVENTS)
    for started in session.bank.events(after=after, types={"run_started"}, run=session.run):
        return started.seq
    if not after:
        return None
    with items_view(session) as (view, _):
        begun = view.run(session.run)
    return None if begun is None else int(begun["started_seq"])


def _opened(ontology: Ontology | str | Path | None, endpoint: str | None, void: str | Path | None) -> Source | None:
    if ontology is None and endpoint is None:
        return None
    from rbank_es.sparql.source import open_source

    if isinstance(ontology, (str, Path)):
        from rbank_es.ontology.loader import load_ontology

        ontology = load_ontology(ontology)
    return open_source(ontology=ontology, endpoint=endpoint, void=void)


def _raw_tools(session: ToolSession) -> Iterator[tuple[str, RawTool]]:
    """The tools that this run may call, family by family."""
    from rbank_es.tools.context_tools import ContextTools
    from rbank_es.tools.graph_tools import GraphTools
    from rbank_es.tools.memory_tools import MemoryTools
    from rbank_es.tools.sparql_tools import SparqlTools

    left_out = READS_MEMORY if session.policy.mode == "auto" else frozenset()
    yield from _methods(ContextTools(session))
    yield from ((name, raw) for name, raw in _methods(MemoryTools(session)) if name not in left_out)
    if session.source is not None:
        yield from _methods(SparqlTools(session))
        if session.source.kind == "local":
            yield from _methods(GraphTools(session))


def _python_tools(session: ToolSession) -> dict[str, RawTool]:
    from rbank_es.tools.runtime.python_api import PythonTools

    return dict(_methods(PythonTools(session)))


def _methods(family: object) -> Iterator[tuple[str, RawTool]]:
    """The public methods of a family, in the order in which they are written."""
    for name in vars(type(family)):
        if not name.startswith("_"):
            yield name, getattr(family, name)
