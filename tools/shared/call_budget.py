"""The meter of one run: counts its calls, bytes and seconds against its bounds, and says which bound is spent.

Past a bound of a step, tools answer with an error until the next step. Past a bound of the run, they do so until its
end, and the run ends before its next step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from math import inf
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from rbank_es.errors import BadInput
from rbank_es.events import Event, LmCalled, ToolCalled
from rbank_es.events.event_envelope import Timer
from rbank_es.events.run_events import DEFAULT_BOUNDS, RunBounds
from rbank_es.limits import reply_limits
from rbank_es.system.token_estimate import estimated_tokens


class Excess(NamedTuple):
    """A bound that is spent, by its name in `RunBounds`, with a message and a hint for the agent."""

    bound: str
    message: str
    hint: str

    @property
    def is_of_run(self) -> bool:
        """Whether the bound is one of the whole run, which ends for it."""
        return self.bound.startswith("run_")


class RunMeter:
    """The counts of one run. Safe for several threads.

    Outside of steps (a program that calls tools by itself) only the bounds of the run hold, and its time is not
    measured before `begin`.
    """

    def __init__(self, bounds: RunBounds = DEFAULT_BOUNDS, clock: Timer = time.monotonic) -> None:
        """Count from zero; `clock` returns seconds. Raises `BadInput` for bounds that leave room for nothing."""
        check_bounds(bounds)
        self.bounds = bounds
        self._clock = clock
        self._mutex = threading.Lock()
        self._began_at: float | None = None
        self._code_at: float | None = None
        self._step: int | None = None
        self._of_step, self._of_run = _Counts(), _Counts()
        self.answered = 0
        """Calls of tools in this step that succeeded."""
        self._tokens, self._usd = 0, 0.0
        self._last_tokens, self._last_usd = 0, 0.0
        self._refused: Excess | None = None
        self._recorded: set[str] = set()

    # ---------------------------------------------------------------- time

    def begin(self) -> None:
        """Begin the run's time."""
        self._began_at = self._clock()

    def begin_step(self, step: int | None) -> None:
        """Begin a step, whose bounds are all there again; None after the last."""
        with self._mutex:
            self._step, self._code_at, self._of_step = step, None, _Counts()
            self.answered = 0
            self._recorded.clear()

    def begin_code(self) -> None:
        """Begin the time of a step's code and tools: the model has replied."""
        self._code_at = self._clock()

    @property
    def run_left_s(self) -> float:
        """Seconds that the run has left."""
        return inf if self._began_at is None else self.bounds.run_wall_s - (self._clock() - self._began_at)

    @property
    def step_left_s(self) -> float:
        """Seconds that the step has left; not more than the run has."""
        step_s = inf if self._code_at is None else self.bounds.step_wall_s - (self._clock() - self._code_at)
        return min(step_s, self.run_left_s)

    # ---------------------------------------------------------------- counts

    def resume(self, calls: int, payload_bytes: int) -> None:
        """Count what an earlier process did in the same run."""
        self._of_run = _Counts(calls=calls, payload_bytes=payload_bytes)

    def count_call(self) -> Excess | None:
        """Count a call of a tool that is about to be made; return the bound that leaves no room for it instead."""
        with self._mutex:
            excess = self._excess(calls=1) or self._excess(log_bytes=1)
            if excess is None:
                self._add(calls=1)
            return excess

    def room_for(self, *events: Event) -> Excess | None:
        """Return the bound that leaves no room for events, None if there is room. They are not counted."""
        costs = _costs(events)
        with self._mutex:
            return self._excess(**costs)

    def room_for_text(self, text: str) -> Excess | None:
        """Return the bound that leaves no room for an event with this text, None if there is room."""
        with self._mutex:
            return self._excess(log_bytes=len(text.encode("utf-8", "surrogatepass")))

    def wrote(self, *events: Event) -> None:
        """Count events that were appended."""
        costs = _costs(events)
        with self._mutex:
            self._add(**costs)
            for event in events:
                if isinstance(event, LmCalled):
                    self._pay(event)

    def _pay(self, call: LmCalled) -> None:
        if call.role not in ("agent", "sub"):
            return
        tokens, usd = tokens_of(call), call.cost_usd or 0.0
        self._tokens, self._usd = self._tokens + tokens, self._usd + usd
        if call.role == "agent":
            self._last_tokens, self._last_usd = tokens, usd

    @property
    def tokens_left(self) -> int | None:
        """Tokens that the run may still spend; None without a bound."""
        with self._mutex:
            most = self.bounds.run_tokens
            return None if most is UNSET else max(0, most - self._tokens)

    @property
    def usd_left(self) -> float | None:
        """US dollars that the run may still spend; None without a bound."""
        with self._mutex:
            most = self.bounds.run_usd
            return None if most is UNSET else max(0.0, most - self._usd)

    @property
    def bound_of_models(self) -> str | None:
        """The bound on what models may spend that keeps a call from being made, by its name; None without one."""
        if self.usd_left == 0:
            return "run_usd"
        return None if self.bounds.run_tokens is UNSET else "run_tokens"

    def room_for_prompts(self, prompts: Iterable[str]) -> Excess | None:
        """Return the bound that leaves no room for sub-calls with these prompts, None if there is room."""
        left, usd_left = self.tokens_left, self.usd_left
        if left is not None and left < sum(estimated_tokens(each) + reply_limits.SUB_REPLY_TOKENS for each in prompts):
            return _excess("run_tokens", self.bounds)
        return _excess("run_usd", self.bounds) if usd_left is not None and usd_left <= 0 else None

    def is_first(self, excess: Excess) -> bool:
        """Return whether a refusal is the first for its bound in this step: the others are not recorded."""
        with self._mutex:
            if excess.bound in self._recorded:
                return False
            self._recorded.add(excess.bound)
            return True

    @property
    def spent(self) -> Excess | None:
        """The bound of the run that is spent; None while there is room in all of them."""
        with self._mutex:
            if self._refused is not None:
                return self._refused
            over = self._over()
        if over is not None:
            return _excess(over, self.bounds)
        return _excess("run_wall_s", self.bounds) if self.run_left_s <= 0 else None

    def _over(self) -> str | None:
        """Return the bound that leaves no room for a step and, where the model is paid for, the answer after it."""
        if self._of_run.log_bytes >= self.bounds.run_log_bytes:
            return "run_log_bytes"
        tokens, usd = self.bounds.run_tokens, self.bounds.run_usd
        if tokens is not UNSET and self._tokens + 2 * self._last_tokens > tokens:
            return "run_tokens"
        return "run_usd" if usd is not UNSET and self._usd + 2 * self._last_usd > usd else None

    def _excess(self, **more: int) -> Excess | None:
        for scope, counts in (("run", self._of_run), ("step", self._of_step)):
            if scope == "step" and self._step is None:
                continue
            for name, number in more.items():
                bound = f"{scope}_{name}"
                if getattr(counts, name) + number > getattr(self.bounds, bound):
                    excess = _excess(bound, self.bounds)
                    # The run ends for it, although a smaller call might still fit.
                    self._refused = self._refused or (excess if excess.is_of_run else None)
                    return excess
        return None

    def _add(self, **more: int) -> None:
        for counts in (self._of_run, self._of_step):
            for name, number in more.items():
                setattr(counts, name, getattr(counts, name) + number)


