"""A search goes by the retrieval policy in force, and a recorded one is verified by the version that ranked it."""

from pathlib import Path

import pytest

from rbank_es import Bank, Item
from rbank_es.errors import BadPolicy
from rbank_es.events import (
    Decision,
    Hit,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesRetrieved,
    PolicyChoice,
    PolicySet,
)
from rbank_es.policies import Bm25V1, Bm25V2, retrieval_policy


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
    assert len(bank.search("lamps", point="HEAD~1")) == 3
    assert bank.search("lamps")[0].score != bank.search("lamps", point="HEAD~1")[0].score


def test_a_policy_of_another_release_is_refused(bank: Bank):
    """A retrieval policy that this release doesn't know is named, never replaced by a guess."""
    bank.append(PolicySet(policies=(PolicyChoice(kind="retrieval", name="embeddings", version=7),)))
    with pytest.raises(BadPolicy, match="embeddings"):
        bank.search("lamps")
    assert bank.search("lamps", point="HEAD~1")


def test_a_policy_set_without_retrieval_means_the_default(bank: Bank):
    """`policy_set` states all policies; where it names none for retrieval, the default one holds again."""
    bank.append(PolicySet(policies=(Bm25V1(k=1).choice,)))
    bank.append(PolicySet(policies=()))
    assert len(bank.search("lamps")) == 3


def searched(bank: Bank, query: str) -> MemoriesRetrieved:
    """Search a bank by the policy in force, and record it."""
    with bank.as_of() as view:
        policy = view.retrieval_policy()
        hits = tuple(Hit(id=hit.id, rank=hit.rank, score=hit.score) for hit in view.search(query, 5))
    event = MemoriesRetrieved(k=5, policy=policy.label, query=query, hits=hits)
    bank.append(event)
    return event


def test_retrievals_by_two_versions_of_a_policy_are_each_verified_by_their_own(bank: Bank) -> None:
    one = searched(bank, "how many lamps?")
    bank.append(PolicySet(policies=(Bm25V2().choice,)))
    two = searched(bank, "how many lamps?")
    assert (one.policy, two.policy) == ("bm25-1", "bm25-2")
    assert {hit.score for hit in one.hits}.isdisjoint(hit.score for hit in two.hits)
    told: list[tuple[int, int]] = []
    check = bank.verify(retrievals=True, progress=lambda done, total: told.append((done, total))).retrievals
    assert check is not None and (check.checked, check.unverifiable) == (2, 0)
    assert told == [(bank.position - 2, bank.position), (bank.position, bank.position)]


def test_a_recorded_version_that_nobody_knows_is_an_error_and_never_a_default(bank: Bank) -> None:
    with pytest.raises(BadPolicy, match="bm25 has no version 9 in this release; there are: 1, 2"):
        retrieval_policy(PolicyChoice(kind="retrieval", name="bm25", version=9))
    bank.append(MemoriesRetrieved(k=1, policy="bm25-9", query="lamps"))
    with pytest.raises(BadPolicy, match=r"bm25-9.*it knows bm25-1, bm25-2"):
        bank.verify(retrievals=True)


def test_version_2_searches_for_question_words_that_version_1_drops() -> None:
    question = "Which of all lamps are lit, and how many?"
    assert Bm25V1().words(question) == ("all", "lamps", "lit")
    assert Bm25V2().words(question) == ("which", "all", "lamps", "lit", "how", "many")
    assert Bm25V2(stop_words="english-1").words(question) == ("all", "lamps", "lit")
