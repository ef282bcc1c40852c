"""The calls of models in one run of an agent: each is recorded, and searched for what was recalled before it."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.bank.recall_delivery import RecallDelivery
from rbank_es.bank.recorded_values import recorded_count, recorded_name, recorded_settings, recorded_text
from rbank_es.events import LmCalled
from rbank_es.events.derived_ids import request_key
from rbank_es.events.redaction import redact, secrets
from rbank_es.log.run_reader import read_run
from rbank_es.system.forks import told_of_forks

if TYPE_CHECKING:
    from rbank_es.bank.bank_access import OpenBank


_SAMPLING = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "max_output_tokens", "seed", "n", "stream",
    "frequency_penalty", "presence_penalty", "reasoning_effort",
)  # fmt: skip


class CallFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has ended: `asked` are the fields of its request, `request` and `response` their text.

    `request_whole` and `whole` are False where not all of the request, or of the response, is there.
    """

    run: str | None
    asked: Mapping[str, Any]
    request: str
    response: str | None
    request_whole: bool = True
    whole: bool = True
    usage: Mapping[str, Any] = {}
    attempt: int | None = None
    duration_s: float
    error_code: str | None = None
    error: str | None = None


class ModelCalls:
    """The record of a run's model calls, for several threads. A failure to record never reaches the agent's call.

    A call that begins after `close` still reaches its model; it is recorded, but as a call of no run.
    """

    def __init__(self, bank: OpenBank, run: str, model: str | None = None) -> None:
        """Record in `bank` as part of `run`; `model` names calls that don't say which model they are of."""
        self.run, self.model = run, model
        self.unrecorded: Exception | None = None
        """The first failure to record a call; None while all were recorded."""
        self._bank = bank
        self._hidden = secrets()
        self._delivery = RecallDelivery()
        self._left: deque[Callable[[], LmCalled]] = deque()
        self._closed, self._begun = False, 0
        self._mutex = threading.Lock()
        told_of_forks.add(self)

    def recall(self, texts: Mapping[str, Sequence[str]]) -> None:
        """Look for recalled items, each with the texts of which one will do, in the requests from now on."""
        with self._mutex:
            self._delivery.recall(texts)

    def hide(self, key: str) -> None:
        """Redact a client's key from all that is recorded from now on, as those of the environment."""
        with self._mutex:
            self._hidden = (*dict.fromkeys((*secrets({"API_KEY": key}), *self._hidden)),)

    def begin(self, request: Any, *, whole: bool = True) -> str | None:
        """Search a request, which is plain data, for what was recalled; return the run of the call, None after `close`.

        `whole` is False where the request has more than the data.
        """
        self.flush()
        with self._mutex:
            if self._closed:
                return None
            self._begun += 1
            try:
                self._delivery.look(request)
                searched = whole or self._delivery.complete
            except Exception:  # the agent's call goes on, whatever its request is
                searched = False
            if not searched:
                self._delivery.miss()
            return self.run

    def event(self, facts: CallFacts) -> LmCalled:
        """Return the event of a call: redacted, within bounds, with its tokens where the usage has them."""
        hidden = self._hidden
        request, response = recorded_text(facts.request, hidden), recorded_text(facts.response, hidden)
        cut = {
            "request": request.cut or not facts.request_whole,
            "response": response.cut or not facts.whole,
        }
        details = facts.usage.get("prompt_tokens_details") or facts.usage.get("input_tokens_details")
        return LmCalled(
            run=facts.run,
            role="agent",
            model=recorded_name(redact(str(facts.asked.get("model") or self.model or ""), hidden)),
            attempt=facts.attempt,
            parameters=recorded_settings({name: facts.asked[name] for name in _SAMPLING if name in facts.asked}),
            tokens_in=_count(facts.usage, "prompt_tokens", "input_tokens"),
            tokens_out=_count(facts.usage, "completion_tokens", "output_tokens"),
            tokens_cached=_count(details if isinstance(details, dict) else {}, "cached_tokens"),
            duration_s=round(facts.duration_s, 6),
            error_code=facts.error_code,
            previews=tuple(name for name, is_cut in cut.items() if is_cut),
            request_key=request_key(request.text),
            request=request.text,
            response=response.text if facts.response is not None else None,
            error=recorded_text(facts.error, hidden).text[: limits.ERROR_CHARS] if facts.error else None,
        )

    def record(self, made: Callable[[], LmCalled]) -> None:
        """Append the event that `made` returns. A failure is kept in `unrecorded`, and warned of once."""
        try:
            self._bank.append(made())
        except Exception as error:  # whatever it is, the agent gets the answer of its model
            with self._mutex:
                first, self.unrecorded = self.unrecorded is None, self.unrecorded or error
            if first:
                # A filter may make an error of the warning, and a foreign exception may have no words.
                with suppress(Exception):
                    told = f"a model call of run {self.run} was not recorded: {error}"
                    warnings.warn(told, RuntimeWarning, stacklevel=2)

    def leave(self, made: Callable[[], LmCalled]) -> None:
        """Keep a call for the next `flush`, because a finalizer must not wait for a lock."""
        self._left.append(made)

    def flush(self) -> None:
        """Record the events that finalizers left."""
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self.record(self._left.popleft())

    def delivery(self) -> tuple[bool | None, tuple[str, ...]]:
        """Return whether what was recalled was sent (None: unknown), and the items that were not."""
        self.flush()
        with self._mutex:
            sent, unsent = self._delivery.sent, self._delivery.unsent
        if sent is False and self._called_elsewhere():
            return None, ()
        return sent, unsent

    def _called_elsewhere(self) -> bool:
        """Return whether the run has calls of other processes, forked children, whose requests were not searched."""
        calls = read_run(self._bank.log, self.run, types={"lm_called"}).lm_calls
        return sum(call.role == "agent" for call in calls) > self._begun

    def close(self) -> None:
        """End the run's calls: later ones belong to no run."""
        with self._mutex:
            self._closed = True

    def forget_parent(self) -> None:
        """See `Forkable.forget_parent`: calls of a child are the run's, but its parent can't know of them."""
        self._mutex = threading.Lock()


def _count(usage: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of some counts that a usage has; None without one that can be counted."""
    return recorded_count(next((usage[name] for name in names if usage.get(name) is not None), None))
