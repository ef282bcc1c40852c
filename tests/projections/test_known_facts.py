"""The domains and roles that filters may name: looked up, as of any position."""

from __future__ import annotations

from pathlib import Path

from rbank_es.events import MemoriesForgotten
from rbank_es.events.items import Item
from rbank_es.projections.read_models import ReadModels
from tests.fakes import FakeLog
from tests.projections.test_search import born
from tests.strategies import stamped


def test_domains_and_roles_are_known_from_the_first_active_item_that_has_them(tmp_path: Path) -> None:
    """And stay known after its end; a candidate that never became an item makes nothing known."""
    first = [Item.make("one", "a", domain="units", role="planner", id="one"), Item.make("two", "b", id="two")]
    second = [Item.make("three", "c", domain="coast", id="three")]
    skipped, _ = born([Item.make("four", "d", domain="secret", id="four")], "skipped")
    events = [*born(first), MemoriesForgotten(ids=("one",), policy="bounded-1"), *born(second, "later"), skipped]
    models = ReadModels.open(tmp_path / "p.sqlite")
    models.catch_up(FakeLog(stamped(events)))
    known = {
        1: ([], []),
        2: (["units"], ["planner"]),
        3: (["units"], ["planner"]),
        6: (["coast", "units"], ["planner"]),
    }
    for position, (domains, roles) in known.items():
        with models.as_of(position) as view:
            assert (view.known("domain"), view.known("role")) == (domains, roles), position
