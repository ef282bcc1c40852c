"""The law of acknowledgement: whatever is cut or flipped at the log's end, no acknowledged event goes in silence."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.bank import READ_MODELS, Bank
from rbank_es.errors import InterruptedAppend, LogCorruption
from rbank_es.events import Event
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import event_id, note
from tests.effort import examples
from tests.laws.test_log import QUICK, create, groups_of_events, room, sizes

VOUCHERS = ("receipts", "indexes", "read models")
NEXT = event_id(10**6 + 1)


def files_of(voucher: str, folder: Path) -> Iterator[Path]:
    names = {"receipts": "receipts", "indexes": "*.ids", "read models": f"{READ_MODELS}*"}
    return folder.glob(names[voucher])


def upset(path: Path, share: float, bit: int | None) -> None:
    """Cut the file behind its first line, at a share of the rest, or flip a bit there."""
    data = bytearray(path.read_bytes())
    begin = data.index(b"\n") + 1
    # Mostly near the end, because that is where nothing in the log itself vouches.
    at = begin + int((len(data) - 1 - begin) * (1 - share**3)) if len(data) > begin else begin
    if bit is None or at >= len(data):
        os.truncate(path, at)
    else:
        data[at] ^= 1 << bit
        path.write_bytes(data)


@settings(max_examples=examples(40), deadline=None)
@given(
    groups_of_events,
    sizes,
    st.floats(0, 1, allow_nan=False),
    st.none() | st.integers(0, 7),
    st.sets(st.sampled_from(VOUCHERS)),
    st.booleans(),
)
def test_no_acknowledged_event_is_dropped_in_silence(
    groups: list[list[Event]], segment_bytes: int, share: float, bit: int | None, gone: set[str], projected: bool
) -> None:
    """The next append refuses, and changes nothing; or nothing vouched for what it cut off, and it said so."""
    with room(segment_bytes) as place:
        log = create(place, groups)
        acknowledged = {event.id: event.seq for event in log.read()}
        log.seq_of_id(NEXT)  # which makes the indexes
        with Bank(log, "bank") as bank:
            if projected:
                bank.project()
            folder = log.derived_directory
        for voucher in gone:
            for path in files_of(voucher, folder):
                path.unlink()
        vouched = "receipts" not in gone or (projected and "read models" not in gone)
        path = max(place.glob("*.jsonl"))
        upset(path, share, bit)
        before = path.read_bytes()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                with Bank(FileLog.open(place, calls=QUICK), "bank") as bank:
                    bank.append(note("next", 10**6 + 1))
                    left = {event.id: event.seq for event in bank.events()}
            except LogCorruption:
                assert path.read_bytes().startswith(before)
                return
        missing = acknowledged.items() - left.items()
        assert not (missing and vouched)
        if missing and not before.endswith(b"\n"):
            assert [warning for warning in said if warning.category is InterruptedAppend]
            assert before.endswith((place / "torn-1").read_bytes())
