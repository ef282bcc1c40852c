"""`show` of an item: what would end it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.events.items import Item
from tests.cli.misled import judged, learned, ran
from tests.cli_runner import run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "verdicts", "ends"),
    [
        ("contrastive", ("success", "failure"), "none of a is a success any more or none of b is a failure any more"),
        ("pattern", ("success", "success"), "fewer than two of a, b are successes"),
        ("success", (), "no verdict ends it, because it was not drawn from a judged run"),
    ],
)
def test_an_end_follows_from_the_kind_of_the_extraction(kind: Any, verdicts: Any, ends: str, tmp_path: Path) -> None:
    item = Item.make("Look at one instance first", "Describe one thing before you ask for many.")
    with Bank.create(tmp_path / "logs" / "misled") as bank:
        for name, verdict in zip("ab", verdicts, strict=False):
            bank.append([*ran(name), judged(name, verdict)])
        learned(bank, item, *zip("ab", verdicts, strict=False), kind=kind)
    assert ends in run("show", "misled", item.id, "--json", cwd=tmp_path).json["ends"]
