"""What is kept beside the log and may be deleted at any time: the id index of closed segments, and the writer's hint.

Both say for which file they were made, and carry a checksum: what doesn't fit is not believed.
"""

from __future__ import annotations

import mmap
import os
import struct
import uuid
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec

from rbank_es.errors import LogCorruption
from rbank_es.log.file import lines
from rbank_es.log.file.reader import opened
from rbank_es.log.file.segments import Segment, blocks

FOLDER = "derived"
LOCK = "derived.lock"
_HEADER = struct.Struct("<8sQQQI")
_MAGIC = b"rbankid1"
_RECORD = 24


class Hint(msgspec.Struct, frozen=True):
    """Where the last writer stopped: it saves the next one of this boot from checking the whole active segment."""

    segment: str
    inode: int
    offset: int
    seq: int
    at: str
    durable: int
    digest: str
    crc: str
    boot: str


def read_hint(folder: Path, boot: str) -> Hint | None:
    """The hint, if there is one that was written since the machine started."""
    with suppress(OSError, msgspec.DecodeError):
        body, _, checksum = (folder / "hint").read_bytes().rpartition(b"\n")
        hint = msgspec.json.decode(body, type=Hint)
        if checksum == b"%08x" % crc32(body) and hint.boot == boot and boot:
            return hint
    return None


def write_hint(folder: Path, hint: Hint) -> None:
    """Leave a hint for the next writer; a place that can't be written is left without one."""
    with suppress(OSError):
        body = msgspec.json.encode(hint)
        scratch = folder / f"hint.{os.getpid()}.tmp"
        scratch.write_bytes(body + b"\n%08x" % crc32(body))
        scratch.replace(folder / "hint")


class IdIndex:
    """Positions of the events of one closed segment, by id: sorted records, searched in place."""

    def __init__(self, data: bytes | mmap.mmap, count: int) -> None:
        self._data, self._count = data, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> bytes:
        start = _HEADER.size + index * _RECORD
        return self._data[start : start + 16]

    def find(self, event_id: str) -> int | None:
        """Position of the event with this id, if it is in the segment."""
        try:
            key = uuid.UUID(event_id).bytes
        except ValueError:
            return None
        index = bisect_left(self, key)
        if index == self._count or self[index] != key:
            return None
        start = _HEADER.size + index * _RECORD + 16
        return int.from_bytes(self._data[start : start + 8], "big")


def id_index(folder: Path, segment: Segment, seed: int) -> IdIndex:
    """The id index of a closed segment, from disk if a sound one is there, else made anew (and kept if possible).

    Raises `LogCorruption` if it must be made and a line is damaged.
    """
    path = folder / f"{segment.first:020d}.ids"
    status = segment.path.stat()
    with suppress(OSError, ValueError, struct.error), opened(path) as fd:
        data = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        magic, inode, size, count, checksum = _HEADER.unpack_from(data)
        if (magic, inode, size) == (_MAGIC, status.st_ino, status.st_size) and crc32(data[_HEADER.size :]) == checksum:
            return IdIndex(data, count)
    records = b"".join(sorted(_records(segment, seed)))
    header = _HEADER.pack(_MAGIC, status.st_ino, status.st_size, len(records) // _RECORD, crc32(records))
    with suppress(OSError):
        scratch = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        scratch.write_bytes(header + records)
        scratch.replace(path)
    return IdIndex(header + records, len(records) // _RECORD)


def _records(segment: Segment, seed: int) -> Iterator[bytes]:
    with opened(segment.path) as fd:
        for base, complete in blocks(fd, 0):
            if not all(lines.is_intact(line, seed) for line in complete[1 if base == 0 else 0 :]):
                raise LogCorruption(segment.name, 0, base, "a line behind this byte is damaged, so its id is not known")
            for event_id, seq in map(id_and_seq, complete):
                if event_id:
                    yield uuid.UUID(event_id).bytes + seq.to_bytes(8, "big")


def id_and_seq(line: bytes) -> tuple[str, int]:
    """Id and position of a numbered line; an empty id for any other line."""
    if line.startswith((lines.ANY_TEXT, lines.SEGMENT)):
        return "", 0
    start = line.find(b'"id":"') + 6
    return line[start : start + 36].decode(), lines.seq_of(line)
