"""Fitting memories into an answer: descriptions are shortened first, then titles; what finds no room is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rbank_es import limits
from rbank_es.events.items import truncate
from rbank_es.tools.runtime.encoder import size

TITLE_CHARS = 20
"""A title that would get less is not shown: its hit is left out instead."""

DESC_CHARS = 16
"""A description that would get less is shown empty."""


def fit_hits(hits: Sequence[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """The first hits, as many as fit into `room` characters of JSON, with titles and descriptions cut alike."""
    for kept in range(len(hits), 0, -1):
        shown = _fitted(hits[:kept], room)
        if shown is not None:
            return shown
    return []


def _fitted(hits: Sequence[dict[str, Any]], room: int) -> list[dict[str, Any]] | None:
    longest = max(len(hit["desc"]) for hit in hits)
    chars = _most(longest, lambda chars: size(_cut_hits(hits, desc=chars)) <= room)
    if chars is not None:
        return _cut_hits(hits, desc=chars)
    longest = max(len(hit["title"]) for hit in hits)
    chars = _most(longest, lambda chars: size(_cut_hits(hits, title=chars)) <= room)
    return None if chars is None or chars < min(TITLE_CHARS, longest) else _cut_hits(hits, title=chars)


def _cut_hits(hits: Sequence[dict[str, Any]], *, desc: int = 0, title: int | None = None) -> list[dict[str, Any]]:
    return [
        {
            **hit,
            "title": hit["title"] if title is None else _cut(hit["title"], title),
            "desc": _cut(hit["desc"], desc if desc >= min(DESC_CHARS, len(hit["desc"])) else 0),
        }
        for hit in hits
    ]


def fit_items(items: Sequence[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Items in at most `room` characters of JSON: whole, or with the longest contents cut, or with all words cut.

    What was cut is marked `truncated`. An item whose id alone is too long keeps that, and nothing else.
    """
    if size(items) <= room:
        return list(items)
    items = [_with_few_tags(item) for item in items]
    bare = [{"id": item["id"], "title": item["title"], "content": item["content"], "truncated": True} for item in items]
    for shown, names in ((items, ("content",)), (items, ("content", "desc", "title")), (bare, ("content", "title"))):
        chars = _chars_of_items(shown, names, room)
        if chars is not None:
            return _cut_items(shown, names, chars)
    return [{"id": item["id"], "truncated": True} for item in items]


def _with_few_tags(item: dict[str, Any]) -> dict[str, Any]:
    kept = [tag for tag in item["tags"] if len(tag) <= limits.ITEM_TAG_CHARS][: limits.ITEM_TAGS]
    return item if kept == item["tags"] else {**item, "tags": kept, "truncated": True}


def _chars_of_items(items: Sequence[dict[str, Any]], names: Sequence[str], room: int) -> int | None:
    longest = max(len(item[name]) for item in items for name in names)
    return _most(longest, lambda chars: size(_cut_items(items, names, chars)) <= room)


def _cut_items(items: Sequence[dict[str, Any]], names: Sequence[str], chars: int) -> list[dict[str, Any]]:
    done = []
    for item in items:
        shown = {**item, **{name: _cut(item[name], chars) for name in names}}
        done.append({**shown, "truncated": True} if shown != item else item)
    return done


def quoted(text: str, max_chars: int, room: int) -> str:
    """The beginning of a text in at most `max_chars` characters, and at most `room` of JSON, cut between words."""
    chars = _most(min(max_chars, len(text)), lambda chars: size(_cut(text, chars)) <= room)
    return _cut(text, chars or 0)


def _cut(text: str, chars: int) -> str:
    return "" if chars < 1 else truncate(text, chars)


def _most(longest: int, fits: Callable[[int], bool]) -> int | None:
    """The largest number up to `longest` that fits, None where not even 0 does."""
    if not fits(0):
        return None
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
