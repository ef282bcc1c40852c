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
    """A text with its edits made; they must not overlap. Those at the same place are made in the order given."""
    return "".join(_pieces(text, edits))


def _pieces(text: str, edits: Sequence[Edit]) -> Iterator[str]:
    """What stays and what is new, in turns."""
    done = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        yield text[done : edit.start]
        yield edit.text
        done = edit.end
    yield text[done:]


def original_offset(edits: Sequence[Edit], offset: int) -> int:
    """The place in the old text of a place in the new one; within something new, where that was put."""
    grown = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        begins = edit.start + grown
        if offset < begins:
            break
        if offset < begins + len(edit.text):
            return edit.start
        grown += len(edit.text) - (edit.end - edit.start)
    return offset - grown
