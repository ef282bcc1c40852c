"""Tool families: what one is made with, its declaration, and the registry of all tools that an agent may call.

A family is one file in `tools/`: a class whose public methods are the tools, and a `ToolFamily` that declares when they
are offered and how much each may return. A tool works on the `ToolSession` of its run; it returns a `Reply`, or raises
`ToolError`. A family of another package is added to `TOOL_FAMILIES` by a plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, BadPlugin
from rbank_es.events import Event
from rbank_es.events.redaction import secrets
from rbank_es.events.run_events import ToolManual
from rbank_es.system.registry import Registry
from rbank_es.tools.shared.call_budget import RunMeter
from rbank_es.tools.shared.handle_store import Store

if TYPE_CHECKING:
    from rbank_es.bank.memory_graph import MemoryGraph
    from rbank_es.sparql.data_source import Source
    from rbank_es.tools.memory.query_extractor import Extractor


class ToolPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour of a run's tools.

    `payloads`: `handles` is the design; `naive` returns full payloads without caps, as the control condition of
    experiments on prompt leakage. `mode`: with `auto`, memory reaches the agent by its context alone, so that tools
    that read the bank are not offered. `propose`: whether queries that worked are proposed as items. `without_task`:
    id of a task; items that were drawn from runs of it are withheld. `level`: that of the task, above which the bank's
    policy may leave items out of a search. `domain`: that of the task, if it isn't the ontology's. `related`: whether
    looking at a resource also brings items about it. `manual`: what prompts hold of each tool, see `manual_text`.
    """

    payloads: Literal["handles", "naive"] = "handles"
    mode: Literal["auto", "tools", "both"] = "auto"
    propose: bool = True
    without_task: str | None = None
    level: int | None = None
    domain: str | None = None
    related: bool = True
    manual: ToolManual = "short"

    def __post_init__(self) -> None:
        # Checked here, because msgspec checks types only when it decodes.
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise BadInput(f"{name} is {getattr(self, name)!r}; give one of {', '.join(known)}")


_CHOICES = {"payloads": ("handles", "naive"), "mode": ("auto", "tools", "both"), "manual": get_args(ToolManual)}


class Manual(NamedTuple):
    """One tool as the agent reads about it, and the characters of JSON that it returns at most.

    A short manual only names a tool that is `rare`.
    """

    name: str
    usage: str
    doc: str
    cap_chars: int
    rare: bool = False


@dataclass
class ToolSession:
    """The state that the tools of one run share. `step` and `call` identify the current step and call."""

    bank: Bank
    run: str
    store: Store
    extractor: Extractor
    source: Source | None = None
    memory_graph: MemoryGraph | None = None
    """The bank's own provenance as a graph; None where it is not offered."""
    policy: ToolPolicy = ToolPolicy()
    meter: RunMeter = field(default_factory=RunMeter)
    step: int | None = None
    call: str = ""
    calls: int = 0
    """Calls that the run made before these tools were built."""
    proposed: set[tuple[str, str]] = field(default_factory=set)
    """Ids of the items that this run has proposed so far, with the tool that did.

    Another tool may propose the same item again: what a query found by itself and what an agent vouches for are
    different reasons for it.
    """
    question: str = ""
    """What the run's task asks, where an executor works on it: examples fit it."""
    last_query: str = ""
    """The latest query of the run's source that found something; empty before the first."""
    seen: int = 0
    """The bank's position to which its projections were last brought up to date for this run; 0 before."""
    hidden: tuple[str, ...] = field(default_factory=secrets)
    """Keys from the environment, which code without a sandbox can read: calls redact them in both directions."""
    embed: Callable[[str], None] | None = None
    """Has a vector recorded for a query that has none; None where nobody gives vectors."""
    manual: tuple[Manual, ...] = ()
    """The manual of every tool of the run, for the tool `tools`."""
    needed: dict[str, list[str]] = field(default_factory=dict)
    """The names of parameters without a default, each with the tools that have it."""
    note: str = ""
    """What the answer of the current call says of its arguments; empty if nothing."""
    told: list[str] = field(default_factory=list)
    """What tools told the run in words of their own: errors, hints, next steps."""
    unrecorded: list[Exception] = field(default_factory=list)
    """Errors of calls that could not be recorded: whoever drives the run should stop it."""
    naive: bool = field(init=False)
    """Whether full payloads are returned: the control condition of experiments."""
    domain: str | None = field(init=False)
    """Id of the ontology, as the `domain` of items names it."""

    def __post_init__(self) -> None:
        self.naive = self.policy.payloads == "naive"
        self.domain = self.source.id if self.source is not None else None


