"""`verify`, and the exit codes of a log that is damaged or from the future."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.kilns import vouch
from tests.cli_runner import fails


def test_corruption_is_exit_code_3_and_says_where(place: Path) -> None:
    """A changed byte is found by `verify` and by whatever reads it; the message names segment, line and byte."""
    vouch(place)
    segment = next((place / "logs" / "notes").glob("*.jsonl"))
    damaged = segment.read_bytes().replace(b"three kilns", b"seven kilns")
    segment.write_bytes(damaged)
    for arguments in (("verify", "notes"), ("log", "notes"), ("replay", "notes")):
        assert re.search(r"segment \d{20}\.jsonl, line 9, byte", fails(*arguments, cwd=place, code=3))
