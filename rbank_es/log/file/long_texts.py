"""Long texts: finding the line that holds one, and putting texts in the place of their handles."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rbank_es.errors import LogCorruption
from rbank_es.events.codec import texts_of
from rbank_es.events.event import Erased, Event, Ref
from rbank_es.events.items import ItemText
from rbank_es.log.file import lines
from rbank_es.log.file.reader import opened
from rbank_es.log.file.segments import Segment, all_segments

_TEXT: msgspec.json.Decoder[lines.TextLine] = msgspec.json.Decoder(lines.TextLine)
_SEGMENTS_KEPT = 4


class _Index(NamedTuple):
    scanned: int
    offsets: dict[str, int]


class Texts:
    """Finds texts by key. Remembers where they stand in the segments looked at last."""

    def __init__(self, directory: Path, bank_id: str) -> None:
        self._directory = directory
        self._seed = lines.seed_of(bank_id)
        self._indexes: dict[tuple[str, int], _Index] = {}
        self._mutex = threading.Lock()

    def forked(self) -> None:
        """In a forked child: what a thread of the parent was doing here, it does no more."""
        self._mutex, self._indexes = threading.Lock(), {}

    def line(self, key: str, segment: Segment) -> bytes | None:
        """The line of a text in a segment, erased or not, without newline; None if it isn't there."""
        with opened(segment.path) as fd:
            status = os.fstat(fd)
            with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as whole:
                for _ in range(2):  # once more where the file was rewritten under the same inode
                    offset = self._index(segment, fd, status.st_ino, status.st_size).offsets.get(key)
                    line = b"" if offset is None else whole[offset : whole.find(b"\n", offset)]
                    if line.startswith(lines.ANY_TEXT) and lines.key_of_text(line) == key:
                        return line
                    with self._mutex:
                        self._indexes.pop((segment.name, status.st_ino), None)
        return None

    def _index(self, segment: Segment, fd: int, inode: int, size: int) -> _Index:
        with self._mutex:
            return self._indexed(segment, fd, inode, size)

    def _indexed(self, segment: Segment, fd: int, inode: int, size: int) -> _Index:
        known = self._indexes.pop((segment.name, inode), _Index(0, {}))
        if known.scanned < size:
            known = _Index(_scan(fd, known.scanned, known.offsets), known.offsets)
        self._indexes[segment.name, inode] = known
        while len(self._indexes) > _SEGMENTS_KEPT:
            self._indexes.pop(next(iter(self._indexes)))
        return known

    def holds(self, ref: Ref) -> bool:
        """Whether a handle names a text of this bank, erased or not."""
        return any(self.line(ref.key, segment) is not None for segment in all_segments(self._directory))

    def read(self, ref: Ref, segment: Segment | None = None) -> str | None:
        """The text that a handle names; None if it was erased. Raises `LogCorruption` if it isn't there or damaged."""
        places = [segment] if segment else all_segments(self._directory)[::-1]
        for place in places:
            line = self.line(ref.key, place)
            if line is not None:
                return self._decode(line, ref.key, place)
        name = segment.name if segment else "(any)"
        raise LogCorruption(name, 0, 0, f"the text {ref.key[:12]}… that an event names is missing")

    def _decode(self, line: bytes, key: str, segment: Segment) -> str | None:
        if not lines.is_intact(line, self._seed):
            raise LogCorruption(segment.name, 0, 0, f"checksum of the text {key[:12]}… is wrong")
        if line.startswith(lines.TEXT_ERASED):
            return None
        text = _TEXT.decode(line)
        if lines.text_key(text.salt, bytes(text.text)) != key:
            raise LogCorruption(segment.name, 0, 0, f"the text {key[:12]}… is not what its key says")
        return msgspec.json.decode(text.text, type=str)

    def resolved(self, event: Event, segment: Segment | None = None) -> Event:
        """The event with texts in place of its handles; a text that was erased becomes an erased mark."""
        changes: dict[str, Any] = {}
        for name in texts_of(type(event)):
            value = getattr(event, name)
            if isinstance(value, Ref):
                changes[name] = self._value(value, segment)
            elif isinstance(value, tuple) and any(isinstance(element, Ref) for element in value):
                changes[name] = tuple(self._value(element, segment) for element in value)
        return msgspec.structs.replace(event, **changes) if changes else event

    def _value(self, value: Any, segment: Segment | None) -> Any:
        if not isinstance(value, Ref):
            return value
        text = self.read(value, segment)
        if text is None:
            return Erased("0" * 64)
        return msgspec.json.decode(text, type=ItemText) if value.dtype == "item" else text


def refs_of(event: Event) -> Iterator[Ref]:
    """The handles that an event holds."""
    for name in texts_of(type(event)):
        value = getattr(event, name)
        yield from (part for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, Ref))


def _scan(fd: int, start: int, offsets: dict[str, int]) -> int:
    """Note the offset of every text line from `start` on; returns the end of the last whole line."""
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as whole:
        end = whole.rfind(b"\n") + 1
        at = whole.find(b"\n" + lines.ANY_TEXT, max(0, start - 1), end)
        while at >= 0:
            begin = at + 1
            head = whole[begin : begin + len(lines.TEXT_ERASED) + 64]
            offsets[lines.key_of_text(head)] = begin
            at = whole.find(b"\n" + lines.ANY_TEXT, begin, end)
        return end
