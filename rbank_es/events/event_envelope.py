"""The envelope of every event, and the kinds of values that facts and texts may take.

An event class lists its facts first, then `salt`, then its texts. Everything below the salt is text: it may be
erased, and a long one is stored apart, as a `Ref`. Everything above is fact: it is never erased, so it never holds
free text. An unknown field is absent, which reads as None or as an empty tuple, mapping or string.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from rbank_es import limits
from rbank_es.events.items import ItemText, Name
from rbank_es.events.notebook_repr import Shown

# Bounded, because larger integers lose digits in other readers of JSON.
Count = Annotated[int, msgspec.Meta(ge=0, le=limits.COUNT_MOST)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=limits.EVENT_S, description="Seconds.")]
Timer = Callable[[], float]
"""Returns seconds on a clock that never goes back; durations are differences of two of them."""
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=limits.NAMES)]
Setting = bool | int | float | Name | tuple[bool | int | float | Name, ...]
Settings = dict[Name, Setting]
Time = Annotated[str, msgspec.Meta(min_length=27, max_length=27)]
"""UTC, microseconds, fixed width: `2026-01-31T12:00:00.000000Z`. Text order is time order."""
BankId = Annotated[str, msgspec.Meta(min_length=32, max_length=32, pattern="^[0-9a-f]{32}$")]
"""The id of a bank: 32 hex digits."""


class Ref(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="is", tag="ref"):
    """A handle to a text that is stored apart: metadata, never the payload."""

    key: Annotated[str, msgspec.Meta(min_length=64, max_length=64, description="Key of the text line.")]
    dtype: Annotated[Name, msgspec.Meta(description="What the text is: text, item, json.")]
    sz: Annotated[int, msgspec.Meta(ge=0, description="Size in characters.")]
    prev: Annotated[str, msgspec.Meta(description="Its first 80 characters.")]

    def __repr__(self) -> str:
        # The long key of a text line is only for programs; a payload's short key is its name.
        key = self.key if len(self.key) < 64 else f"{self.key[:12]}…"
        return f"Ref({key!r}, {self.dtype}, {self.sz} chars)"


class Erased(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="is", tag="erased"):
    """The mark of an erased text: its salted commitment, which confirms no guess."""

    digest: Annotated[str, msgspec.Meta(min_length=64, max_length=64, description="The unit's commitment, hex.")]


Text = str | Ref | Erased
"""A text: itself, a handle to it, or its mark after erasure."""

if TYPE_CHECKING:
    # In Python an event may be given its JSON as a value, which `Bank.append` encodes; what is read is always a text.
    JsonText = Text | Mapping[str, Any]
else:
    JsonText = Text

Candidate = ItemText | Ref | Erased
"""An item's words: themselves, a handle to their JSON, or their mark after erasure."""

Salt = Annotated[
    str | dict[str, str],
    msgspec.Meta(description="Salt of the texts below; after an erasure, the derived salts of those that survive."),
]


EVENT_ID_CHARS = 36
"""Characters of a UUID in its canonical form."""


class Event(
    Shown,
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    # No cycles, and a bank has up to millions of them: the garbage collector need not look.
    gc=False,
    tag_field="type",
):
    """One thing that happened. Only the log's writer fills the envelope, except `id` (for idempotent retries),
    `occurred_at` (for imports) and `origin` (for absorptions)."""

    seq: Annotated[int, msgspec.Meta(ge=0, description="Position in the bank, from 1; 0 before it is appended.")] = 0
    at: Annotated[str, msgspec.Meta(max_length=27, description="UTC time of recording, microseconds.")] = ""
    id: Annotated[str, msgspec.Meta(max_length=EVENT_ID_CHARS, description="UUID; key of idempotent append.")] = ""
    v: Annotated[Literal[1], msgspec.Meta(description="Version of this type's schema.")] = 1
    occurred_at: Annotated[Time | None, msgspec.Meta(description="UTC time it happened, where earlier.")] = None
    # A label, never a proof: whoever writes a log can write any origin, so nothing may gain authority by it.
    origin: Annotated[
        BankId | None, msgspec.Meta(description="Id of the bank whose log recorded it first, where not this one.")
    ] = None
    # The last three are for crash recovery: they let a reader recognise an interrupted append.
    more: Annotated[int, msgspec.Meta(ge=0, description="Events still to come in this append.")] = 0
    dur: Annotated[int, msgspec.Meta(ge=0, description="Highest position known to be on disk when written.")] = 0
    crc: Annotated[str, msgspec.Meta(max_length=8, description="CRC-32 of the line before it, hex.")] = ""


ERASED = "[erased]"
"""The mark that people see in the place of an erased text."""


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
