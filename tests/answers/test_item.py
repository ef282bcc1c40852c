"""The question `item`: an item rests on what the fold says, at any point; a file of read models tells the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.law import State
from rbank_es.law.validity import witnesses_of
from tests.cli.misled import HEIGHT, misled_bank
from tests.cli_runner import SAMPLE, run


def carrying(state: State, item: str) -> set[tuple[str, int]]:
    """The candidates in an item's own words on which it stands, by the fold."""
    found = set()
    for pair in state.records[item].pairs:
        known = state.pairs[pair]
        landed = known.targets[0] if known.action == "skip" and known.targets else known.item
        if witnesses_of(pair, state) and known.action != "discard" and landed == item:
            found.add(pair)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("point", [200, 333, 450, None])
def test_what_an_item_rests_on_is_what_the_fold_says(point: int | None) -> None:
    with Bank.open(SAMPLE) as bank, bank.at(point) as then:
        state = bank.state(point)
        for id in state.items:
            found = then.item(id, history=False)
            assert {(each.extraction, each.place) for each in found.grounds if each.carries} == carrying(state, id)
            for each in found.grounds:
                known = state.extractions[each.extraction]
                assert (each.stands, each.seq, each.kind) == (known.stands, known.seq, known.kind)
                assert {run.run: run.relied_verdict for run in each.runs if run.relied_verdict} == dict(known.relied)
            assert (found.ends is None) == (found.item.state not in ("active", "pending"))


def test_without_its_history_it_is_the_same_but_for_that() -> None:
    with Bank.open(SAMPLE) as bank:
        for row in bank.items(where="uses>0").rows:
            whole, quick = (bank.item(row.id, history=history) for history in (True, False))
            assert whole.events_total and quick.events is None
            assert (whole.acts, whole.links, whole.near) == (quick.acts, quick.links, quick.near)


def test_an_item_says_by_what_it_is_taken_back(tmp_path: Path) -> None:
    """The command and the call that it names do it; of what has ended there is nothing to take back."""
    misled_bank(tmp_path / "bank").close()
    shown = run("show", "./bank", HEIGHT.id, cwd=tmp_path).out
    with Bank.open(tmp_path / "bank") as bank:
        found = bank.item(HEIGHT.id)
        assert found.command == f"rbank-es reject bank {HEIGHT.id} --because WHY"
        assert found.call == f"bank.reject({HEIGHT.id!r}, because='WHY')" and found.call in " ".join(shown.split())
        made = bank.reject(HEIGHT.id, because="WHY", dry_run=True)
        eval(found.call, {"bank": bank})  # the sentence that people copy
        ended = bank.item(HEIGHT.id)
        assert (ended.item.state, ended.command, ended.call) == ("rejected", None, None)
        assert {each.id for each in made.items} >= {HEIGHT.id}
