"""Tool families: the declaration of one family, and the registry of all tools that an agent may call.

A family is one file in `tools/`: a class whose public methods are the tools, and a `ToolFamily` that declares when they
are offered and how much each may return. A family of another package is added to `TOOL_FAMILIES` by a plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rbank_es.errors import BadPlugin
from rbank_es.system.registry import Registry
from rbank_es.tools.runtime.tool_session import Reply, ToolSession

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
    """

    tools: Callable[[ToolSession], object]
    offered: Callable[[ToolSession, str], bool] = always
    caps_chars: Mapping[str, int] = field(default_factory=dict)
    queries: frozenset[str] = frozenset()
    looks: frozenset[str] = frozenset()
    proposers: frozenset[str] = frozenset()

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
    },
)


def tools_named_as(use: Literal["queries", "looks", "proposers"]) -> frozenset[str]:
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
