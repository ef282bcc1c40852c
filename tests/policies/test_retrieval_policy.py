"""A search goes by the retrieval policy in force at the bank's position."""

from pathlib import Path

import pytest

from rbank_es import Bank, Item
from rbank_es.errors import BadPolicy
from rbank_es.events import Decision, MemoriesConsolidated, MemoriesExtracted, PolicyChoice, PolicySet
from rbank_es.policies import Bm25V1


@pytest.fixture
def bank(tmp_path: Path):
    """A bank with three items about lamps, under the default policies."""
    items = [Item.make(f"Count the lamps, way {number}", f"Count {number} lamps.") for number in range(3)]
    with Bank.create(tmp_path / "bank") as made:
        heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
        extraction = made.append(MemoriesExtracted(kind="manual", heads=heads, candidates=texts)).events[0].id
        decisions = tuple(Decision(candidate=at, action="add", item=item.id) for at, item in enumerate(items))
        made.append(MemoriesConsolidated(extraction=extraction, policy="append-1", decisions=decisions))
        yield made


def test_k_and_weights_are_those_of_the_policy_in_force(bank: Bank):
    """A `policy_set` changes how the next search ranks, and a search as of before it goes by the old one."""
    assert len(bank.search("lamps")) == 1
    bank.append(PolicySet(policies=(Bm25V1(k=3, weights=(0.0, 1.0, 5.0, 1.0)).choice,)))
    assert len(bank.search("lamps")) == 3
    assert len(bank.search("lamps", point="HEAD~1")) == 1
    assert bank.search("lamps")[0].score != bank.search("lamps", point="HEAD~1")[0].score


def test_a_policy_of_another_release_is_refused(bank: Bank):
    """A retrieval policy that this release doesn't know is named, never replaced by a guess."""
    bank.append(PolicySet(policies=(PolicyChoice(kind="retrieval", name="embeddings", version=7),)))
    with pytest.raises(BadPolicy, match="embeddings"):
        bank.search("lamps")
    assert bank.search("lamps", point="HEAD~1")


def test_a_policy_set_without_retrieval_means_the_default(bank: Bank):
    """`policy_set` states all policies; where it names none for retrieval, the default one holds again."""
    bank.append(PolicySet(policies=(Bm25V1(k=3).choice,)))
    bank.append(PolicySet(policies=()))
    assert len(bank.search("lamps")) == 1
