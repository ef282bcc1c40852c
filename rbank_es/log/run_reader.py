"""The one reader of a run: its events up to a position, and the facts that follow from them alone.

    started     the first `run_started`, because a second one is a slip of a writer
    end         the latest `run_finished`
    context     the latest `context_built`
    execution   from the start to the first end behind it; what is recorded later judges it, or corrects its end
    given       items in full, in a context or read by a tool: the bank's uses
    shown       the same and those that a tool quoted: an excerpt is no use, but may hold an answer
    totals      the sums over the calls of models, whenever they were recorded; without a call, the figures of the end
    iterations  those of the end, else the number of distinct steps

Which judgment stands depends on the policies too: see `rbank_es.bank.run_judgments`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import takewhile
from typing import Literal, TypeVar

from msgspec import Struct

from rbank_es.events import (
    ContextBuilt,
    Event,
    Hit,
    JudgmentOverruled,
    LmCalled,
    MemoriesExtracted,
    MemoriesRead,
    MemoriesRetrieved,
    MemoryProposed,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
    given_items,
    type_of,
)
from rbank_es.events.codec import event_types
from rbank_es.events.run_totals import RunTotals, known_sum
from rbank_es.log.protocol import EventLog

Kind = TypeVar("Kind", bound=Event)
_OF_NO_RUN = frozenset({"memories_extracted"})


class Gift(Struct, frozen=True, kw_only=True):
    """An item that a run was given in full for the first time: the way, and the position.

    `hit` is the latest by which a search of the run had found it before; None without one, or if none was read.
    """

    item: str
    way: Literal["injected", "read"]
    seq: int
    hit: Hit | None = None


class RunEvents(Struct, frozen=True):
    """The events of one run, in order. Make it with `read_run`, or of events that were read anyhow.

    `types` are those that were read, None for all: what needs another raises `AssertionError`.
    """

    run: str
    events: tuple[Event, ...] = ()
    types: frozenset[str] | None = None

    def of(self, *kinds: type[Kind]) -> tuple[Kind, ...]:
        """Return the events of some types, in order."""
        self._require(*kinds)
        return tuple(event for event in self.events if isinstance(event, kinds))

    def _require(self, *kinds: type[Event]) -> None:
        unread = set[str]() if self.types is None else {type_of(kind) for kind in kinds} - self.types
        assert not unread, f"events of the run that were not read are asked for: {', '.join(sorted(unread))}"

    # ---------------------------------------------------------------- the events

    @property
    def started(self) -> RunStarted | None:
        """Its start, None if it never began."""
        return next(iter(self.of(RunStarted)), None)

    @property
    def end(self) -> RunFinished | None:
        """Its end, None if it has not ended."""
        return next(reversed(self.of(RunFinished)), None)

    @property
    def contexts(self) -> tuple[ContextBuilt, ...]:
        """Its contexts."""
        return self.of(ContextBuilt)

    @property
    def context(self) -> ContextBuilt | None:
        """The context that holds."""
        return next(reversed(self.contexts), None)

    @property
    def searches(self) -> tuple[MemoriesRetrieved, ...]:
        """Its retrievals, by the loop and by the agent."""
        return self.of(MemoriesRetrieved)

    @property
    def calls(self) -> tuple[ToolCalled, ...]:
        """Its calls of tools."""
        return self.of(ToolCalled)

    @property
    def steps(self) -> tuple[StepTaken, ...]:
        """Its steps."""
        return self.of(StepTaken)

    @property
    def lm_calls(self) -> tuple[LmCalled, ...]:
        """The calls of models in it and about it, in every role."""
        return self.of(LmCalled)

    @property
    def proposals(self) -> tuple[MemoryProposed, ...]:
        """The items that it proposed."""
        return self.of(MemoryProposed)

    @property
    def judgments(self) -> tuple[RunJudged | JudgmentOverruled, ...]:
        """Its judgments for learning and for scoring, whether they count or not."""
        return self.of(RunJudged, JudgmentOverruled)

    @property
    def extractions(self) -> tuple[MemoriesExtracted, ...]:
        """The extractions that name it among their runs."""
        return self.of(MemoriesExtracted)

    # ---------------------------------------------------------------- the facts

    @property
    def execution(self) -> tuple[Event, ...]:
        """The events from its start to the first end behind it; empty if it never began."""
        begun = self.started
        after = [event for event in self.events if begun is not None and event.seq >= begun.seq]
        own = list(takewhile(lambda event: not isinstance(event, RunFinished), after))
        return tuple(after[: len(own) + 1])

    @property
    def given(self) -> tuple[Gift, ...]:
        """The items that it was given in full, each once, in order."""
        self._require(ContextBuilt, MemoriesRead)
        gifts, hits = dict[str, Gift](), dict[str, Hit]()
        for event in self.events:
            if isinstance(event, MemoriesRetrieved):
                hits |= {hit.id: hit for hit in event.hits}
            for item in given_items(event):
                if item not in gifts:
                    way: Literal["injected", "read"] = "injected" if isinstance(event, ContextBuilt) else "read"
                    gifts[item] = Gift(item=item, way=way, seq=event.seq, hit=hits.get(item))
        return tuple(gifts.values())

    @property
    def shown(self) -> tuple[str, ...]:
        """The ids of the items that it was given, or that a tool quoted to it, each once, in order."""
        self._require(ContextBuilt, MemoriesRead)
        ids = (event.ids if isinstance(event, MemoriesRead) else given_items(event) for event in self.events)
        return tuple(dict.fromkeys(id for each in ids for id in each))

    @property
    def totals(self) -> RunTotals:
        """Its calls of models, tokens and dollars; unknown where nothing recorded them."""
        calls, end = self.lm_calls, self.end
        if calls:
            names = ("tokens_in", "tokens_out", "cost_usd")
            sums = {name: known_sum(getattr(call, name) for call in calls) for name in names}
            return RunTotals(lm_calls=len(calls), **sums)
        if end is None:
            return RunTotals()
        return RunTotals(
            lm_calls=end.lm_calls, tokens_in=end.tokens_in, tokens_out=end.tokens_out, cost_usd=end.cost_usd
        )

    @property
    def iterations(self) -> int:
        """The iterations that it used."""
        if self.end is not None and self.end.iterations is not None:
            return self.end.iterations
        return len({step.index for step in self.steps})


def read_run(
    log: EventLog,
    run: str,
    upto: int | None = None,
    *,
    after: int = 0,
    types: Collection[str] | None = None,
    resolve: bool | Collection[str] = False,
) -> RunEvents:
    """Return a run as recorded up to a position (default: the head), behind another; one that never was has no events.

    It costs what the run has, however long the log is, and less if only some `types` are read. `resolve` names the
    types whose texts are read in place of handles, True for all. A log finds events by the run that they belong to;
    extractions belong to none, so they are not among these. Raises as `EventLog.read`.
    """
    of_run = (frozenset(types) if types is not None else frozenset(event_types())) - _OF_NO_RUN
    texts = event_types().keys() if resolve is True else resolve or ()
    return RunEvents(run, tuple(log.read(after=after, upto=upto, types=types, run=run, resolve=texts)), of_run)


def run_starts(log: EventLog, upto: int | None = None) -> Iterator[RunStarted]:
    """Yield the start of each run up to a position (default: the head), in order. Raises as `EventLog.read`."""
    seen = set[str]()
    for event in log.read(upto=upto, types={"run_started"}):
        if isinstance(event, RunStarted) and event.run not in seen:
            seen.add(event.run)
            yield event


def runs_named(event: Event) -> tuple[str, ...]:
    """Return the ids of the runs to whose `RunEvents` an event belongs: its own, or those that an extraction names."""
    if isinstance(event, MemoriesExtracted):
        return tuple(dict.fromkeys(event.runs))
    run = getattr(event, "run", None)
    return () if run is None else (run,)
