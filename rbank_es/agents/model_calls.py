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
from rbank_es.agents.recall_delivery import RecallDelivery
from rbank_es.events import LmCalled
from rbank_es.events.codec import encodable
from rbank_es.events.items import one_line
from rbank_es.events.redaction import redact, secrets
from rbank_es.models.model_call import key_of

if TYPE_CHECKING:
    from rbank_es.bank import Bank


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


class CallText(msgspec.Struct, frozen=True):
    """A request, a response or an error as it is recorded: redacted, and truncated to a bound."""

    text: str
    truncated: bool = False


class ModelCalls:
    """The record of a run's model calls, for several threads. A failure to record never reaches the agent's call.

    A call that begins after `close` still reaches its model; it is recorded, but as a call of no run.
    """

    def __init__(self, bank: Bank, run: str, model: str | None = None) -> None:
        """Record in `bank` as part of `run`; `model` names calls that don't say which model they are of."""
        self.run, self.model = run, model
        self.unrecorded: Exception | None = None
        """The first failure to record a call; None while all were recorded."""
        self._bank = bank
        self._hidden = secrets()
        self._delivery = RecallDelivery()
        self._left: deque[Callable[[], LmCalled]] = deque()
        self._closed = False
        self._mutex = threading.Lock()

    @property
    def closed(self) -> bool:
        """Whether the run has ended."""
        return self._closed

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
            try:
                self._delivery.look(request)
                searched = whole or self._delivery.complete
            except Exception:  # the agent's call goes on, whatever its request is
                searched = False
            if not searched:
                self._delivery.miss()
            return self.run

    def text(self, text: str, most: int) -> CallText:
        """Return a text as it is recorded, of at most `most` bytes in UTF-8."""
        # Redact before truncating: half a key would escape redaction.
        data = redact(encodable(text), self._hidden).encode()
        return CallText(data[:most].decode("utf-8", "ignore"), len(data) > most)

    def name(self, model: object) -> str:
        """Return a model's name as a fact: on one line, without keys; that of the run if the call gives none."""
        given = model if isinstance(model, str) and model.strip() else self.model or "unknown"
        return one_line(redact(encodable(given), self._hidden), limits.NAME_CHARS)

    def event(self, facts: CallFacts) -> LmCalled:
        """Return the event of a call: redacted, within bounds, with its tokens where the usage has them."""
        request = self.text(facts.request, limits.LM_REQUEST_BYTES)
        response = self.text(facts.response or "", limits.LM_RESPONSE_CHARS)
        whole = {
            "request": facts.request_whole and not request.truncated,
            "response": facts.whole and not response.truncated,
        }
        details = facts.usage.get("prompt_tokens_details") or facts.usage.get("input_tokens_details")
        return LmCalled(
            run=facts.run,
            role="agent",
            model=self.name(facts.asked.get("model")),
            attempt=facts.attempt,
            parameters={name: facts.asked[name] for name in _SAMPLING if _is_setting(facts.asked.get(name))},
            tokens_in=_count(facts.usage, "prompt_tokens", "input_tokens"),
            tokens_out=_count(facts.usage, "completion_tokens", "output_tokens"),
            tokens_cached=_count(details if isinstance(details, dict) else {}, "cached_tokens"),
            duration_s=round(facts.duration_s, 6),
            error_code=facts.error_code,
            previews=tuple(name for name, is_whole in whole.items() if not is_whole),
            request_key=key_of(request.text),
            request=request.text,
            response=response.text if facts.response is not None else None,
            error=self.text(facts.error, limits.ERROR_CHARS).text if facts.error else None,
        )

    def record(self, made: Callable[[], LmCalled]) -> None:
        """Append the event that `made` returns. A failure is kept in `unrecorded`, and warned of once."""
        try:
            self._bank.append(made())
        except Exception as error:  # whatever it is, the agent gets the answer of its model
            with self._mutex:
                first, self.unrecorded = self.unrecorded is None, self.unrecorded or error
            if first:
                warnings.warn(f"a model call of run {self.run} was not recorded: {error}", RuntimeWarning, stacklevel=2)

    def leave(self, made: Callable[[], LmCalled]) -> None:
        """Keep a call for the next `flush`, because a finalizer must not wait for a lock."""
        self._left.append(made)

    def flush(self) -> None:
        """Record the events that finalizers left."""
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self.record(self._left.popleft())

    def close(self) -> tuple[bool | None, tuple[str, ...]]:
        """End the run's calls; return whether what was recalled was sent (None: unknown), and the items that were not.

        They are `recall_sent` and `recall_unsent` of the run's end.
        """
        self.flush()
        with self._mutex:
            self._closed = True
            sent = self._delivery.sent
            return sent, self._delivery.unsent if sent is False else ()


def _is_setting(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= limits.NAME_CHARS
    return isinstance(value, bool | int | float) and abs(value) <= limits.COUNT_MOST


def _count(usage: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of some counts that a usage has; None without one that can be counted."""
    value = next((usage[name] for name in names if usage.get(name) is not None), None)
    return value if type(value) is int and 0 <= value <= limits.COUNT_MOST else None
