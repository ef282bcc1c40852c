"""The log of a trial, read once, from its first event to its last: what rows and records are computed from.

Read models would give the same numbers, but building them costs three times as much as this reading. The folder of an
experiment may also have come from elsewhere without them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from rbank_es.events import Event, RunStarted
from rbank_es.law import RELEVANT, RESOLVED, LiveState, State, active
from rbank_es.log.run_reader import RunEvents, runs_named

if TYPE_CHECKING:
    from rbank_es.bank import Bank

ACTS = ("policy_set", "judgment_overruled", "decision_undone", "memories_admitted", "memories_restored")
"""Events that no loop records: a person, or a program of theirs, acted on the bank."""

_DECLARED = frozenset(
    {"experiment_started", "experiment_finished", "run_started", "run_judged", "memories_retracted", *ACTS}
)
_READ = RELEVANT | _DECLARED | {"tool_called"}


class TrialLog(Struct, frozen=True, kw_only=True):
    """The contents of a trial's log.

    started    runs by id, as they began;  in_bank  active items at that moment
    runs       events of each run, texts as the log has them
    declared   what the trial declared and who acted on its bank, in order
    state      at the end
    """

    bank: Bank
    started: dict[str, RunStarted]
    in_bank: dict[str, int]
    runs: dict[str, RunEvents]
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
        self._runs: defaultdict[str, list[Event]] = defaultdict(list)
        self.started: dict[str, RunStarted] = {}
        self.in_bank: dict[str, int] = {}
        self.declared: list[Event] = []

    def take(self, event: Event) -> None:
        name = event.__struct_config__.tag
        if isinstance(event, RunStarted) and event.run not in self.started:
            # The fold goes on from run to run, because each advance makes a state.
            self._advance()
            self.started[event.run], self.in_bank[event.run] = event, len(active(self._live.state))
        for run in runs_named(event):
            self._runs[run].append(event)
        if name in _DECLARED:
            self.declared.append(event)
        if name in RELEVANT:
            self._waiting.append(event)

    def _advance(self) -> None:
        self._live.advance(self._waiting)
        self._waiting = []

    def done(self, bank: Bank) -> TrialLog:
        self._advance()
        return TrialLog(
            bank=bank,
            started=self.started,
            in_bank=self.in_bank,
            runs={run: RunEvents(run, tuple(events), _READ) for run, events in self._runs.items()},
            declared=self.declared,
            state=self._live.state,
        )
