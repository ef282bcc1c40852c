"""`fork`, and the commands that look at forks: `diff`, `verify --parent`, `erase`, `log`."""

from __future__ import annotations

import json
from pathlib import Path

from rbank_es.bank import Bank
from rbank_es.events import NoteLogged
from tests.cli_runner import fails, run


def grow(place: Path, bank: str, *notes: str) -> None:
    with Bank.open(place / "logs" / bank) as opened:
        for each in notes:
            opened.append(NoteLogged(note=json.dumps(each)))


def test_copies_that_went_on_separately_are_compared_by_their_heads(place: Path) -> None:
    """They have the same id; where they part is found, and said."""
    grow(place, "notes", "one", "two", "three")
    with Bank.open(place / "logs" / "notes") as bank:
        bank.copy(10, into=place / "copy").close()
    with Bank.open(place / "copy") as copy:
        for number in range(3):
            copy.append(NoteLogged(note=json.dumps(number)))
    common = run("diff", "notes", "./copy", "--json", cwd=place).json["shared"]
    assert common["head"].startswith("10:") and common["claimed_seq"] == 12
    assert "must be the same up to position 12" in fails("verify", "notes", "--parent", "./copy", cwd=place, code=1)
