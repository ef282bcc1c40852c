"""The durable marker of an erasure under way, from which the next writer completes one that was interrupted.

Apart from the erasure itself, which few processes carry out: every opening of a bank looks for the marker.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from rbank_es import limits
from rbank_es.errors import LimitExceeded
from rbank_es.events import ContentErased
from rbank_es.events.event import Event
from rbank_es.system.files import NotRegular, read_regular

MARKER = "ERASING"


class Job(msgspec.Struct, frozen=True):
    """The durable marker of an erasure under way: the events that record it. It holds commitments, no text."""

    records: tuple[msgspec.Raw, ...]

    @classmethod
    def of(cls, events: Iterable[Event]) -> Job:
        """Return the job that these events record."""
        return cls(tuple(msgspec.Raw(msgspec.json.encode(event)) for event in events))

    @classmethod
    def read(cls, path: Path) -> Job | None:
        """Return the job that a marker holds; None if the marker was removed, or is damaged and so not believed."""
        with suppress(FileNotFoundError, NotRegular, LimitExceeded, msgspec.MsgspecError, ValueError, RecursionError):
            job = msgspec.json.decode(read_regular(path, limits.MARKER_BYTES), type=cls)
            if job.events():
                return job
        return None

    def events(self) -> list[ContentErased]:
        """Return the events that record the erasure."""
        return [msgspec.json.decode(record, type=ContentErased) for record in self.records]
