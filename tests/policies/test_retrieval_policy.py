"""A search goes by the retrieval policy in force, and a recorded one is verified by the version that ranked it."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es import Bank, Item, limits
from rbank_es.bank.retrieval_check import check_retrievals
from rbank_es.errors import BadPolicy, CheckFailed
from rbank_es.events import (
    Decision,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesRetrieved,
    NoteLogged,
    PolicyChoice,
    PolicySet,
)
from rbank_es.extraction.candidates import consolidate
from rbank_es.policies import Bm25V1, Bm25V2, retrieval_policy
from rbank_es.tools.memory.item_search import related_items, search_items
from tests.agents.hook_banks import teach
from tests.context.procedures_of_bank import procedures
from tests.effort import one_in
from tests.loop.loops import source
from tests.tools.tool_sessions import session_for


@pytest.fixture
def bank(tmp_path: Path):
    """A bank with three items about lamps, under the default policies."""
    items = [
        Item.make(f"Count the lamps, way {number}", f"Count {number} lamps, how many there are.") for number in range(3)
    ]
    with Bank.create(tmp_path / "bank") as made:
        heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
        extraction = made.append(MemoriesExtracted(kind="manual", heads=heads, candidates=texts)).events[0].id
        decisions = tuple(Decision(candidate=at, action="add", item=item.id) for at, item in enumerate(items))
        made.append(MemoriesConsolidated(extraction=extraction, policy="append-1", decisions=decisions))
        yield made


def test_k_and_weights_are_those_of_the_policy_in_force(bank: Bank):
    """A `policy_set` changes how the next search ranks, and a search as of before it goes by the old one."""
    assert len(bank.search("lamps")) == 3
    bank.append(PolicySet(policies=(Bm25V1(k=2, weights=(0.0, 1.0, 5.0, 1.0)).choice,)))
    assert len(bank.search("lamps")) == 2
    assert len(bank.at("HEAD~1").search("lamps")) == 3
    assert bank.search("lamps")[0].score != bank.at("HEAD~1").search("lamps")[0].score


RANKINGS: dict[str, dict[str, Any]] = {
    "prefer": {"domains": "prefer"},
    "filter": {"domains": "filter"},
    "none": {"domains": "none"},
    "floor": {"floor": 2.0},
    "related": {"k_success": 2, "k_failure": 0},
}


FOUND = {
    "prefer": ["lights", "lights", None, "nets"],
    "filter": ["lights", "lights"],
    "none": ["nets", None, "lights", "lights"],
    "floor": ["lights", None, "nets"],
    "related": ["lights", "lights", None, "nets"],
}
"""The domains of the items that an agent's search finds, in order."""


@pytest.mark.slow
@pytest.mark.parametrize("ranking", one_in(3, RANKINGS))
def test_a_retrieval_is_verified_by_the_settings_that_ranked_it(tmp_path: Path, ranking: str) -> None:
    """Those of an agent's search, of related items and of a context; another policy follows, which changes nothing."""
    held = [
        Item.make("Rule of lights", "Among all that shines, count lamps.", domain="lights"),
        Item.make("Count lamps", "Lamps, lamps.", domain="nets"),
        Item.make("Lamps in general", "A lamp gives light; lamps do."),
        Item.make("Lamps fail", "Never date lamps by a report.", "failure", domain="lights"),
        *(Item.make(f"Buoys {number}", f"Buoys float, way {number}.") for number in range(12)),
    ]
    with Bank.create(tmp_path / "bank") as bank:
        consolidate(bank, held)
        bank.set_policies({"retrieval": RANKINGS[ranking]})
        session = session_for(bank, source=source())
        for retrieval in (search_items(session, "which lamps?"), related_items(session, "which lamps?")):
            bank.append(retrieval.events)
        bank.append(procedures(bank, "which lamps?", run="run", domain="lights").retrievals)
        recorded = [event for event in bank.events() if isinstance(event, MemoriesRetrieved)]
        assert {event.ontology for event in recorded} == {"lights"}
        found = [held[[each.id for each in held].index(hit.id)].domain for hit in recorded[0].hits]
        assert found == FOUND[ranking]
        bank.set_policies({"retrieval": {"domains": "prefer", "floor": 9.0, "k_success": 0, "k_failure": 1}})
        check = bank.check(retrievals=True).retrievals
        assert check is not None and (check.checked, check.unverifiable) == (len(recorded), 0)
        bank.append(replace(recorded[0], id="", seq=0, at="", salt="", hits=recorded[0].hits[::-1]))
        with pytest.raises(CheckFailed, match="1 of"):
            bank.check(retrievals=True)


def searched(bank: Bank, query: str) -> MemoriesRetrieved:
    """Search a bank by the policy in force, and record it."""
    with bank.as_of() as view:
        event = view.retrieve(query, 5).event
    bank.append(event)
    return event


def test_retrievals_by_two_versions_of_a_policy_are_each_verified_by_their_own(bank: Bank) -> None:
    bank.append(PolicySet(policies=(Bm25V1().choice,)))
    one = searched(bank, "how many lamps?")
    bank.append(PolicySet(policies=(Bm25V2().choice,)))
    two = searched(bank, "how many lamps?")
    assert (one.policy, two.policy) == ("bm25-1", "bm25-2")
    assert {hit.score for hit in one.hits}.isdisjoint(hit.score for hit in two.hits)
    told: list[tuple[int, int]] = []
    check = check_retrievals(bank.log, lambda done, total: told.append((done, total)))
    assert (check.checked, check.unverifiable) == (2, 0)
    assert told == [(bank.position - 2, bank.position), (bank.position, bank.position)]


def test_a_recorded_version_that_nobody_knows_is_an_error_and_never_a_default(bank: Bank) -> None:
    with pytest.raises(BadPolicy, match="bm25 has no version 9 in this release; there are: 1, 2, 3"):
        retrieval_policy(PolicyChoice(kind="retrieval", name="bm25", version=9))
    bank.append(MemoriesRetrieved(k=1, policy="bm25-9", query="lamps"))
    with pytest.raises(BadPolicy, match=r"bm25-9.*it knows bm25-1, bm25-2, bm25-3"):
        bank.check(retrievals=True)


def test_version_2_searches_for_the_parts_of_compound_names_at_theirs() -> None:
    found = Bm25V2(parts=0.5, stop_weight=0.4).query_words("lt:towerHeight of a tower")
    assert found == (("lt", 1), ("towerheight", 1), ("of", 0.4), ("a", 0.4), ("tower", 1), ("height", 0.5))
    assert Bm25V2(parts=0).words("lt:towerHeight") == ("lt", "towerheight")


def test_of_too_many_words_version_2_leaves_out_stop_words_first() -> None:
    rare = [f"w{number}" for number in range(limits.QUERY_WORDS - 1)]
    assert Bm25V2().words(" ".join(["which", "of", *rare])) == (*rare, "which")
    assert Bm25V2().words(" ".join(["which", *rare])) == ("which", *rare)  # just as many as there may be
    assert len(Bm25V2().words(" ".join(f"w{number}" for number in range(10_000)))) == limits.QUERY_WORDS


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
