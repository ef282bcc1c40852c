"""Values of an agent as events can hold them: readable, bounded, without secrets. Nothing here raises."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.events.codec import encodable
from rbank_es.events.event_envelope import Settings
from rbank_es.events.redaction import redact
from rbank_es.limits import recorder_limits
from rbank_es.system.error_messages import message_of

NAMELESS = "unnamed"
"""The name of a tool or a model that was given none."""


class RecordedText(NamedTuple):
    """The beginning of a text as it is recorded, and the characters of all of it."""

    text: str
    chars: int

    @property
    def cut(self) -> bool:
        """Whether it is only the beginning."""
        return self.chars > recorder_limits.RECORDED_CHARS


def recorded_text(value: object, hidden: tuple[str, ...]) -> RecordedText:
    """Return any value as text: a text as it is, bytes decoded, others as JSON; None gives an empty one."""
    return _bounded("" if value is None else _plain_text(value), hidden)


def recorded_json(value: object, hidden: tuple[str, ...]) -> RecordedText:
    """Return any value as JSON."""
    found = _bounded(_json(value), hidden)
    # Half a value is no JSON; as a text it is.
    return RecordedText(_json(found.text), found.chars) if found.cut else found


def recorded_error(error: object, hidden: tuple[str, ...]) -> tuple[str, str]:
    """Return the code and the message of an error: an exception, a text, or anything else."""
    raised = isinstance(error, BaseException)
    words = recorded_text(_shown_error(error) if isinstance(error, BaseException) else error, hidden)
    return recorded_name(type(error).__name__) if raised else "failed", words.text[: limits.ERROR_CHARS]


def recorded_name(name: object, otherwise: str = NAMELESS) -> str:
    """Return a name as a fact of an event: names are never erased, so it is short, and holds no U+0000."""
    text = encodable(_plain_text(name) if name is not None else "").replace("\0", "")
    return text[: limits.NAME_CHARS] or otherwise


def recorded_count(number: object) -> int | None:
    """Return a whole number from 0 up; None for anything else: what isn't known is unset."""
    is_count = isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= limits.COUNT_MOST
    return number if is_count and isinstance(number, int) else None


def recorded_amount(number: object, most: float) -> float | None:
    """Return a number from 0 to `most`; None for anything else."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    # Compared before it is a float: an integer may be too large for one. NaN is in no range.
    return float(number) if 0 <= number <= most else None


def recorded_settings(given: Mapping[str, object] | None) -> Settings:
    """Return the parameters that are truth values, finite numbers or names."""
    return {recorded_name(name): value for name, value in (given or {}).items() if _is_setting(value)}  # type: ignore[misc]


def _is_setting(value: object) -> bool:
    if isinstance(value, str):
        return value == recorded_name(value, "")
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= limits.COUNT_MOST
    return isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value))


# ---------------------------------------------------------------- as plain data


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
        # Neither `str` nor `repr`: a library's could be of any size, and run for ever.
        self.whole = False
        return f"<{type(value).__module__}.{type(value).__qualname__}>"


# ---------------------------------------------------------------- as text


def _bounded(text: str, hidden: tuple[str, ...]) -> RecordedText:
    # Redact before cutting: half a key would escape redaction.
    clean = redact(encodable(text[: recorder_limits.REDACTED_CHARS]), hidden)
    if len(text) <= recorder_limits.RECORDED_CHARS:
        return RecordedText(clean, len(text))
    return RecordedText(clean[: recorder_limits.RECORDED_CHARS], len(text))


def _plain_text(value: object) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    return _json(value)


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_part)
    # Whatever the words of a foreign object raise is no failure of the run.
    except Exception:
        return json.dumps(_shown(value), ensure_ascii=False)


def _part(value: Any) -> Any:
    """Return a part that JSON has no form for as one that it has."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if callable(dump := getattr(value, "model_dump", None)):
        return dump()
    if isinstance(value, BaseException):
        return _shown_error(value)
    return msgspec.to_builtins(value, enc_hook=_shown, str_keys=True)


def _shown_error(error: BaseException) -> str:
    try:
        return message_of(error)
    except Exception:
        return type(error).__name__


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}, which has no words>"
