"""A `dspy.LM` whose calls are recorded: a copy of it with one callback more.

A callback instead of an engine, because an LM with an engine of its own takes no address and no key; and it sees what
came from the cache. It keeps the run itself, because `dspy.Parallel` loses context variables.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from rbank_es.agents.wrapped_functions import BegunCall
from rbank_es.bank.model_calls import ModelCalls

_ENTRIES = 64
"""Entries of an LM's history in which the usage of a call is looked for: as many calls may end at once."""


def recorded_lm(lm: Any, calls: ModelCalls) -> Any:
    """Return a copy of a `dspy.LM` that records each call; retries inside of dspy are part of their call."""
    return lm.copy(callbacks=[*(lm.callbacks or []), recording_callback(calls)])


def recording_callback(calls: ModelCalls) -> Any:
    """Return a callback of DSPy that records the calls of each LM that has it."""
    # DSPy is the user's, and loaded.
    base: type = sys.modules["dspy.utils.callback"].BaseCallback
    return type("RecordingCallback", (_Callback, base), {})(calls)


class _Callback:
    """The record of the calls of LMs, from their start to their end."""

    def __init__(self, calls: ModelCalls) -> None:
        self._calls = calls
        self._begun: dict[str, tuple[Any, BegunCall]] = {}
        self._mutex = threading.Lock()

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Begin a call, with all that the LM sends: its own settings, too."""
        if isinstance(key := instance.kwargs.get("api_key"), str):
            self._calls.hide(key)
        given = {name: value for name, value in inputs.items() if name not in ("kwargs", "prompt", "messages")}
        messages = inputs.get("messages") or [{"role": "user", "content": inputs.get("prompt")}]
        settings = {**instance.kwargs, **given, **(inputs.get("kwargs") or {})}
        shown = {name: value for name, value in settings.items() if value is not None and not name.startswith("api_")}
        call = BegunCall(self._calls, (), {"model": instance.model, "messages": messages, **shown})
        with self._mutex:
            self._begun[call_id] = (instance, call)

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Record the call."""
        with self._mutex:
            instance, call = self._begun.pop(call_id)
        if exception is not None:
            call.failed(exception)
        else:
            call.replied(outputs, _usage(instance, outputs))


def _usage(instance: Any, outputs: Any) -> dict[str, Any]:
    """Return the usage of the call with these outputs; empty where the LM keeps no history, or it was cached."""
    for entry in reversed(instance.history[-_ENTRIES:]):
        if entry.get("outputs") is outputs:
            return dict(entry.get("usage") or {})
    return {}
