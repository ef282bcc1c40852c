"""A retrieval that is recorded later than it was made is repeated at the position that it names."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from rbank_es import Bank, Item
from rbank_es.errors import CheckFailed
from rbank_es.events import NoteLogged
from tests.agents.hook_banks import teach

FIRST = Item.make("Round a discount half up", "Never to even.")
SECOND = Item.make("Round a discount before the sum", "Half up, each line of the invoice.")


def test_a_late_record_is_repeated_where_it_was_made_and_nowhere_else(tmp_path: Path) -> None:
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        teach(bank, FIRST)
        position = bank.position
        with bank.as_of() as view:
            made = view.retrieve("round the discount", 2).event
        teach(bank, SECOND)
        bank.append(NoteLogged(note={}))
        bank.append(replace(made, as_of=position))
        check = bank.check(retrievals=True).retrievals
        assert check is not None and (check.checked, check.different) == (1, ())
        bank.append([replace(made, as_of=None), replace(made, as_of=bank.position + 10)])
        with pytest.raises(CheckFailed, match="2 of 3 retrievals"):
            bank.check(retrievals=True)
