"""The time of the tries of a model: until when they end, and which of them fit at the speed that was measured."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from rbank_es.events.event_envelope import Timer
from rbank_es.events.server_traits import ServerTraits
from rbank_es.models.model_findings import expected_s


class TryTime:
    """The time of all tries together. `left_out` names those that weren't begun, because they would not fit."""

    def __init__(self, seconds: float, clock: Timer = time.monotonic) -> None:
        """Begin now."""
        self._clock, self._ends = clock, clock() + seconds
        self.left_out: list[str] = []

    @property
    def left_s(self) -> float:
        """Seconds that are left; 0 once the time is over."""
        return round(max(0.0, self._ends - self._clock()), 1)

    def fits(self, name: str, traits: ServerTraits) -> bool:
        """Return whether a try is to be begun; note it as left out where it isn't. One of an unknown length is."""
        fits = (expected_s(name, traits) or 0.0) < self.left_s
        if not fits:
            self.left_out.append(name)
        return fits

    def forecast(self, names: Iterable[str], traits: ServerTraits) -> Iterator[tuple[str, float]]:
        """Yield those of the tries that will fit, by today's speed, each with its seconds."""
        left_s = self.left_s
        for name in names:
            seconds = expected_s(name, traits) or 0.0
            if seconds < left_s:
                left_s -= seconds
                yield name, seconds
