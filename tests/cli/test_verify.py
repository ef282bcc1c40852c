"""`verify`, and the exit codes of a log that is damaged or from the future."""

from __future__ import annotations

import re
from pathlib import Path

from rbank_es.bank import Bank
from tests.cli.kilns import NOTE, vouch
from tests.cli_runner import fails, run


def test_corruption_is_exit_code_3_and_says_where(place: Path) -> None:
    """A changed byte is found by `verify` and by whatever reads it; the message names segment, line and byte."""
    vouch(place)
    segment = next((place / "logs" / "notes").glob("*.jsonl"))
    damaged = segment.read_bytes().replace(b"three kilns", b"seven kilns")
    segment.write_bytes(damaged)
    for arguments in (("verify", "notes"), ("log", "notes"), ("replay", "notes")):
        assert re.search(r"segment \d{20}\.jsonl, line 9, byte", fails(*arguments, cwd=place, code=3))


def test_a_log_from_the_future_is_exit_code_3(place: Path) -> None:
    """An event type that this release doesn't know is named, not skipped."""
    segment = next((place / "logs" / "notes").glob("*.jsonl"))
    lines = segment.read_bytes().replace(b'"note_logged"', b'"mood_logged"')
    segment.write_bytes(lines)
    run("append", "notes", cwd=place, stdin=NOTE)
    text = segment.read_bytes().replace(b'"type":"note_logged"', b'"type":"mood_logged"')
    segment.write_bytes(_resealed(text, place))
    assert "'mood_logged'" in fails("log", "notes", cwd=place, code=3)


def _resealed(data: bytes, cwd: Path) -> bytes:
    """The segment with the checksum of its last line made good, as a later release would have written it."""
    from zlib import crc32

    from rbank_es.log.lines import seed_of

    with Bank.open(cwd / "logs" / "notes") as bank:
        seed = seed_of(bank.id)
    *before, last = data.splitlines(keepends=True)
    body = last[: last.rindex(b',"crc":"')]
    return b"".join(before) + body + f',"crc":"{crc32(body, seed):08x}"}}\n'.encode()
