"""The session: what the tools of one run share."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import Event
from rbank_es.events.redaction import secrets
from rbank_es.tools.runtime.store import Handle, Store

if TYPE_CHECKING:
    from rbank_es.sparql.source import Source
    from rbank_es.tools.memory.query_extractor import Extractor


QUERY_TOOLS = frozenset({"sparql_query", "g_query", "execute_query"})
"""The tools whose argument `query` made the payload that they returned."""


class ToolPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How the tools of a run behave.

    `payloads`: `handles` is the design; `naive` gives full payloads instead, without caps, and exists only as the
    control condition of experiments on prompt leakage. `mode`: with `auto`, memory reaches the agent by its context
    alone, so the tools that read the bank are left out. `propose`: whether queries that worked are proposed as
    memories.
    """

    payloads: Literal["handles", "naive"] = "handles"
    mode: Literal["auto", "tools", "both"] = "auto"
    propose: bool = True

    def __post_init__(self) -> None:
        for name, known in (("payloads", ("handles", "naive")), ("mode", ("auto", "tools", "both"))):
            if getattr(self, name) not in known:
                raise BadInput(f"{name} is {getattr(self, name)!r}; give one of {', '.join(known)}")


@dataclass
class ToolSession:
    """What the tools of one run share. `step` and `call` say which step and call is being made."""

    bank: Bank
    run: str
    store: Store
    extractor: Extractor
    source: Source | None = None
    policy: ToolPolicy = ToolPolicy()
    step: int | None = None
    call: str = ""
    calls: int = 0
    """Calls that the run made before these tools were built."""
    proposed: set[tuple[str, str]] = field(default_factory=set)
    """Ids of the items that this run has proposed so far, with the tool that did."""
    seen: int = 0
    """The bank's position at which its read models were last brought up to date for this run; 0 before."""
    hidden: tuple[str, ...] = field(default_factory=secrets)
    """Keys of the environment, which code without a sandbox can read: no call takes them in or gives them out."""
    unrecorded: list[Exception] = field(default_factory=list)
    """Why calls could not be recorded: whoever drives the run should stop it."""

    @property
    def naive(self) -> bool:
        """Whether full payloads are returned: the control condition of experiments."""
        return self.policy.payloads == "naive"

    @property
    def domain(self) -> str | None:
        """Id of the ontology, as the `domain` of items names it."""
        return self.source.id if self.source is not None else None

    def query_of(self, handle: Handle) -> str | None:
        """The query that made a result; None where the handle is of something else. Raises `UnknownHandle`."""
        made = self.store.origin(handle)
        if made is None or made.tool not in QUERY_TOOLS:
            return None
        arguments = json.loads(self.bank.text(made.arguments) or "{}")
        query: Any = arguments.get("query") if isinstance(arguments, dict) else None
        return query if isinstance(query, str) else None


class Reply(NamedTuple):
    """The answer of a raw tool.

    `body` is shown to the agent. `payload` stays behind a handle of kind `dtype`, whose key, alias, size and preview
    are put in front of the body. `beside` are events that are recorded in the same group, before the call itself.
    `position` is the bank's position that was read, where the answer depends on it: the call is recorded only if
    nothing was appended since, else the tool runs again.
    """

    body: dict[str, Any]
    payload: str | None = None
    dtype: str | None = None
    truncated: bool = False
    beside: tuple[Event, ...] = ()
    position: int | None = None


class ToolError(Exception):
    """A call that can't be answered: the agent gets code, message and hint as data, never an exception.

    `code` is stable, for programs; `hint` says what to do next.
    """

    def __init__(self, code: str, message: str, hint: str) -> None:
        self.code, self.message, self.hint = code, message, hint
        super().__init__(f"{message}. {hint}")
