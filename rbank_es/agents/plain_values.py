"""Arguments and replies of wrapped functions as plain data, in bounded time and memory: what their JSON is made of."""

from __future__ import annotations

from typing import Any

from rbank_es import limits
from rbank_es.events.codec import encodable


class PlainValues:
    """A copy of values as plain data. `whole` is False once something was left out, because a bound was reached."""

    def __init__(self, most_chars: int) -> None:
        self._chars, self._values = most_chars, limits.CALL_VALUES
        self.whole = True

    def of(self, value: Any) -> Any:
        """Return a value as JSON has it: bytes as text, messages of libraries as objects, others as their class.

        Raises nothing, because values are of other people's classes: what fails is left out.
        """
        try:
            return self._plain(value, limits.REDACTION_DEPTH)
        except Exception:
            self.whole = False
            return None

    def _plain(self, value: Any, depth: int) -> Any:
        self._values -= 1
        if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**63):
            return value
        if isinstance(value, str | bytes | bytearray):
            return self._text(value)
        if depth == 0 or self._values <= 0 or self._chars <= 0:
            self.whole = False
            return None
        if isinstance(value, dict):
            return {self._text(str(name)): self._plain(each, depth - 1) for name, each in self._some(value.items())}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._plain(each, depth - 1) for each in self._some(value)]
        return self._object(value, depth)

    def _text(self, value: str | bytes | bytearray) -> str:
        kept = value[: self._chars]
        self._chars -= len(kept)
        self.whole &= len(kept) == len(value)
        # `str` of a subclass of it could be anything.
        return encodable(str.__str__(kept)) if isinstance(kept, str) else bytes(kept).decode("utf-8", "replace")

    def _some(self, values: Any) -> Any:
        for each in values:
            if self._values <= 0 or self._chars <= 0:
                self.whole = False
                return
            yield each

    def _object(self, value: Any, depth: int) -> Any:
        dump = getattr(type(value), "model_dump", None)
        if dump is not None:
            try:
                return self._plain(dump(value), depth - 1)
            except Exception:  # a library's own model that can't be dumped is named below
                pass
        # No `repr`: it could be of any size, and run for ever.
        self.whole = False
        return f"<{type(value).__module__}.{type(value).__qualname__}>"
