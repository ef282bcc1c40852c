"""The identity of records: by what an import knows a record that it met before, in whatever file it comes again.

The rule, for every importer:

    ids of a bank     A record that a bank exported with the ids of its events (`Mark`) is what those ids name.
    a name            Else a record that its source names (`run_id`, `trajectory_id`; an item's `id`) is known by its
                      kind of source, its task and that name.
    content           Else it is known by its kind of source and by the part of its content that a later version of the
                      record keeps: what a run did, never what was said of it later.
    a number          Records of one file that are alike by this are told apart by their number among them: two equal
                      lines of a journal are two runs, in every copy of that journal.

An item of a list brings no run, so it is a copy: of the extractions of its words in the bank that exported it
(`CopyMark`), else of the entry itself, wherever that was imported. What it is a copy of stands behind it; see
`rbank_es.law.validity`. Whoever changed its words made a statement of his own, which is a copy of nothing.

Content is compared as parsed values: spacing, order of keys, line ends, escapes, a byte order mark, 1 or 1.0, and JSON
Lines or a JSON array make no difference, nor do line ends within a text, or whether a name is a number or a text (7,
"7"), because table tools rewrite both. Neither does the name or the place of the file.

Ids of events follow from the identity of their record and from their part of it (`part_id`). So what is known is found
by its ids; what a later version adds has ids that are not known; and the same record gets the same ids in every bank.
An id that follows from content confirms a guess of the whole content.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.events.derived_ids import derived_id
from rbank_es.events.event_envelope import BankId, Names
from rbank_es.events.items import Name

RUN_NAMES = ("run_id", "trajectory_id")
"""Keys under which sources name a run, the best first."""

MARK = "rbank_es"
"""Key under which an export writes the ids of the events that a record tells of."""

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
# 32 bits of the identity: enough to keep apart runs that are named alike, short enough to type.
_SHORT_DIGEST = 8
_WHOLE = 2**53
"""Up to here every whole number has a float of its own."""

EventId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The ids of a run's events in the bank that exported it, by which that bank and every other knows the run.

    `bank` recorded it first, under the name `run`. `extractions` has, for each extraction, the ids of its items that
    the record holds, in their order. Of a record of several lines, the first has the mark, and each other one has the
    id of its event.
    """

    bank: BankId
    run: Annotated[Name, msgspec.Meta(min_length=1)]
    started: EventId
    context: EventId | None = None
    steps: tuple[EventId, ...] = ()
    finished: EventId | None = None
    judgment: EventId | None = None
    extractions: dict[EventId, Names] = {}


class CopyMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The extractions of which an exported item is a copy, the first ones first, and the digest of the words that it
    had then (`rbank_es.events.items.digest_of_words`)."""

    copy_of: Annotated[tuple[EventId, ...], msgspec.Meta(min_length=1, max_length=limits.COPY_ORIGINALS)]
    words: Name


def identity(kind: str, *key: Any, number: int = 1) -> bytes:
    """Return the identity of the record with this key, the `number`th such record of its file."""
    return sha256(canonical([kind, *key, number]).encode("utf-8", "surrogatepass")).digest()


def part_id(record: bytes, *part: str | int) -> str:
    """Return the id of the event that tells of this part of a record with this identity."""
    return derived_id(record, *part)


class Numbers:
    """The numbers of the records of one file among those that are alike, from 1."""

    def __init__(self) -> None:
        self._met: Counter[str] = Counter()
        self._contents: dict[tuple[str, str], int] = {}

    def next(self, *key: Any) -> int:
        """Return the number of the next record with this key."""
        text = canonical(key)
        self._met[text] += 1
        return self._met[text]

    def next_unless_equal(self, key: Sequence[Any], content: Any) -> int:
        """Return the number of a record that its source names: that of an equal one, if there was one, else the next.

        So a repeated record is the same one. Other content under the same name is another record.
        """
        met = canonical(key), canonical(content)
        if met not in self._contents:
            self._contents[met] = self.next(*key)
        return self._contents[met]


def name_in_source(fields: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the key and the value by which a source names its run; None where it doesn't."""
    for key in RUN_NAMES:
        value = fields.get(key)
        if value not in (None, "") and isinstance(value, str | int) and not isinstance(value, bool):
            return key, str(value)
    return None


def as_name(value: Any) -> Any:
    """Return a number as the text by which another tool may name the same; anything else as it is."""
    plain = _plain(value)
    return str(plain) if isinstance(plain, int) and not isinstance(plain, bool) else plain


def mark_of(fields: Mapping[str, Any]) -> Mark | None:
    """Return the mark in a record's fields; None where it has none. Raises `BadInput` for one that no export wrote."""
    return _converted(fields[MARK], Mark) if MARK in fields else None


def marked_id(fields: Mapping[str, Any]) -> str | None:
    """Return the id of the event that a further line of a marked record tells of; None where it has none.

    Raises `BadInput` for one that no export wrote.
    """
    return _converted(fields[MARK], EventId) if MARK in fields else None


def _converted(value: Any, to: Any) -> Any:
    try:
        return msgspec.convert(value, type=to)
    except msgspec.ValidationError as error:
        raise BadInput(f"{MARK!r} is not as an export has it: {error}; take the key out, or export again") from None


def canonical(value: Any) -> str:
    """Return JSON that doesn't depend on spacing, the order of keys, line ends, or how a whole number is written."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, str):
        return value.replace("\r\n", "\n")
    # Other tools write 1.0 as 1.
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE else value


def name_of(text: str, record: bytes) -> str:
    """Return a run id: the text with unfit characters replaced, and a short digest that makes it unique.

    A text that ends in that digest is left as it is, because an exported run must come back under its name.
    """
    short = "-" + record.hex()[:_SHORT_DIGEST]
    # A run id becomes part of file names and of commands.
    fit = _UNFIT.sub("-", text.removesuffix(short)).strip("-.") or "run"
    return fit[: limits.NAME_CHARS - len(short)] + short
