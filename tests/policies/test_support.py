"""Ranking by support: BM25's best, moved by how many lessons came to the same; the same as of any position."""

from __future__ import annotations

from contextlib import closing
from math import log

import pytest

from rbank_es import Bank, Item
from rbank_es.extraction.candidates import consolidate
from rbank_es.law import Dedup, fold
from rbank_es.policies import Bm25V2, Filters
from rbank_es.projections.in_memory_items import ActiveItems
from tests.policies.test_utility import LAMPS, ranked, utility_bank


def by_support(weight: float, pool: int = 50) -> Bm25V2:
    """The policy that ranks by support, without a floor."""
    return Bm25V2(support=weight, pool=pool, coverage=0.0, share_of_best=0.0)


def repeated(item: Item, number: int) -> Item:
    """A near duplicate of an item, with words and an id of its own."""
    return Item.make(item.title, item.content.replace("apart", f"apart {number}"), id=f"{item.id}-{number}")


@pytest.mark.slow
def test_the_ranking_is_that_of_its_definition_at_every_point_and_in_memory() -> None:
    """BM25's score times 1 + weight * ln(support), support read off the fold of that point."""
    policy = by_support(2.0)
    with utility_bank(Dedup(content_min=(2, 3))) as bank:
        begun = bank.position
        for number in range(4):
            consolidate(bank, [repeated(LAMPS[2], number), repeated(LAMPS[4], number)][: 1 + number % 2])
        bank.retract(LAMPS[0].id, because="tidy")
        bank.restore(LAMPS[0].id, because="it was good")
        for point in range(begun, bank.position + 1):
            state = fold(bank.events(point=point, resolve=True))
            plain = ranked(bank, by_support(0.0), point)
            moved = sorted((-score * (1 + 2 * log(state.items[id].support)), id) for id, score in plain)
            assert ranked(bank, policy, point) == [(id, -score) for score, id in moved]
            with closing(ActiveItems(lambda _: (0, 0))) as index:
                index.update(state.items.items())
                found = policy.choose("lamps", 10, Filters(), index).hits
            assert [(hit.id, round(hit.score, 9)) for hit in found] == [(id, round(-s, 9)) for s, id in moved]
        assert {state.items[item.id].support for item in LAMPS} == {1, 3, 5}


def test_an_item_that_is_vouched_for_without_support_keeps_its_score() -> None:
    with Bank.create("memory:", policies=[Dedup().choice, by_support(1.0).choice]) as bank:
        consolidate(bank, LAMPS)
        plain = ranked(bank)
        bank.undo(bank.position, 0, because="wrong")
        bank.restore(LAMPS[0].id, because="right")
        assert bank.state().items[LAMPS[0].id].support == 0
        assert {id for id, _ in ranked(bank)} == {id for id, _ in plain}
