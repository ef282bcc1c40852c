"""Texts of events as far as the event itself holds them, without reading texts that are stored apart."""

from __future__ import annotations

from rbank_es.events import Candidate, Erased, Ref, Text
from rbank_es.events.items import ItemText

ERASED = "[erased]"


def text_of(value: Text | None) -> str:
    """Return a text as far as its event holds it: the preview of a stored one, a mark for an erased one."""
    if value is None:
        return ""
    if isinstance(value, Ref):
        return value.prev + ("…" if value.sz > len(value.prev) else "")
    return ERASED if isinstance(value, Erased) else value


def titled(candidate: Candidate) -> str:
    """Return the title of a candidate, as far as the event holds it."""
    return candidate.title if isinstance(candidate, ItemText) else text_of(candidate)
