"""The session of a run's tools: their shared state, their policy, and the replies and errors that they return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import Event
from rbank_es.events.redaction import secrets
from rbank_es.tools.runtime.run_meter import RunMeter
from rbank_es.tools.runtime.store import Store

if TYPE_CHECKING:
    from rbank_es.bank.memory_graph import MemoryGraph
    from rbank_es.sparql.source import Source
    from rbank_es.tools.memory.query_extractor import Extractor


class ToolPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour of a run's tools.

    `payloads`: `handles` is the design; `naive` returns full payloads without caps, as the control condition of
    experiments on prompt leakage. `mode`: with `auto`, memory reaches the agent by its context alone, so that tools
    that read the bank are not offered. `propose`: whether queries that worked are proposed as items. `without_task`:
    id of a task; items that were drawn from runs of it are withheld. `domain`: that of the task, if it isn't the
    ontology's. `related`: whether looking at a resource also brings items about it.
    """

    payloads: Literal["handles", "naive"] = "handles"
    mode: Literal["auto", "tools", "both"] = "auto"
    propose: bool = True
    without_task: str | None = None
    domain: str | None = None
    related: bool = True

    def __post_init__(self) -> None:
        # Checked here, because msgspec checks types only when it decodes.
        for name, known in (("payloads", ("handles", "naive")), ("mode", ("auto", "tools", "both"))):
            if getattr(self, name) not in known:
                raise BadInput(f"{name} is {getattr(self, name)!r}; give one of {', '.join(known)}")


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
    """Ids of the items that this run has proposed so far, with the tool that did."""
    seen: int = 0
    """The bank's position to which its projections were last brought up to date for this run; 0 before."""
    hidden: tuple[str, ...] = field(default_factory=secrets)
    """Keys from the environment, which code without a sandbox can read: calls redact them in both directions."""
    embed: Callable[[str], None] | None = None
    """Has a vector recorded for a query that has none; None where nobody gives vectors."""
    unrecorded: list[Exception] = field(default_factory=list)
    """Errors of calls that could not be recorded: whoever drives the run should stop it."""

    @property
    def naive(self) -> bool:
        """Whether full payloads are returned: the control condition of experiments."""
        return self.policy.payloads == "naive"

    @property
    def domain(self) -> str | None:
        """Id of the ontology, as the `domain` of items names it."""
        return self.source.id if self.source is not None else None


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
