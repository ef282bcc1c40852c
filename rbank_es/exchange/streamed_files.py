"""Files of forms that are read in pieces, because they have no bound: told by their beginning."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rbank_es.exchange.importer import Importer, Opening, Parsed, recognised
from rbank_es.exchange.json_records import first_object
from rbank_es.limits.transcript_limits import TRANSCRIPT_HEAD_BYTES, TRANSCRIPT_HEAD_LINES
from rbank_es.system.files import opened
from rbank_es.system.input_file import without_mark
from rbank_es.system.utc_times import utc_time

_TIME = re.compile(rb'"(?:timestamp|startTime)"\s*:\s*"([^"]{10,40})"')


class StreamHead(NamedTuple):
    """The beginning of a file that is read in pieces: its importer, and its first time, empty where it has none."""

    path: Path
    importer: Importer
    began: str

    @property
    def pieces(self) -> Iterator[Parsed]:
        """The file, read now."""
        assert self.importer.stream is not None
        return self.importer.stream(self.path)


def stream_head(path: Path) -> StreamHead | None:
    """Return the beginning of a file of such a form; None for any other file, and for one that can't be opened."""
    try:
        with opened(path, follow=True) as fd, os.fdopen(fd, "rb", closefd=False) as file:
            head = without_mark(file.read(TRANSCRIPT_HEAD_BYTES), str(path))
    # Whoever reads it whole says what is wrong with it.
    except (OSError, ValueError):
        return None
    importer = _importer_of(head.lstrip())
    if importer is None or importer.stream is None:
        return None
    found = _TIME.search(head)
    try:
        began = utc_time(found[1].decode("ascii")) if found else ""
    except ValueError:
        began = ""
    return StreamHead(path, importer, began)


def _importer_of(head: bytes) -> Importer | None:
    importer = recognised(Opening(head, first_object(head))) if head.startswith((b"{", b"[")) else None
    if importer is not None:
        return importer
    # The first lines may be damaged, as after a power cut.
    for line in head.split(b"\n", TRANSCRIPT_HEAD_LINES)[:TRANSCRIPT_HEAD_LINES]:
        bare = line.strip(b"\0 \t\r")
        importer = recognised(Opening(bare, first_object(bare))) if bare.startswith(b"{") else None
        if importer is not None:
            return importer if importer.stream is not None else None
    return None
