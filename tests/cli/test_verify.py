"""`verify`, and the exit codes of a log that is damaged or from the future."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from tests.cli.kilns import NOTE, vouch
from tests.cli_runner import fails, run


@pytest.mark.slow
def test_verify_proves_noted_heads_and_recorded_retrievals(sample: Path) -> None:
    """A sound log, all noted heads, all recorded searches: exit code 0. A head that doesn't hold: 1."""
    seen = run("verify", "sample", "--retrievals", "--json", cwd=sample).json
    assert seen["ok"] and seen["retrievals"]["checked"] > 30 and not seen["retrievals"]["different"]
    assert run("verify", "sample", "--head", seen["head"], cwd=sample).out.startswith("the log of sample is sound")
    wrong = seen["head"].split(":")[0] + ":" + "0" * 64
    assert "the head noted at" in fails("verify", "sample", "--head", seen["head"], "--head", wrong, cwd=sample, code=1)
    assert "is not a head" in fails("verify", "sample", "--head", "12:xyz", cwd=sample)


@pytest.mark.slow
def test_a_retrieval_that_does_not_hold_fails_the_check(place: Path) -> None:
    """A recorded retrieval whose hits can't be found again: exit code 1."""
    hit = {"id": "elsewhere", "rank": 1, "score": 1.0}
    event = {"type": "memories_retrieved", "k": 1, "policy": "bm25-3", "query": "kilns", "hits": [hit]}
    run("append", "notes", cwd=place, stdin=json.dumps(event))
    run("verify", "notes", cwd=place)
    assert "1 of 1 retrievals" in fails("verify", "notes", "--retrievals", cwd=place, code=1)


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
