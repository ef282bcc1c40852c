"""Ranking by vectors: the same bit for bit live, as of a position, replayed and in memory; what vectors change."""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import Bank, Item
from rbank_es.events import Event, MemoriesExtracted, RunFinished, RunStarted, WordsEmbedded
from rbank_es.events.items import ItemText
from rbank_es.events.vector_text import read_vector, text_digest, text_of_item, vector_text
from rbank_es.extraction.candidates import consolidate
from rbank_es.law import fold
from rbank_es.policies import Bm25V2, Filters, HybridV1
from rbank_es.policies.vector_relevance import by_numpy, by_python, cosines, loaded, rounded, stored
from rbank_es.projections.in_memory_items import ActiveItems
from rbank_es.projections.read_models import ReadModels
from tests.context.procedures_of_bank import procedures
from tests.effort import examples
from tests.fakes import FakeLog
from tests.pools import DOMAINS, WORDS
from tests.strategies import histories, stamped

NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)


VECTORS = st.lists(NUMBERS, min_size=1, max_size=6).filter(any)


@given(
    st.integers(1, 8).flatmap(
        lambda size: st.lists(st.lists(NUMBERS, min_size=size, max_size=size).filter(any), min_size=1)
    )
)
def test_a_cosine_is_the_same_by_python_and_by_numpy(vectors: list[list[float]]) -> None:
    """To the last bit, and within 1e-4 of that of the unrounded vectors."""
    pytest.importorskip("numpy")
    query, *others = [rounded(vector) for vector in [vectors[0], *vectors]]
    found = by_numpy(query, others)
    assert found is not None and found == cosines(query, others)
    assert struct.pack(f"{len(found)}d", *found) == struct.pack(f"{len(found)}d", *by_python(query, others))
    for vector, cosine in zip(vectors, found, strict=True):
        assert cosine == pytest.approx(plain_cosine(vectors[0], vector), abs=1e-4)


def plain_cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine by the textbook; scaled first, because float32 squared may exceed a double's range below."""
    one, other = ([number / max(map(abs, vector)) for number in vector] for vector in (one, other))
    return sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))


@given(VECTORS)
def test_a_vector_is_read_back_as_float32_from_its_text(numbers: list[float]) -> None:
    digest, read = read_vector(vector_text("0" * 64, numbers))
    assert digest == "0" * 64
    assert read.tolist() == numbers
    assert loaded(stored(rounded(numbers))) == rounded(numbers)


def test_read_models_keep_a_vector_as_little_endian_integers() -> None:
    """Whatever the machine, because a file of read models may be copied to another."""
    assert stored(rounded([1.0, -0.5, 0.0, 1e-9])) == b64encode(struct.pack("<4h", 32_767, -16_384, 0, 0)).decode()


@given(st.text(max_size=30) | st.binary(max_size=30).map(lambda data: f"{'0' * 64} {b64encode(data).decode()}"))
def test_any_text_is_a_vector_with_a_direction_or_refused(text: str) -> None:
    try:
        numbers = read_vector(text).numbers
    except ValueError:
        return
    assert any(numbers) and math.isfinite(sum(numbers))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no digest",
        "0" * 64,
        f"{'0' * 64} ",
        f"{'0' * 64} AAA",
        f"{'0' * 64} AAAAAA==",
        f"{'0' * 64} AAAAAA== ",
        f"{'0' * 64} AADAfw==",
        f"{'0' * 64} AACAfw==",
        f"{'G' * 64} AACAPw==",
        f"{'0' * 64} ☃",
    ],
)
def test_a_text_that_is_no_vector_is_refused(text: str) -> None:
    """NaN, infinity, zero everywhere, half a number, no base64."""
    with pytest.raises(ValueError, match=r"."):
        read_vector(text)


# ---------------------------------------------------------------- the law

memories = histories(
    min_size=6,
    max_size=20,
    chapters=(*("learned",) * 4, "consolidated", "ended", "ended", "judged", "again", "corrected"),
    erased=True,
)


