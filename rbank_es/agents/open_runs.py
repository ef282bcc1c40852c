"""The runs that are open of a server or of an agent, by id: each ends, whoever forgets it."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any

from rbank_es.limits import recorder_limits

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.bank.agent_run import AgentRun, Lessons


class OpenRuns:
    """At most `OPEN_RUNS` runs in one bank, for any number of threads; one that is left fails as unfinished."""

    def __init__(self, bank: Bank) -> None:
        """Record in `bank`."""
        self._bank = bank
        self._runs: OrderedDict[str, AgentRun] = OrderedDict()
        self._lock, self._closed = Lock(), False

    def begin(self, task: str, **facts: Any) -> tuple[AgentRun, Lessons]:
        """Begin a run, as `Bank.record`, and recall for it; the run used longest ago ends where too many are open.

        After `close` the new one ends at once: a call that its host gave up may still be under way on its thread.
        """
        run = self._bank.record(task, **facts)
        lessons = run.begin_with_recall()
        with self._lock:
            self._runs[run.id] = run
            full = self._closed or len(self._runs) > recorder_limits.OPEN_RUNS
            left = [self._runs.popitem(last=False)[1]] if full else []
        for each in left:
            each.__exit__(None, None, None)
        return run, lessons

    def get(self, id: str) -> AgentRun | None:
        """Return an open run, which counts as a use; None for any other."""
        with self._lock:
            run = self._runs.get(id)
            if run is not None:
                self._runs.move_to_end(id)
        return run

    def drop(self, id: str) -> None:
        """Forget a run, which ends if nothing ended it."""
        with self._lock:
            run = self._runs.pop(id, None)
        if run is not None:
            run.__exit__(None, None, None)

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            self._closed, left = True, [*self._runs]
        for id in left:
            self.drop(id)
