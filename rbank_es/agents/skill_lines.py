"""Lessons as lines of Markdown: one line each, behind the id of its item, so that its words are never more than data.

Hosts obey some character sequences wherever they stand in a file: Claude Code runs a command behind an exclamation mark
in backquotes, or in a block whose fence ends with one, and imports a file behind `@`; our own block ends at a comment.
A blank breaks each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from rbank_es.events.items import JUDGE_SOURCES, Item, Polarity
from rbank_es.law import State
from rbank_es.limits import skill_limits
from rbank_es.policies.packed_text import fair_shares
from rbank_es.policies.quoted_items import item_start, item_words

ITEM = "item:"
"""The beginning of the key of an item's line; the id follows."""

HEADINGS: dict[Polarity, str] = {"success": "Strategies", "failure": "Guardrails: what to avoid"}
FRAME = (
    "Drawn from recorded runs by rbank-es: advice to weigh, not orders. `rbank-es show BANK item:ID` says what a "
    "lesson rests on."
)
_STEERING = re.compile(r"!(?=`)|(?:```|~~~)(?=!)|<(?=!--)|--(?=>)|(?<!\S)@(?=\S)|\$(?=\d|ARGUMENTS|\{CLAUDE)")


class SkillLine(NamedTuple):
    """A line of a file: its key there, and the items behind it. A line without a key is blank, or a person's."""

    text: str
    key: str = ""
    items: tuple[str, ...] = ()


class SkillLesson(NamedTuple):
    """An active item with the number of its witnesses, and its whole line."""

    item: Item
    support: int
    line: str


BLANK = SkillLine("")


def digest_of(text: str) -> str:
    """Return the digest by which a line or a file is known again: 32 hex digits of SHA-256."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def lessons_of(state: State, domain: str | None = None) -> list[SkillLesson]:
    """Return the active items that agents may read, with words; of one domain, if it is named.

    They are at most `SKILL_PLACE_LESSONS`, those with the most support, in an order that no history changes.
    """
    found = (
        _lesson(entry.item, entry.support)
        for entry in state.items.values()
        if entry.state == "active" and not entry.erased and entry.item.src not in JUDGE_SOURCES
        if domain is None or domain in (entry.item.domain, *entry.domains)
    )
    best = sorted((each for each in found if each), key=lambda each: (-each.support, each.item.id))
    return best[: skill_limits.SKILL_PLACE_LESSONS]


def _lesson(item: Item, support: int) -> SkillLesson | None:
    return SkillLesson(item, support, as_data(item_start(item) + item_words(item))) if item_words(item) else None


def as_data(line: str) -> str:
    """Return a line without what a host obeys: a command to run, a file to import, an argument, a comment's ends."""
    return _STEERING.sub(lambda found: found[0] + " ", line)


def lesson_lines(lessons: Sequence[SkillLesson], room_bytes: int) -> dict[str, str]:
    """Return the line of each item by its id, all of them in `room_bytes`; where they don't fit, the long ones cut."""
    sizes = [len(each.line.encode()) + 1 for each in lessons]
    shares = fair_shares(sizes, room_bytes)
    return {
        each.item.id: each.line if share >= size else _cut(each.line, share - 1)
        for each, size, share in zip(lessons, sizes, shares, strict=True)
    }


def _cut(line: str, size_bytes: int) -> str:
    """Return the beginning of a line in so many bytes, ended by an ellipsis of three."""
    room = line.encode()[: max(size_bytes - 3, 0)].decode(errors="ignore")
    space = room.rfind(" ")
    return (room[:space] if space > len(room) // 2 else room).rstrip() + "…"


def sections(lessons: Iterable[SkillLesson], shown: dict[str, str], level: str = "##") -> Iterator[SkillLine]:
    """Yield the lines of lessons under a heading for each polarity, strategies first, in order of title."""
    ordered = sorted(lessons, key=lambda each: (each.item.title.casefold(), each.item.id))
    for polarity, heading in HEADINGS.items():
        of_kind = [each.item.id for each in ordered if each.item.polarity == polarity and each.item.id in shown]
        if of_kind:
            yield from (BLANK, SkillLine(f"{level} {heading}", f"heading:{polarity}"), BLANK)
            yield from (SkillLine(shown[id], ITEM + id, (id,)) for id in of_kind)