def with_vectors(events: list[Event], random: Random, query: str) -> list[Event]:
    """The history with vectors of some words in it, of another size now and then, before or behind their items."""
    words = [
        text
        for event in events
        if isinstance(event, MemoriesExtracted)
        for text in event.candidates
        if isinstance(text, ItemText)
    ]
    made = list(events)
    for _ in range(6):
        purpose, texts = random.choice((("item", [text_of_item(each) for each in words]), ("query", [query])))
        size = random.choice((3, 3, 3, 2))
        vectors = tuple(
            vector_text(text_digest(text), [random.choice((-1.0, 0.0, 0.5)) for _ in range(size - 1)] + [1.0])
            for text in texts
            if random.random() < 0.7
        )
        made.insert(
            random.randrange(len(made) + 1), WordsEmbedded(purpose=purpose, model="m", vectors=(*vectors, "no vector"))
        )
    return stamped(made)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(
    memories, st.randoms(use_true_random=False), st.sampled_from(("rank", "score")), st.sampled_from((-1.0, 0.5, 1.0))
)
def test_live_equals_as_of_equals_replayed_equals_in_memory(
    events: list[Event], random: Random, fusion: Any, cosine: float
) -> None:
    """Ids, order and scores, with erased words, returns, domains, and vectors that are missing or of another size."""
    query = " ".join(WORDS[:6])
    log = with_vectors(events, random, query)
    domains = random.choice(("prefer", "filter", "none"))
    policy = HybridV1(model="m", fusion=fusion, cosine=random.choice((-1.0, 0.5, 1.0)), domains=domains)
    polarity, domain, unasked = random.choice((None, "success")), random.choice((None, *DOMAINS)), random.random() < 0.5
    asked: dict[str, Any] = {"polarity": polarity, "domain": domain, "unasked": unasked}
    with TemporaryDirectory() as folder, ReadModels.open(Path(folder) / "whole.sqlite") as whole:
        whole.catch_up(FakeLog(log))
        for position in sorted({random.randrange(1, len(log) + 1), len(log)}):
            with whole.as_of(position, FakeLog(log)) as view:
                past = view.retrieve(query, 9, policy=policy, **asked).items
            with ReadModels.open(Path(folder) / f"{position}.sqlite") as part:
                part.catch_up(FakeLog(log[:position]))
                with part.live() as view:
                    replayed = view.retrieve(query, 9, policy=policy, **asked).items
            assert past == replayed
            found = [(hit.id, hit.score) for hit in past]
            assert found == in_memory(
                log[:position], policy, query, Filters(polarity=polarity, ontology=domain, unasked=unasked)
            )


def in_memory(log: Sequence[Event], policy: HybridV1, query: str, filters: Filters) -> list[tuple[str, float]]:
    state = fold(log)
    with closing(ActiveItems(lambda item: (0, 0))) as index:
        index.update(state.items.items())
        for event in log:
            if isinstance(event, WordsEmbedded):
                index.vectors.take(event)
        return [(hit.id, hit.score) for hit in policy.choose(query, 9, filters, index).hits]


# ---------------------------------------------------------------- what vectors change

NEAR = Item.make("Count the lamps", "Count lamps with DISTINCT.", id="near")
FAR = Item.make("Count the rows", "Count lamps in each row.", id="far")
UNSAID = Item.make("Tally lights", "Use COUNT.", id="unsaid")
QUERY = "How many lamps?"


def embedded(bank: Bank, vectors: Mapping[str, Sequence[float]], *, query: Sequence[float] | None = None) -> None:
    """Record vectors of items by id, and that of the query."""
    texts = {id: text_of_item(next(iter(bank.get([id]))).text) for id in vectors}
    made = tuple(vector_text(text_digest(texts[id]), vector) for id, vector in vectors.items())
    bank.append(WordsEmbedded(purpose="item", model="m", items=tuple(vectors), vectors=made))
    if query is not None:
        bank.append(WordsEmbedded(purpose="query", model="m", vectors=(vector_text(text_digest(QUERY), query),)))


@pytest.fixture
def bank(tmp_path: Path):
    with Bank.create(
        tmp_path / "bank", policies=(HybridV1(model="m", cosine=0.9, coverage=0, share_of_best=0).choice,)
    ) as made:
        consolidate(made, (NEAR, FAR, UNSAID))
        yield made


def kept(bank: Bank) -> list[list[bool]]:
    """Of each event with vectors, which it still has."""
    found = (event for event in bank.events(resolve=True) if isinstance(event, WordsEmbedded))
    return [[isinstance(text, str) and bool(text) for text in event.vectors] for event in found]


def ids(bank: Bank, point: str | None = None, **more: Any) -> list[str]:
    return [hit.id for hit in bank.at(point).search(QUERY, **more)]


def test_a_record_says_where_words_alone_ranked(bank: Bank) -> None:
    def fallback() -> str | None:
        [made, _] = procedures(bank, QUERY).retrievals
        return made.fallback

    assert fallback() == "no-query-vector"
    embedded(bank, {"near": [1, 0]}, query=[1, 0])
    assert fallback() == "items-without-vector"
    embedded(bank, {"far": [1, 0], "unsaid": [0, 1]})
    assert fallback() is None


def test_vectors_of_another_size_or_model_are_missing(bank: Bank) -> None:
    plain = ids(bank)
    embedded(bank, {"unsaid": [1, 0, 0], "near": [1, 0, 0]}, query=[1, 0])
    assert ids(bank) == plain


