"""The log: append-only, typed, the only truth. Everything else in a bank can be deleted and made again from it."""

from rbank_es.log.file.file_log import FileLog
from rbank_es.log.protocol import (
    ANY,
    EMPTY,
    Appended,
    Erasing,
    Erasure,
    EventLog,
    Expected,
    Head,
    Place,
    TornTail,
    Verification,
)

__all__ = [
    "ANY",
    "EMPTY",
    "Appended",
    "Erasing",
    "Erasure",
    "EventLog",
    "Expected",
    "FileLog",
    "Head",
    "Place",
    "TornTail",
    "Verification",
]
