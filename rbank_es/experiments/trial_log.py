"""The log of a trial, read once, from its first event to its last: what rows and records are computed from.

Read models would give the same numbers, but building them costs three times as much as this reading. The folder of an
experiment may also have come from elsewhere without them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from rbank_es import limits
from rbank_es.events import (
    ContextBuilt,
    Event,
    LmCalled,
    MemoriesRead,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
    given_items,
)
from rbank_es.state import RELEVANT, RESOLVED, LiveState, State, active

if TYPE_CHECKING:
    from rbank_es.bank import Bank

ACTS = ("policy_set", "judgment_overruled", "decision_undone", "memories_admitted", "memories_restored")
"""Events that no loop records: a person, or a program of theirs, acted on the bank."""

_DECLARED = frozenset(
    {"experiment_started", "experiment_finished", "run_started", "run_judged", "memories_retracted", *ACTS}
)
_READ = RELEVANT | _DECLARED | {"tool_called"}


class RunEvents:
    """The events of one run, but for calls of models and steps, of which only sizes are kept.

    Sizes are characters, as in the read model `leakage`; None is unknown.
    """

    __slots__ = ("contexts", "given", "shown", "calls", "subcalls", "ended", "stdout", "prompts", "variables")

    def __init__(self) -> None:
        self.contexts: list[ContextBuilt] = []
        self.given: dict[str, None] = {}
        """Ids of the items that the run was given in full, in the context or by a tool, in order: the bank's uses."""
        self.shown: dict[str, None] = {}
        """The same, and those that a tool quoted to it: an excerpt is no use, but may hold an answer."""
        self.calls: list[ToolCalled] = []
        self.subcalls = 0
        self.ended: RunFinished | None = None
        self.stdout: list[int] = []
        self.prompts: list[int] = []
        self.variables: list[int] = []

    def take(self, event: Event) -> None:
        """Take an event of the run."""
        given = dict.fromkeys(given_items(event))
        self.given.update(given)
        self.shown.update(given)
        match event:
            case ContextBuilt():
                self.contexts.append(event)
            case MemoriesRead():
                self.shown.update(dict.fromkeys(event.ids))
            case ToolCalled():
                self.calls.append(event)
            case LmCalled():
                self.subcalls += event.role == "sub"
            case RunFinished():
                self.ended = event
            case StepTaken():
                _known(self.stdout, event.stdout_chars)
                _known(self.prompts, event.prompt_chars)
                _known(self.variables, event.variables_chars)

    @property
    def returns(self) -> list[int]:
        """The characters that each call of a tool returned, where known."""
        return [call.chars for call in self.calls if call.chars is not None]

    @property
    def large_returns(self) -> int:
        """The number of those that are red flags."""
        return sum(chars > limits.FLAG_RETURN_CHARS for chars in self.returns)

    @property
    def longest_return(self) -> int | None:
        """The most characters that a call returned; 0 without a call."""
        return max(self.returns, default=None) if self.calls else 0


def _known(sizes: list[int], size: int | None) -> None:
    if size is not None:
        sizes.append(size)


class TrialLog(Struct, frozen=True, kw_only=True):
    """The contents of a trial's log.

    started    runs by id, as they began;  in_bank  active items at that moment
    runs       events of each run
    judged     judgments by their positions
    declared   what the trial declared and who acted on its bank, in order
    state      at the end
    """

    bank: Bank
    started: dict[str, RunStarted]
    in_bank: dict[str, int]
    runs: defaultdict[str, RunEvents]
    judged: dict[int, RunJudged]
    declared: Sequence[Event]
    state: State

    @classmethod
    def of(cls, bank: Bank) -> TrialLog:
        """Read the log of a bank. Raises `LogCorruption` for a damaged one."""
        reading = _Reading()
        for event in bank.log.read(types=_READ, resolve=RESOLVED):
            reading.take(event)
        return reading.done(bank)


class _Reading:
    def __init__(self) -> None:
        self._live, self._waiting = LiveState(), list[Event]()
        self.started: dict[str, RunStarted] = {}
        self.in_bank: dict[str, int] = {}
        self.runs: defaultdict[str, RunEvents] = defaultdict(RunEvents)
        self.judged: dict[int, RunJudged] = {}
        self.declared: list[Event] = []

    def take(self, event: Event) -> None:
        name = event.__struct_config__.tag
        if isinstance(event, RunStarted) and event.run not in self.started:
            # The fold goes on from run to run, because each advance makes a state.
            self._advance()
            self.started[event.run], self.in_bank[event.run] = event, len(active(self._live.state))
        elif isinstance(event, RunJudged):
            self.judged[event.seq] = event
        elif name not in _DECLARED and (run := getattr(event, "run", None)) is not None:
            self.runs[run].take(event)
        if name in _DECLARED:
            self.declared.append(event)
        if name in RELEVANT:
            self._waiting.append(event)

    def _advance(self) -> None:
        self._live.advance(self._waiting)
        self._waiting = []

    def done(self, bank: Bank) -> TrialLog:
        self._advance()
        kept = {name: getattr(self, name) for name in ("started", "in_bank", "runs", "judged", "declared")}
        return TrialLog(bank=bank, state=self._live.state, **kept)
