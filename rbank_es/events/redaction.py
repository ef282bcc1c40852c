"""Redaction: the removal of the environment's secrets from everything that is recorded."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from rbank_es import limits
from rbank_es.system.redacted_locator import names_secret

if TYPE_CHECKING:
    from rbank_es.events import Event

Recorded = TypeVar("Recorded", bound="Event")

REDACTED = "[key]"
"""The mark in the place of a secret. Recorded runs have it, so it never changes."""

_KEY = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|ghp|glpat|AKIA|AIza)[-_A-Za-z0-9]{16,}|\bbearer\s+\S{8,}", re.IGNORECASE)
_WORD = re.compile("[A-Za-z]+|[0-9.]+")
_PLACES = frozenset({"PWD", "OLDPWD"})
"""Variables of a shell that hold directories, not passwords."""


def is_key(text: str) -> bool:
    """Return whether a text holds a likely key: `sk-…`, `Bearer …`, or a value of `secrets`."""
    return bool(_KEY.search(text)) or any(secret in text for secret in secrets())


def secrets(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the values of the environment's variables whose names say that they are secrets, longest first.

    Values of fewer than `limits.SECRET_CHARS` characters, bare words and bare numbers are left out as placeholders.
    Values that are not UTF-8 are left out because no text can hold them.
    """
    given = (os.environ if environment is None else environment).items()
    values = {
        value.strip()
        for name, value in given
        if names_secret(name) and name not in _PLACES
        if len(value.strip()) >= limits.SECRET_CHARS and not _is_placeholder(value.strip())
        if not any("\ud800" <= char <= "\udfff" for char in value)
    }
    # Longest first: a short secret inside a longer one would leave the rest of the longer one readable.
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


def _is_placeholder(value: str) -> bool:
    return len(value) <= limits.PLACEHOLDER_CHARS and bool(_WORD.fullmatch(value))


def redact_keys(text: str) -> str:
    """Return the text with `REDACTED` in place of whatever has the form of a key."""
    return _KEY.sub(REDACTED, text)


def redact(text: str, hidden: Iterable[str]) -> str:
    """Return the text with `REDACTED` in place of each hidden value, as it is and as JSON and addresses write it."""
    for value in hidden:
        # A prompt quotes code, and an address quotes a parameter: the same secret in other letters.
        for form in {value, json.dumps(value, ensure_ascii=False)[1:-1], quote(value), quote(value, safe="")}:
            text = text.replace(form, REDACTED)
    return text


def redact_all(value: Any, hidden: tuple[str, ...], depth: int = limits.REDACTION_DEPTH) -> Any:
    """Return a value with every text in it redacted, in lists, tuples and dicts too, to a depth."""
    if not hidden or not depth:
        return value
    if type(value) is str:
        return redact(value, hidden)
    if type(value) is dict:
        return {redact_all(name, hidden, 1): redact_all(part, hidden, depth - 1) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(redact_all(part, hidden, depth - 1) for part in value)
    return value


def redact_event(event: Recorded) -> Recorded:
    """Return an event without the environment's secrets in its texts, because unsandboxed code can read them."""
    from msgspec.structs import replace  # on use, as all events: a hook redacts without any

    from rbank_es.events.codec import texts_of

    hidden = secrets()
    texts = {name: getattr(event, name) for name in texts_of(type(event))}
    clean = {name: redact(text, hidden) for name, text in texts.items() if isinstance(text, str)}
    return replace(event, **clean)
