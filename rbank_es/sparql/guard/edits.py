"""Changes to a query's text, each at its place, so that a place in the new text can be told in the old one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Edit(NamedTuple):
    """`text` instead of what stood from `start` to `end`."""

    start: int
    end: int
    text: str


def rewritten(text: str, edits: Sequence[Edit]) -> str:
    """A text with its edits made: what is put in before what is replaced there; of two that overlap the first."""
    return "".join(_pieces(text, edits))


def _ordered(edits: Sequence[Edit]) -> list[Edit]:
    """Edits by their places, those at one and the same place in the order given, without what others have replaced."""
    ordered: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: edit[:2]):
        if not ordered or edit.start >= ordered[-1].end:
            ordered.append(edit)
    return ordered


def _pieces(text: str, edits: Sequence[Edit]) -> Iterator[str]:
    """What stays and what is new, in turns."""
    done = 0
    for edit in _ordered(edits):
        yield text[done : edit.start]
        yield edit.text
        done = edit.end
    yield text[done:]


def original_offset(edits: Sequence[Edit], offset: int) -> int:
    """The place in the old text of a place in the new one; within something new, where that was put."""
    grown = 0
    for edit in _ordered(edits):
        begins = edit.start + grown
        if offset < begins:
            break
        if offset < begins + len(edit.text):
            return edit.start
        grown += len(edit.text) - (edit.end - edit.start)
    return offset - grown
