"""Candidates: parsed from a model's answer, held in an `Extraction`, put into the bank with a decision about each.

A model's answer may be any text. Whatever it is, parsing raises nothing: it returns items within every limit, and the
flaw of each entry without an item.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.events import Decision, Event, MemoriesConsolidated, MemoriesExtracted, Reliance
from rbank_es.events.hidden_characters import without_hidden
from rbank_es.events.items import Item, Source
from rbank_es.events.memory_events import ExtractionKind
from rbank_es.law import BIRTHS, ConsolidationPolicy
from rbank_es.law.decisions import append_decided
from rbank_es.models.replies import DISOWNED, RETRACTION, ModelReply, ReplyReading
from rbank_es.models.reply_syntax import ReplySection, Span, label, means_nothing
from rbank_es.system.text_cuts import cut_words

Flaw = Literal["not_an_object", "no_title", "no_content", "repeated", "too_many"]
"""Why an entry gives no item. `repeated`: an earlier entry has its title or its words."""

NAMES = {"title": ("title", "name"), "desc": ("description", "desc", "summary"), "content": ("content", "text", "body")}
"""Keys under which a model may have put each part of an item; the first is the one that it was asked for."""

_FENCE = re.compile(r"(`{3,}|~{3,})[^`\n]*\Z")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s)")
# Models number and decorate titles, although the prompt asks for the title alone.
_PREFIX = re.compile(r"\A(?:#{1,6}\s+|[-*]\s+|(?:title|memory item)\s*\d*\s*:\s*)+", re.IGNORECASE)


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates, or the reason why there are none.

    `code` is the code that the reason begins with, empty if there is nothing to report. `runs` are the ids of the
    source runs, `relied` the verdicts on them that it relied on, `extractor` the extractor's name and version, `calls`
    the ids of the recorded calls of the model, `tries` the number of its answers that were parsed. `pending`: its items
    wait until somebody admits or confirms them.
    """

    kind: ExtractionKind
    items: tuple[Item, ...] = ()
    code: str = ""
    reason: str = ""
    runs: tuple[str, ...] = ()
    relied: tuple[Reliance, ...] = ()
    pending: bool = False
    extractor: str | None = None
    calls: tuple[str, ...] = ()
    tries: int = 0

    def without(self, code: str, words: str, tries: int = 0) -> Extraction:
        """Return the extraction without items, for a reason."""
        return msgspec.structs.replace(self, items=(), code=code, reason=_reason(code, words), tries=tries)

    def holding(self, items: tuple[Item, ...], kind: ExtractionKind, left_out: str = "", tries: int = 0) -> Extraction:
        """Return the extraction with items of a kind; `left_out` describes the entries without an item."""
        code, reason = ("left_out", _reason("left_out", left_out)) if left_out else ("", "")
        return msgspec.structs.replace(self, kind=kind, items=items, code=code, reason=reason, tries=tries)

    def event(self, id: str = "") -> MemoriesExtracted:
        """Return the event that records the extraction. With an id, appending it again is idempotent."""
        return MemoriesExtracted(
            id=id,
            kind=self.kind,
            runs=self.runs,
            relied=self.relied,
            pending=self.pending,
            extractor=self.extractor,
            calls=self.calls,
            heads=tuple(item.head for item in self.items),
            candidates=tuple(item.text for item in self.items),
            reason=self.reason,
        )


def _reason(code: str, words: str) -> str:
    return f"{code}: {one_line(words)}"[: limits.ERROR_CHARS]


# ---------------------------------------------------------------- consolidation


