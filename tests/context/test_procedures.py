"""L2, procedures: what is chosen from the bank, how it is quoted, and that the searches can be verified."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events.items import Item
from rbank_es.policies import Bm25V2
from rbank_es.policies.quoted_items import HEADING, pack_items
from tests.context.banks import learn
from tests.context.procedures_of_bank import procedures

TASK = "Which lights had an outage, by date?"
DO = Item.make("Date outages by their beginning", "An outage of a light began at lt:from.", id="do")
DONT = Item.make("Never date outages by report", "A light's report has a later date.", "failure", id="dont")
OTHER = Item.make("Count lights by subclass", "A light that had an outage is typed with a subclass.", id="other")
FOREIGN = Item.make(
    "Outages of networks", "Outage, outage, lights, date: of another field.", id="foreign", domain="nets"
)


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    with Bank.create(tmp_path / "bank", policies=[Bm25V2().choice], unsafe_no_sync=True) as made:
        learn(made, DO, DONT, OTHER)
        yield made


@pytest.mark.parametrize(("successes", "failures"), [(limits.SEARCH_HITS + 1, 1), (-1, 1)])
def test_more_items_than_a_search_returns_are_refused(bank: Bank, successes: int, failures: int) -> None:
    with pytest.raises(BadInput, match="give 0 to 100 of each"):
        procedures(bank, TASK, successes=successes, failures=failures)


def test_an_item_without_room_for_forty_characters_is_left_out() -> None:
    """Beside the markup, and its id."""
    item = Item.make("Long words of an item that go on", "and on " * 60, id="a")
    frame = len(HEADING) + 1 + len("Strategies:") + 1 + len("- [a] ")
    assert pack_items([item], frame + 40).items == ("a",)
    assert pack_items([item], frame + 39).items == ()
