"""Items out of what a model wrote: read, cleaned, cut to their limits, or left out with the reason. Never an error.

A model's answer is anybody's text. Whatever it is, what comes of it are items that keep every limit, and a code for
each entry that no item came of.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from rbank_es import limits
from rbank_es.bank.decisions import HasLog, Latest, append_decided
from rbank_es.events import Decision, Event, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.items import Item, Source
from rbank_es.extraction.extractors import Extraction
from rbank_es.state import BIRTHS

Flaw = Literal["not_an_object", "no_title", "no_content", "repeated", "too_many"]
"""Why no item came of an entry: it is no object; it has no title, or no content; it says what one before it said; there
were enough already."""

NAMES = {
    "title": ("title", "name"),
    "desc": ("description", "desc", "summary"),
    "content": ("content", "text", "body"),
}
"""Under which keys a model may have put what an item is made of; the first is what it was asked for."""

_JOINERS = "\u200c\u200d"
_FENCE = re.compile(r"(`{3,}|~{3,})[^`\n]*\Z")
_HEADER = re.compile(r"^[ \t]*\[\[ ## (\w+) ## \]\]", re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s)")
_PREFIX = re.compile(r"\A(?:#{1,6}\s+|[-*]\s+|(?:title|memory item)\s*\d*\s*:\s*)+", re.IGNORECASE)


class Usable(msgspec.Struct, frozen=True, kw_only=True):
    """The items that came of an answer, and the flaws of the entries that none came of, in order."""

    items: tuple[Item, ...] = ()
    flaws: tuple[Flaw, ...] = ()


class ParsedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it was read: its entries, or None where there is no list to be found; and the words beside them."""

    entries: list[Any] | None = None
    reason: str = ""


# ---------------------------------------------------------------- reading


def read_answer(text: str, entries: str, reason: str) -> ParsedAnswer:
    """An answer's list, and the words beside it: the fields named so, as dspy's chat adapter marks them.

    An answer without these marks is read as the list itself. Malformed JSON is mended up to
    `limits.LM_MENDED_CHARS`.
    """
    fields = dict(_sections(text))
    found = _list(fields.get(entries, "" if fields else text))
    return ParsedAnswer(entries=found, reason=one_line(fields.get(reason, "")))


def _sections(text: str) -> Iterator[tuple[str, str]]:
    end = len(text)
    # From the last to the first: of a field that is there twice, the first counts, and `dict` keeps what comes last.
    for mark in reversed(list(_HEADER.finditer(text))):
        yield mark.group(1), text[mark.end() : end]
        end = mark.start()


def _list(text: str) -> list[Any] | None:
    bare = unfenced(text).strip()
    for candidate in dict.fromkeys((bare, _between(bare, "[", "]"), _between(bare, "{", "}"))):
        found = _as_list(_decoded(candidate))
        if found is not None:
            return found
    return _as_list(_mended(bare)) or None  # what is mended to an empty list was none


def _between(text: str, opening: str, closing: str) -> str:
    start, end = text.find(opening), text.rfind(closing)
    return text[start : end + 1] if 0 <= start < end else ""


def _decoded(text: str) -> Any:
    try:
        return json.loads(text, strict=False) if text else None
    except (ValueError, RecursionError):
        return None


def _mended(text: str) -> Any:
    if not 0 < len(text) <= limits.LM_MENDED_CHARS or not {"[", "{"} & set(text):
        return None
    from rbank_es.models.serialization import load_dspy

    load_dspy()
    from dspy.adapters.utils import parse_value

    try:
        return parse_value(text, list[Any])
    except Exception:  # whatever mending raises, the text is no list
        return None


def _as_list(value: Any) -> list[Any] | None:
    """A list, or the list that an object holds, or an object that is the one entry."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    if any(name in value for name in NAMES["title"]):
        return [value]
    lists = [part for part in value.values() if isinstance(part, list)]
    return lists[0] if len(lists) == 1 else None


# ---------------------------------------------------------------- items


def usable(
    entries: Sequence[Any],
    src: Source,
    *,
    domain: str | None = None,
    tags: Sequence[str] = (),
    most: int = limits.EXTRACTION_ITEMS,
) -> Usable:
    """The first `most` items that come of a model's entries, with source, domain and tags as given."""
    items: dict[str, Item] = {}
    titles: set[str] = set()
    flaws: list[Flaw] = []
    for entry in entries:
        made = _item(entry, src, domain, clean_tags(tags))
        if not isinstance(made, Item):
            flaws.append(made)
        elif made.id in items or made.title.lower() in titles:
            flaws.append("repeated")
        elif len(items) >= most:
            flaws.append("too_many")
        else:
            items[made.id] = made
            titles.add(made.title.lower())
    return Usable(items=tuple(items.values()), flaws=tuple(flaws))


def _item(entry: Any, src: Source, domain: str | None, tags: tuple[str, ...]) -> Item | Flaw:
    if not isinstance(entry, Mapping):
        return "not_an_object"
    title = shortened(_PREFIX.sub("", one_line(_given(entry, "title"))), limits.ITEM_TITLE_CHARS)
    content = shortened(many_lines(_given(entry, "content")), limits.ITEM_CONTENT_CHARS)
    desc = shortened(one_line(_given(entry, "desc")), limits.ITEM_DESC_CHARS)
    if not says_something(title):
        return "no_title"
    if not says_something(content):
        return "no_content"
    return Item.make(title, content, src, desc=desc, domain=domain, tags=tags)