class Consolidated(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of consolidating: the ids of the extractions, and the decisions about their candidates, in order.

    `first` and `last` are positions. `duplicate` is True if the bank had the extractions already, and decided nothing.
    """

    extractions: tuple[str, ...]
    decisions: tuple[Decision, ...]
    first: int
    last: int
    duplicate: bool = False

    @property
    def added(self) -> tuple[str, ...]:
        """Ids of the items that became active, or pending where the admission policy holds them back."""
        return tuple(decision.item for decision in self.decisions if decision.action in BIRTHS)


def consolidate(
    bank: Bank,
    extractions: Iterable[Extraction | MemoriesExtracted | Item],
    *,
    before: Sequence[Event] = (),
    by: ConsolidationPolicy | None = None,
) -> Consolidated:
    """Append extractions to a bank with a decision about every candidate, as one atomic group.

    The admission policy in force makes extractions pending; the consolidation policy decides, in the state at the
    position that is appended to; after a conflict with another writer it decides again. Extractions without candidates
    are recorded with their reason. An event whose id the bank has is not decided again.

    Args:
        extractions: at least one, in the order of decision. Bare items become one extraction by hand.
        before: events to append before them in the same group, such as the judgment that they rely on.
        by: the policy that decides in the place of the one in force. What it decided is never decided again by
            another one: a later correction keeps it, as far as its targets exist.

    Raises `BadPolicy`, `DuplicateEvent`, `PositionConflict` (after `limits.CONSOLIDATION_TRIES` conflicts), and the
    errors of `Bank.append`; nothing is appended then.
    """
    appended = append_decided(bank.log, bank.latest, [*before, *_events(extractions)], by)
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


# ---------------------------------------------------------------- a model's answer


class ParsedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of an answer, None if it has no list, and the reason beside them.

    `cut`: the list was never closed, and these are the entries before its end. `problem` says in words for the model
    why there is no list.
    """

    entries: list[Any] | None = None
    reason: str = ""
    cut: bool = False
    problem: str = ""


_CUT = "it was cut off before its end: be shorter"


def read_answer(reply: ModelReply | str, entries: str, reason: str) -> ParsedAnswer:
    """Return the one list that a reply gives as its own; none if it gives none, or two that differ.

    The list stands in the section or under the name `entries`, or alone; `reason` is the name of the reason beside it.
    Of a list that was never closed, the entries before its end are whole; half an entry is none. Malformed JSON that
    is closed is repaired up to `limits.LM_REPAIRED_CHARS`.
    """
    read = ReplyReading(reply, {entries, reason}, {reason})
    sections = [each for each in read.sections if each.name == entries and read.standing(each.span) == "own"]
    scopes = [each.span for each in sections] if read.sections else [Span(0, len(read.text))]
    found = [each for scope in scopes for each in _lists(read, scope, entries)]
    why = one_line(
        next((each.value for each in read.sections if each.name == reason), "")
        or _named(read, reason)
        or ("" if read.sections else _labelled(read.text, reason))
    )
    several = any(each[:2] != found[0][:2] for each in found)
    cut = any(scope.start <= at < scope.end for scope in scopes for at, _ in read.open) or read.unclosed
    if not found and why and read.whole and any(_is_left_empty(each) for each in sections):
        return ParsedAnswer(entries=[], reason=why)
    if not found or several or read.exhausted:
        half = read.unclosed or (cut and not found) or read.reply.cut
        problem = "it gives several lists: give one" if several else _CUT if half else ""
        return ParsedAnswer(reason=why, cut=cut, problem=problem)
    listed, closed, end = found[-1]
    # What was begun behind a whole list may have been meant to replace it.
    if closed and cut:
        return ParsedAnswer(reason=why, cut=True, problem=_CUT)
    behind = read.outside(end)
    if listed and (RETRACTION.search(behind) or DISOWNED.search(behind)):
        return ParsedAnswer(reason=why, problem="it takes its list back")
    return ParsedAnswer(entries=listed, reason=why, cut=not closed)


def _is_left_empty(section: ReplySection) -> bool:
    """Return whether a model wrote nothing below a header, or a word for it: with a reason, an empty list."""
    return section.closed and means_nothing(section.value)


def _named(read: ReplyReading, name: str) -> str:
    found = (value.parsed.get(name) for value in read.values if isinstance(value.parsed, dict))
    return next((each for each in found if isinstance(each, str)), "")


def _labelled(text: str, name: str) -> str:
    """Return what stands behind the last line that begins with a name; empty without one."""
    marks = [
        mark for mark in label((name,)).finditer(text) if mark["colon"] or mark["open"].strip() or not mark["rest"]
    ]
    return _without_tag(text[marks[-1].start("rest") :]) if marks else ""


def _lists(read: ReplyReading, scope: Span, name: str) -> Iterator[tuple[list[Any], bool, int]]:
    """Yield the lists of entries in a span, each with whether it was closed, and its end; objects in a row are one."""
    row: list[Any] = []
    row_ends = scope.start
    inside = [each for each in read.values if scope.start <= each.span.start < scope.end]
    for value in inside:
        if read.standing(value.span) != "own":
            continue
        parsed = value.parsed
        if any(map(_is_echo, parsed if isinstance(parsed, list) else [parsed])):
            continue
        if isinstance(parsed, dict) and _is_entry(parsed) and not isinstance(parsed.get(name), list):
            if row and not _BETWEEN.fullmatch(read.text[row_ends : value.span.start]):
                yield row, _closes(read, scope), row_ends
                row = []
            row.append(parsed)
            row_ends = value.span.end
            continue
        listed = _as_list(parsed, name)
        alone = read.is_all_of(value.span, scope)
        if listed is not None and (
            alone
            or _are_entries(listed)
            or isinstance(parsed, dict)
            and name in parsed
            or _is_empty(read, value.span, name)
        ):
            yield listed, True, value.span.end
    if row:
        yield row, _closes(read, scope), row_ends


def _is_empty(read: ReplyReading, span: Span, name: str) -> bool:
    """Return whether a part is an empty list that has its line to itself, but for its name, whatever words follow."""
    line = read.text[read.text.rfind("\n", 0, span.start) + 1 :].split("\n", 1)[0].strip()
    mark = label((name,)).fullmatch(line)
    return _without_tag(mark["rest"] if mark is not None else line) == "[]"


def _without_tag(text: str) -> str:
    return re.sub(r"</\w+>\s*\Z", "", text).strip()


_BETWEEN = re.compile(r"[\s,;]*(?:```\w*[\s,;]*){0,2}(?:[-*]|\d{1,2}[.)])?\s*")


def _closes(read: ReplyReading, scope: Span) -> bool:
    return not any(scope.start <= at < scope.end for at, _ in read.open)


_KEYS = frozenset(name for names in NAMES.values() for name in names) | {"candidate"}
_ECHOED = frozenset({"string", "str", "text", "title", "description", "content", "...", "…", ""})


def _is_entry(value: Any) -> bool:
    """Return whether a value may be meant as an entry: an object with such names."""
    return isinstance(value, dict) and bool({str(name).strip().lower() for name in value} & _KEYS)


def _is_echo(value: Any) -> bool:
    """Return whether a value repeats the schema of entries, or its placeholders."""
    if not isinstance(value, dict):
        return False
    if {"properties", "$defs", "$ref"} & value.keys() or value.get("type") in ("object", "array", "string"):
        return True
    said = [str(each).strip().strip("<>{}").lower() for name, each in value.items() if str(name).lower() in _KEYS]
    return bool(said) and any(said) and all(each in _ECHOED for each in said)


def _are_entries(listed: list[Any]) -> bool:
    return any(map(_is_entry, listed)) and all(isinstance(each, dict) for each in listed)


def _as_list(value: Any, name: str) -> list[Any] | None:
    """Return a list that is one, the list of this name in an object, or the only list inside an object."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    if len(value) == 1 and isinstance(inner := next(iter(value.values())), dict):
        return _as_list(inner, name)
    named = value.get(name)
    lists = [part for part in value.values() if isinstance(part, list)]
    return named if isinstance(named, list) else lists[0] if len(lists) == 1 and _are_entries(lists[0]) else None


# ---------------------------------------------------------------- items


class Usable(msgspec.Struct, frozen=True, kw_only=True):
    """The items of an answer, and the flaws of the entries without an item, in order."""

    items: tuple[Item, ...] = ()
    flaws: tuple[Flaw, ...] = ()


def usable(
    entries: Sequence[Any],
    src: Source,
    *,
    domain: str | None = None,
    tags: Sequence[str] = (),
    most: int = limits.EXTRACTION_ITEMS,
) -> Usable:
    """Return the first `most` items of a model's entries, with this source, domain and tags."""
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
    """Return the text of an entry under any of the keys of a part, in any case; a list of texts as lines."""
    lowered = {str(key).strip().lower(): value for key, value in entry.items() if value}
    value = next((lowered[key] for key in NAMES[name] if key in lowered), "")
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n".join(value)
    return value if isinstance(value, str) else ""


def says_something(text: str) -> bool:
    """Return whether a text has a letter or a digit."""
    return any(char.isalnum() for char in text)


def clean_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct tags within `ITEM_TAG_CHARS`, in order, at most `ITEM_TAGS`."""
    clean = dict.fromkeys(map(one_line, tags))
    return tuple(tag for tag in clean if 0 < len(tag) <= limits.ITEM_TAG_CHARS)[: limits.ITEM_TAGS]


# ---------------------------------------------------------------- text


def one_line(text: str) -> str:
    """Return a text as one line, without a code fence around it and without invisible characters."""
    return " ".join(_visible(unfenced(text)).split())


def many_lines(text: str) -> str:
    """Return a text without a code fence around it, invisible characters, and repeated blank lines."""
    lines = [_visible(line).rstrip() for line in unfenced(text).splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def unfenced(text: str) -> str:
    """Return a text without the code fence around all of it, if there is one."""
    lines = text.strip().splitlines()
    opening = _FENCE.match(lines[0].strip()) if len(lines) > 1 else None
    return "\n".join(lines[1:-1]) if opening and lines[-1].strip() == opening.group(1) else text


def _visible(text: str) -> str:
    # Compose letters and their marks (NFC), because near duplicates are found by comparing characters.
    spaced = unicodedata.normalize("NFC", text).replace("\t", " ").replace("\n", " ").replace("\r", " ")
    if spaced.isprintable():
        return spaced
    kept = (" " if char.isspace() else char for char in without_hidden(spaced))
    return unicodedata.normalize("NFC", "".join(kept))


def shortened(text: str, most: int) -> str:
    """Return a text truncated to `most` characters: after a sentence or line, else after a word, with `…`."""
    if len(text) <= most:
        return text
    ends = [mark.end() for mark in _SENTENCE_END.finditer(text[: most + 1])] + [text.rfind("\n", 0, most)]
    if max(ends) >= most // 2:
        return text[: max(ends)].rstrip()
    return cut_words(text, most)
