"""What a raw tool hands to the instrumentation: an answer to encode and record, or an error that becomes data."""

from __future__ import annotations

from typing import Any, NamedTuple

from rbank_es.events import Event


class Reply(NamedTuple):
    """The answer of a raw tool.

    `body` is shown to the agent. `payload` stays behind a handle of kind `dtype`, whose key, alias, size and preview
    are put in front of the body. `beside` are events that are recorded in the same group, before the call itself.
    `position` is the bank's position that was read, where the answer depends on it: the call is recorded only if
    nothing was appended since, else the tool runs again.
    """

    body: dict[str, Any]
    payload: str | None = None
    dtype: str | None = None
    truncated: bool = False
    beside: tuple[Event, ...] = ()
    position: int | None = None


class ToolError(Exception):
    """A call that can't be answered: the agent gets code, message and hint as data, never an exception.

    `code` is stable, for programs; `hint` says what to do next.
    """

    def __init__(self, code: str, message: str, hint: str) -> None:
        self.code, self.message, self.hint = code, message, hint
        super().__init__(f"{message}. {hint}")