def test_an_erased_run_takes_its_own_vectors_and_leaves_those_of_words_that_another_run_has_too(bank: Bank) -> None:
    own = "There are ninety-nine lamps."
    bank.append([RunStarted(run="one", task=QUERY), RunStarted(run="two", task=QUERY)])
    bank.append(RunFinished(run="one", outcome="submitted", answer=own))
    rows = tuple(vector_text(text_digest(text), [1, 0]) for text in (own, QUERY))
    bank.append(WordsEmbedded(purpose="query", model="m", vectors=rows))
    bank.erase(run="one")
    assert kept(bank) == [[False, True]]


def test_a_retrieval_whose_vectors_were_erased_is_unverifiable(bank: Bank) -> None:
    """A recorded one is exact, and stays so until its vectors are gone; then it proves nothing."""
    embedded(bank, {"near": [0, 1], "far": [1, 0], "unsaid": [1, 0.1]}, query=[1, 0])
    bank.append(procedures(bank, QUERY).retrievals)
    assert bank.check(retrievals=True).retrievals.checked == 2
    bank.erase(event=bank.position - 2)
    checked = bank.check(retrievals=True).retrievals
    assert (checked.checked, checked.unverifiable) == (0, 2)


def test_words_erased_here_bring_no_vector_back(tmp_path: Path, bank: Bank) -> None:
    """What is absorbed of a bank that still has them leaves their vectors there."""
    with bank.fork(tmp_path / "fork") as fork:
        bank.erase(item="near")
        embedded(fork, {"near": [0, 1], "far": [1, 0]}, query=[1, 0])
        bank.absorb(fork)
    assert kept(bank)[0] == [False, True]


def test_what_is_given_unasked_by_vectors_is_compared_with_the_best_of_both_polarities(tmp_path: Path) -> None:
    """Both are fused in one ranking: the best of each alone has as good a rank as the other."""
    wine = Item.make("Taste wines", "Wines of a lamp's colour.", "failure", id="wine")
    policy = HybridV1(model="m", fusion="score", coverage=0)
    with Bank.create(tmp_path / "bank", policies=(policy.choice,)) as bank:
        consolidate(bank, (NEAR, FAR, wine))
        embedded(bank, {"near": [1, 0], "far": [1, 0.1], "wine": [0, 1]}, query=[1, 0])
        with bank.live() as view:
            given, warned = (view.retrieve(QUERY, 1, polarity=each, unasked=True) for each in ("success", "failure"))
        assert [hit.id for hit in given.items] == ["near"]
        assert (warned.items, [item.id for item in warned.withheld]) == ((), ["wine"])
        assert [item.withheld for item in warned.withheld] == ["share_of_best"]
        bank.append([each.event for each in (given, warned)])
        assert bank.check(retrievals=True).retrievals.checked == 2


def test_what_if_ranks_by_vectors_that_were_recorded_later(tmp_path: Path) -> None:
    """Whoever had ranked by them would have had them in time; a bank that ranked by them takes them as they came."""
    with Bank.create(tmp_path / "bank", policies=(Bm25V2(coverage=0, share_of_best=0).choice,)) as bank:
        consolidate(bank, (NEAR, FAR, UNSAID))
        made = procedures(bank, QUERY, successes=3)
        bank.append([RunStarted(run="r", task=QUERY), *(replace(each, run="r") for each in made.retrievals)])
        embedded(bank, {"near": [0, 1], "far": [1, 0], "unsaid": [1, 0.1]}, query=[1, 0])
        wanted = {"name": "hybrid", "version": 1, "model": "m", "cosine": 0.9}
        [change] = bank.whatif(policies={"retrieval": wanted}).retrievals
        assert set(change.before) == {"near", "far"}
        assert set(change.after) == {"near", "far", "unsaid"}
        assert not bank.whatif(policies={"retrieval": {"coverage": 0.0, "share_of_best": 0.0}}).retrievals


@pytest.mark.parametrize("size", [2, 1_500], ids=["short", "stored apart"])
def test_an_erased_item_loses_its_vector_too(tmp_path: Path, bank: Bank, size: int) -> None:
    near, far, query = ([first, *[second] * (size - 1)] for first, second in ((1, 0.25), (0.75, 1), (1, 0.5)))
    embedded(bank, {"near": near, "far": far}, query=query)
    bank.erase(item="near")
    assert kept(bank) == [[False, True], [True]]
    gone = text_digest(text_of_item(NEAR.text)).encode()
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or gone not in path.read_bytes(), path
    assert "near" not in ids(bank)
    bank.check(retrievals=True)


def test_a_query_erased_by_its_words_loses_its_vector(bank: Bank) -> None:
    embedded(bank, {"near": [1, 0]}, query=[1, 0])
    bank.append(RunStarted(run="r", task=QUERY))
    bank.erase(text=QUERY)
    assert kept(bank) == [[True], [False]]
