"""Fitting text into a budget of characters: whole items, whole sentences, and a word on what was left out.

Budgets count every character that reaches the prompt, titles and markup included. What doesn't fit is dropped whole;
nothing is ever squeezed in half, except one long text that is quoted, which ends in `…` then. A budget that is too
small for anything useful gives an empty text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from rbank_es.errors import BadInput

ELLIPSIS = "…"
ENTRY_CHARS = 160
"""An entry of a list that is longer is left out: it would cost more than it says."""
CUT_CHARS = 200
"""How much is said about what was left out."""

# A full stop that ends an abbreviation or numbers a list ends no sentence.
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_`]*\s+(?=[^\sa-z])")
_NO_END = re.compile(r"(?:\b(?:e\.g|i\.e|cf|vs|al|fig|approx)|^\d{1,3}|\b[A-Z])\.$", re.IGNORECASE)
_TAIL_CHARS = 12  # longer than anything that _NO_END looks for
_JOINERS = "\u200c\u200d"


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """What one layer puts into the prompt. `len(text) <= budget_chars`, always.

    `truncated` says whether something was left out, and `cut` what, in words. `items` are the ids of the memory
    items in it.
    """

    layer: str
    text: str = ""
    budget_chars: int
    truncated: bool = False
    cut: str = ""
    items: tuple[str, ...] = ()


class Section(NamedTuple):
    """A line of a layer: a title, then entries, of which those that come last are left out first.

    `weight` is its share of the room where not everything fits; a `greedy` one takes all that it needs before the
    sections that follow get any. `name` is what it is called where something is left out (default: the title).
    """

    title: str
    entries: Sequence[str]
    separator: str = ", "
    weight: int = 1
    greedy: bool = False
    name: str = ""


def checked_budget(budget_chars: int) -> int:
    """The budget. Raises `BadInput` for one below 0."""
    if budget_chars < 0:
        raise BadInput(f"a budget of {budget_chars} characters can't be kept; give 0 or more")
    return budget_chars


def plain(text: str) -> str:
    """A text as one line without control or other invisible characters: it can't begin a line, a heading or a list."""
    if not text.isprintable():
        kept = (char for char in text if char.isspace() or char in _JOINERS or unicodedata.category(char)[0] != "C")
        text = "".join(kept)
    return " ".join(text.split())


def sentences(text: str) -> list[str]:
    """The sentences of a text that is one line, as they stand. A text without a full stop is one sentence."""
    found: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        stop = end.start()
        if not _NO_END.search(text[max(start, stop - _TAIL_CHARS) : stop]):
            found.append(text[start : end.end()].rstrip())
            start = end.end()
    rest = text[start:].strip()
    return [*found, rest] if rest else found


def whole_sentences(text: str, max_chars: int) -> str:
    """The sentences that fit from the beginning; where not even the first does, its words that fit, then `…`.

    Empty if not one word fits.
    """
    if len(text) <= max_chars:
        return text
    kept = ""
    for sentence in sentences(text):
        longer = f"{kept} {sentence}" if kept else sentence
        if len(longer) > max_chars:
            break
        kept = longer
    return kept or whole_words(text, max_chars)


def whole_words(text: str, max_chars: int) -> str:
    """The text, or its words that fit, then `…`. Empty if not one word fits."""
    if len(text) <= max_chars:
        return text
    room = text[: max(max_chars - 1, 0)]
    end = len(room) if text[len(room) : len(room) + 1].isspace() else room.rfind(" ")
    kept = room[: max(end, 0)].rstrip()
    return kept + ELLIPSIS if kept else ""


def fair_shares(needs: Sequence[int], room: int, weights: Sequence[int] | None = None) -> list[int]:
    """What each gets of the room: all that it needs, or where that is too much a share by weight.

    What one doesn't need is shared among the others. The sum is at most `room`.
    """
    weights = weights or [1] * len(needs)
    shares, hungry = [0] * len(needs), [index for index, need in enumerate(needs) if need > 0]
    while hungry:
        total = sum(weights[index] for index in hungry)
        content = [index for index in hungry if needs[index] * total <= room * weights[index]]
        if not content:
            for index in hungry:
                shares[index] = room * weights[index] // total
            break
        for index in content:
            shares[index] = needs[index]
        room -= sum(needs[index] for index in content)
        hungry = [index for index in hungry if index not in content]
    return shares


def pack_sections(layer: str, heading: str, sections: Sequence[Section], budget_chars: int) -> Packed:
    """A heading, then a line per section, within the budget. Sections that come last are left out first.

    Each section that is there shows at least one entry whole, and says how many more there are.
    """
    given = [section for section in sections if section.entries]
    chosen, least = _first_that_fit(given, checked_budget(budget_chars) - len(heading))
    counts = _counts(chosen, least, budget_chars - len(heading) - len(chosen))
    shown = list(zip(chosen, counts, strict=True))
    cut = whole_words("; ".join(_left_out(shown, given)), CUT_CHARS)
    lines = [_line(section, count) for section, count in shown]
    text = "\n".join([heading, *lines]) if lines else ""
    return Packed(layer=layer, text=text, budget_chars=budget_chars, truncated=bool(cut), cut=cut)


def _first_that_fit(sections: Sequence[Section], room: int) -> tuple[list[Section], list[int]]:
    """The sections that can show at least one entry each, those that come first before all others.

    And with how many characters: those of one entry, or of all that fit for a greedy one.
    """
    chosen, least = [], []
    for section in sections:
        few = len(_line(section, 1))
        if few + 1 <= room:
            if section.greedy:
                few = len(_line(section, _fitting(section, room - 1)))
            chosen.append(section)
            least.append(few)
            room -= few + 1
    return chosen, least


def _counts(sections: Sequence[Section], least: Sequence[int], room: int) -> list[int]:
    """How many entries each section shows, where all together have so much room."""
    wishes = [len(_line(section, len(section.entries))) - few for section, few in zip(sections, least, strict=True)]
    spare = fair_shares(wishes, room - sum(least), [section.weight for section in sections])
    return [_fitting(section, few + more) for section, few, more in zip(sections, least, spare, strict=True)]


def _left_out(shown: Sequence[tuple[Section, int]], given: Sequence[Section]) -> Iterator[str]:
    for section, count in shown:
        if count < len(section.entries):
            yield f"{count} of {len(section.entries)} in {_name(section)}"
    there = {id(section) for section, _ in shown}
    dropped = [section for section in given if id(section) not in there]
    if dropped:
        yield f"without {', '.join(map(_name, dropped))}"


def _name(section: Section) -> str:
    return section.name or section.title.strip(" -:") or "a line"


def _fitting(section: Section, max_chars: int) -> int:
    """How many entries fit, at least one."""
    count = 1
    while count < len(section.entries) and len(_line(section, count + 1)) <= max_chars:
        count += 1
    # The word on what is left out goes with the last entry, so all may fit where one less doesn't.
    return len(section.entries) if len(_line(section, len(section.entries))) <= max_chars else count


def _line(section: Section, count: int) -> str:
    more = len(section.entries) - count
    tail = f" {ELLIPSIS} +{more:,}" if more else ""
    return section.title + section.separator.join(section.entries[:count]) + tail
