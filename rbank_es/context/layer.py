"""Fitting text into a budget of characters: whole items, whole sentences, and a word on what was left out.

Budgets count every character that reaches the prompt, titles and markup included. What doesn't fit is dropped whole;
nothing is ever squeezed in half, except one long text that is quoted, which ends in `…` then. A budget that is too
small for anything useful gives an empty text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import BadContextFile, BadInput

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

    A section first gets room for its `fewest` entries (all, for None), before those that follow get any; what is
    left then is shared by `weight`. `name` is what it is called where something is left out (default: the title).
    `notes`, where given, is a note for each entry; entries with the same note stand together, before it.
    """

    title: str
    entries: Sequence[str]
    separator: str = ", "
    weight: int = 1
    fewest: int | None = 1
    name: str = ""
    notes: Sequence[str] = ()


def checked_budget(budget_chars: int) -> int:
    """The budget. Raises `BadInput` for what is no whole number, or below 0."""
    if type(budget_chars) is not int or budget_chars < 0:
        raise BadInput(f"a budget of {budget_chars!r} characters can't be kept; give a whole number, 0 or more")
    return budget_chars


def plain(text: str) -> str:
    """A text as one line without control or other invisible characters: it can't begin a line, a heading or a list."""
    if not text.isprintable():
        kept = (char for char in text if char.isspace() or char in _JOINERS or unicodedata.category(char)[0] != "C")
        text = "".join(kept)
    return " ".join(text.split())


def short_count(number: int) -> str:
    """A number as it is up to 99,999, then with three digits: `441M`."""
    if number < 100_000:
        return f"{number:,}"
    for size, letter in ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            whole = number / size
            return f"{whole:,.0f}{letter}" if whole >= 100 else f"{whole:.3g}{letter}"
    raise AssertionError(number)


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
    chosen, counts = _share_out(given, checked_budget(budget_chars) - len(heading))
    shown = list(zip(chosen, counts, strict=True))
    cut = whole_words("; ".join(_left_out(shown, given)), CUT_CHARS)
    lines = [_line(section, count) for section, count in shown]
    text = "\n".join([heading, *lines]) if lines else ""
    return Packed(layer=layer, text=text, budget_chars=budget_chars, truncated=bool(cut), cut=cut)


def _share_out(sections: Sequence[Section], room: int) -> tuple[list[Section], list[int]]:
    """The sections that can show an entry, those that come first before all others; and how many each shows."""
    chosen: list[Section] = []
    counts: list[int] = []
    for section in sections:
        fewest = len(section.entries) if section.fewest is None else section.fewest
        count = _fitting(section, 0, room - 1, fewest)
        if count:
            chosen.append(section)
            counts.append(count)
            room -= len(_line(section, count)) + 1
    sizes = [len(_line(section, count)) for section, count in zip(chosen, counts, strict=True)]
    wishes = [len(_line(section, len(section.entries))) - size for section, size in zip(chosen, sizes, strict=True)]
    shares = fair_shares(wishes, room, [section.weight for section in chosen])
    for index, section in enumerate(chosen):
        counts[index] = _fitting(section, counts[index], sizes[index] + shares[index])
        room -= len(_line(section, counts[index])) - sizes[index]
    # Entries are whole, so every share leaves a little; it goes to the heaviest.
    for index, section in sorted(enumerate(chosen), key=lambda pair: -pair[1].weight):
        size = len(_line(section, counts[index]))
        counts[index] = _fitting(section, counts[index], size + room)
        room -= len(_line(section, counts[index])) - size
    return chosen, counts


def _left_out(shown: Sequence[tuple[Section, int]], given: Sequence[Section]) -> Iterator[str]:
    for section, count in shown:
        if count < len(section.entries):
            yield f"{len(section.entries) - count} of {len(section.entries)} in {_name(section)}"
    there = {id(section) for section, _ in shown}
    dropped = [section for section in given if id(section) not in there]
    if dropped:
        yield f"without {', '.join(map(_name, dropped))}"


def _name(section: Section) -> str:
    return section.name or section.title.strip(" -:") or "a line"


def _fitting(section: Section, count: int, max_chars: int, most: int | None = None) -> int:
    """How many entries fit, at least `count` and at most `most`."""
    total = len(section.entries)
    most = total if most is None else min(most, total)
    while count < most and len(_line(section, count + 1)) <= max_chars:
        count += 1
    # The word on what is left out goes with the last entry, so all may fit where one less doesn't.
    return total if most == total and len(_line(section, total)) <= max_chars else count


def _line(section: Section, count: int) -> str:
    more = len(section.entries) - count
    tail = f" {ELLIPSIS} +{more:,}" if more else ""
    entries = section.entries[:count]
    return section.title + section.separator.join(_noted(entries, section.notes) if section.notes else entries) + tail


def _noted(entries: Sequence[str], notes: Sequence[str]) -> Iterator[str]:
    """The entries by note, in the order in which the notes first come: `a, b (note)`."""
    groups: dict[str, list[str]] = {}
    for entry, note in zip(entries, notes, strict=False):
        groups.setdefault(note, []).append(entry)
    return (", ".join(group) + (f" ({note})" if note else "") for note, group in groups.items())


def read_text(path: str | Path) -> str:
    """The text of a file. Raises `BadContextFile` if it is missing, too large, or not UTF-8."""
    place = Path(path)
    try:
        with place.open("rb") as file:
            content = file.read(limits.CONTEXT_FILE_BYTES + 1)
    except OSError as error:
        raise BadContextFile(str(place), f"it can't be read: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise BadContextFile(repr(str(place)), f"no file can be called that: {error}") from None
    if len(content) > limits.CONTEXT_FILE_BYTES:
        raise BadContextFile(str(place), f"it is larger than {limits.CONTEXT_FILE_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadContextFile(str(place), f"it is not UTF-8 (byte {error.start:,})") from None