def _given(entry: Mapping[Any, Any], name: str) -> str:
    """What an entry says under one of the names, in capitals or not; of a list of texts, its lines."""
    lowered = {str(key).strip().lower(): value for key, value in entry.items() if value}
    value = next((lowered[key] for key in NAMES[name] if key in lowered), "")
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n".join(value)
    return value if isinstance(value, str) else ""


def says_something(text: str) -> bool:
    """Whether a text holds a letter or a digit."""
    return any(char.isalnum() for char in text)


def clean_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """The distinct tags that keep their limits, in order."""
    clean = dict.fromkeys(map(one_line, tags))
    return tuple(tag for tag in clean if 0 < len(tag) <= limits.ITEM_TAG_CHARS)[: limits.ITEM_TAGS]


# ---------------------------------------------------------------- text


def one_line(text: str) -> str:
    """A text as one line, without fences around it and without characters that can't be seen."""
    return " ".join(_visible(unfenced(text)).split())


def many_lines(text: str) -> str:
    """A text with its lines, of which no two in a row are blank; without fences around it and characters that can't be
    seen.
    """
    lines = [_visible(line).rstrip() for line in unfenced(text).splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def unfenced(text: str) -> str:
    """A text without the code fence around it, if there is one around all of it."""
    lines = text.strip().splitlines()
    opening = _FENCE.match(lines[0].strip()) if len(lines) > 1 else None
    return "\n".join(lines[1:-1]) if opening and lines[-1].strip() == opening.group(1) else text


def _visible(text: str) -> str:
    # What looks the same must be the same, or no two items would be found alike: letters and their marks are composed.
    spaced = unicodedata.normalize("NFC", text).replace("\t", " ").replace("\n", " ").replace("\r", " ")
    if spaced.isprintable():
        return spaced
    kept = (" " if char.isspace() else char for char in spaced if _is_visible(char))
    return unicodedata.normalize("NFC", "".join(kept))


def _is_visible(char: str) -> bool:
    return char.isspace() or char in _JOINERS or unicodedata.category(char)[0] != "C"


def shortened(text: str, most: int) -> str:
    """The text in at most `most` characters: its whole sentences or lines, else its words, then `…`."""
    if len(text) <= most:
        return text
    ends = [mark.end() for mark in _SENTENCE_END.finditer(text[: most + 1])] + [text.rfind("\n", 0, most)]
    if max(ends) >= most // 2:
        return text[: max(ends)].rstrip()
    room = text[: most - 1]
    space = room.rfind(" ")
    return (room[:space] if space >= most // 2 else room).rstrip() + "…"


class Consolidated(msgspec.Struct, frozen=True, kw_only=True):
    """What became of extractions: their ids, and the decisions about each one's candidates.

    `decisions` stand in the order of the candidates, one extraction after the other. `first` and `last` are positions;
    `duplicate` tells that the extractions were in the bank already, and that nothing was decided anew.
    """

    extractions: tuple[str, ...]
    decisions: tuple[Decision, ...]
    first: int
    last: int
    duplicate: bool = False

    @property
    def added(self) -> tuple[str, ...]:
        """Ids of the items that came to life."""
        return tuple(decision.item for decision in self.decisions if decision.action in BIRTHS)


def consolidate(
    bank: HasLog,
    extractions: Iterable[Extraction | MemoriesExtracted | Item],
    *,
    before: Sequence[Event] = (),
    latest: Latest | None = None,
) -> Consolidated:
    """Put extractions into the bank, each with a decision about every candidate, as one atomic group.

    The policy in force decides, in the state at the very position that is appended to; where other writers were faster,
    it decides again. Items that are given as they are become one extraction by hand. Extractions without candidates are
    recorded with their reason. An event with an id that the bank has already is not decided again.

    Args:
        bank: where they go.
        extractions: in the order in which they are decided about; at least one.
        before: events that are appended before them, in the same group: the judgment that they follow, for instance.
        latest: the state of the bank, kept by a caller that consolidates often.

    Raises `BadPolicy`, `DuplicateEvent`, `PositionConflict` (other writers were faster
    `limits.CONSOLIDATION_TRIES` times), and as `Bank.append`; nothing was appended then.
    """
    appended = append_decided(bank.log, [*before, *_events(extractions)], latest)
    decided = [event for event in appended.events if isinstance(event, MemoriesConsolidated)]
    return Consolidated(
        extractions=tuple(event.id for event in appended.events if isinstance(event, MemoriesExtracted)),
        decisions=tuple(decision for event in decided for decision in event.decisions),
        first=appended.first,
        last=appended.last,
        duplicate=appended.duplicate,
    )


def _events(extractions: Iterable[Extraction | MemoriesExtracted | Item]) -> list[MemoriesExtracted]:
    given = list(extractions)
    items = tuple(each for each in given if isinstance(each, Item))
    by_hand = [Extraction(kind="manual", items=items)] if items else []
    others = [each for each in given if not isinstance(each, Item)]
    return [each.event() if isinstance(each, Extraction) else each for each in (*others, *by_hand)]