class _Counts(msgspec.Struct):
    calls: int = 0
    payload_bytes: int = 0
    log_bytes: int = 0


_WORDS = {
    "calls": "{number:,} calls of tools",
    "payload_bytes": "{number:,} bytes of payloads kept",
    "log_bytes": "{number:,} bytes recorded",
    "wall_s": "{number:,g} seconds",
    "tokens": "{number:,} tokens",
    "usd": "{number:,g} US dollars",
}


def _excess(bound: str, bounds: RunBounds) -> Excess:
    scope, _, name = bound.partition("_")
    number = _WORDS[name].format(number=getattr(bounds, bound))
    hint = (
        "make fewer calls, ask for less, and go on in the next step"
        if scope == "step"
        else "submit what you have now: the run ends after this step"
    )
    return Excess(bound, f"that is more than this {scope} may have: {number}", hint)


def _costs(events: Iterable[Event]) -> dict[str, int]:
    """Return the bytes of events in the log, and of the payloads that they keep."""
    events = tuple(events)
    payloads = (event.result for event in events if isinstance(event, ToolCalled) and isinstance(event.result, str))
    kept = sum(len(payload.encode("utf-8", "surrogatepass")) for payload in payloads)
    return {"payload_bytes": kept, "log_bytes": sum(map(size_of, events))}


def tokens_of(call: LmCalled) -> int:
    """Return the tokens of a call, prompt and reply; of an answer that nobody counted, an estimate.

    A call without an answer has those that were reported.
    """
    answered = call.response is not None
    parts = ((call.tokens_in, call.request), (call.tokens_out, call.response))
    return sum(n if n is not None else estimated_tokens(str(text or "")) if answered else 0 for n, text in parts)


def size_of(event: Event) -> int:
    """Return the bytes of an event as JSON, but for its envelope and its duration.

    Those differ when a run is repeated, and a bound must be spent at the same call then.
    """
    changed: dict[str, Any] = {"seq": 0, "at": "", "id": "", "crc": ""}
    if hasattr(event, "duration_s"):
        changed["duration_s"] = None
    return len(msgspec.json.encode(msgspec.structs.replace(event, **changed)))


def check_bounds(bounds: RunBounds) -> None:
    """Raise `BadInput` unless every bound that there is is a finite number above 0."""
    for name in RunBounds.__struct_fields__:
        number = getattr(bounds, name)
        if number is not UNSET and not 0 < number < inf:
            raise BadInput(f"the bound {name} is {number}: give a number above 0")
