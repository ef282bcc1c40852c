"""The reader of a run, where its rules are not those of the fold."""

import pytest

from rbank_es import Bank
from rbank_es.events import (
    ContextBuilt,
    Hit,
    MemoriesRead,
    MemoriesRetrieved,
    RunFinished,
    RunStarted,
)
from rbank_es.log.run_reader import Gift, read_run


@pytest.fixture
def bank() -> Bank:
    return Bank.create("memory:")


def found(*hits: tuple[str, float]) -> MemoriesRetrieved:
    ranked = tuple(Hit(id=id, rank=rank, score=score) for rank, (id, score) in enumerate(hits, 1))
    return MemoriesRetrieved(run="r", k=3, policy="bm25-1", hits=ranked)


def test_a_quotation_shows_an_item_and_gives_none(bank: Bank) -> None:
    bank.append([MemoriesRead(run="r", ids=("a", "b"), how="quote", chars=9)])
    bank.append([MemoriesRead(run="r", ids=("b",), how="get", chars=9), ContextBuilt(run="r", chars=1, items=("c",))])
    run = read_run(bank.log, "r")
    assert [gift.item for gift in run.given] == ["b", "c"]
    assert run.shown == ("a", "b", "c")


def test_a_gift_has_the_way_and_the_hit_of_the_first_time(bank: Bank) -> None:
    bank.append([found(("a", 1.0)), found(("a", 2.0), ("b", 1.0)), ContextBuilt(run="r", chars=1, items=("a",))])
    bank.append([found(("a", 3.0)), MemoriesRead(run="r", ids=("a", "n"), how="get", chars=9)])
    first, second = read_run(bank.log, "r").given
    assert first == Gift(item="a", way="injected", seq=5, hit=Hit(id="a", rank=1, score=2.0))
    assert second == Gift(item="n", way="read", seq=7)


def test_what_was_not_read_is_never_taken_for_absent(bank: Bank) -> None:
    """Extractions belong to no run, so a log can't find those that name one."""
    bank.append([RunStarted(run="r"), RunFinished(run="r", outcome="failed")])
    run = read_run(bank.log, "r", types={"run_started"})
    assert run.started is not None
    for ask in ("end", "given", "totals", "extractions"):
        with pytest.raises(AssertionError, match="not read"):
            getattr(run, ask)
    with pytest.raises(AssertionError, match="memories_extracted"):
        _ = read_run(bank.log, "r").extractions