class Reply(NamedTuple):
    """The answer of a tool, before it is encoded and recorded.

    `body` is shown to the agent. `payload` stays behind a handle of kind `dtype`, whose key, alias, size and preview
    precede the body. `beside` are events that are appended in the same group, before the call itself. `position` is the
    bank's position that the answer depends on: the call is recorded only if nothing was appended since, else the tool
    runs again.
    """

    body: dict[str, Any]
    payload: str | None = None
    dtype: str | None = None
    truncated: bool = False
    beside: tuple[Event, ...] = ()
    position: int | None = None


class ToolError(Exception):
    """A call that can't be answered: the agent gets code, message and hint as data, never an exception.

    `code` is stable, for programs; `hint` names the next step.
    """

    def __init__(self, code: str, message: str, hint: str) -> None:
        self.code, self.message, self.hint = code, message, hint
        super().__init__(f"{message}. {hint}")


class SessionTools:
    """The base of a family whose tools need nothing but the session of their run."""

    def __init__(self, session: ToolSession) -> None:
        self._session = session


RawTool = Callable[..., Reply]
"""A tool before its calls are checked, bounded and recorded."""


def always(session: ToolSession, tool: str) -> bool:
    """Return True: every run is offered this tool."""
    return True


@dataclass(frozen=True)
class ToolFamily:
    """A family of tools.

    `tools` builds an object for one run. Each of its public methods is a tool: the agent reads its name, parameters and
    docstring; it returns a `Reply` or raises `ToolError`. `offered` returns whether a run may call the tool of this
    name. `caps_chars` holds the characters of JSON that a tool may return, where these are not `TOOL_RETURN_CHARS`.

    Judges and extractors learn from names of tools: `queries` are those that run their argument `query` and keep the
    result behind a handle, `looks` those that show some of the data without a query, and `proposers` those that propose
    every query with a result, although nobody says that it is good.

    `rare` are tools that few tasks need: a short manual only names them.
    """

    tools: Callable[[ToolSession], object]
    offered: Callable[[ToolSession, str], bool] = always
    caps_chars: Mapping[str, int] = field(default_factory=dict)
    queries: frozenset[str] = frozenset()
    looks: frozenset[str] = frozenset()
    proposers: frozenset[str] = frozenset()
    rare: frozenset[str] = frozenset()

    def build(self, session: ToolSession) -> Iterator[tuple[str, RawTool]]:
        """Yield the tools that a run is offered with their names, in the order of their definition."""
        return ((name, raw) for name, raw in public_methods(self.tools(session)) if self.offered(session, name))


TOOL_FAMILIES: Registry[ToolFamily] = Registry(
    "tool family",
    {
        "context": "rbank_es.tools.context_tools:FAMILY",
        "memory": "rbank_es.tools.memory_tools:FAMILY",
        "sparql": "rbank_es.tools.sparql_tools:FAMILY",
        "graph": "rbank_es.tools.graph_tools:FAMILY",
        "provenance": "rbank_es.tools.provenance_tools:FAMILY",
        "python": "rbank_es.tools.python_api:FAMILY",
        "manual": "rbank_es.tools.manual_tools:FAMILY",
    },
)


def tools_named_as(use: Literal["queries", "looks", "proposers", "rare"]) -> frozenset[str]:
    """Return the names of the tools that their families declare for a use, those of plugins too."""
    return frozenset().union(*(getattr(family, use) for _, family in TOOL_FAMILIES.all()))


def offered_tools(session: ToolSession) -> tuple[dict[str, RawTool], dict[str, int]]:
    """Return the tools that a run is offered, and the caps of those that have their own, by tool name.

    Raises `BadPlugin` for a family that gives a tool the name of another family's.
    """
    tools: dict[str, RawTool] = {}
    caps_chars: dict[str, int] = {}
    for family_name, family in TOOL_FAMILIES.all():
        for name, raw in family.build(session):
            if name in tools:
                raise BadPlugin(family_name, f"another family has a tool {name!r} already")
            tools[name] = raw
        caps_chars |= family.caps_chars
    return tools, caps_chars


def public_methods(tools: object) -> Iterator[tuple[str, RawTool]]:
    """Yield the public methods that an object's own class defines, in the order of their definition."""
    return ((name, getattr(tools, name)) for name in vars(type(tools)) if not name.startswith("_"))
