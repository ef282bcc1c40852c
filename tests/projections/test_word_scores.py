"""BM25 in memory: bounds that are summed in slices, and the best by them, beside the plain formula."""

from __future__ import annotations

from collections import Counter
from math import log
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.projections.bit_slices import documents_of, highest, numbers_in, reaching, sliced_sum
from rbank_es.projections.word_scores import WordScores
from tests.effort import examples

ADDENDS = st.lists(st.tuples(st.integers(0, 2**70 - 1), st.integers(1, 300)), max_size=12)


@settings(max_examples=examples(200), deadline=None)
@given(ADDENDS, st.integers(1, 700), st.integers(1, 80))
def test_sums_in_slices_are_those_of_each_document(addends: list[tuple[int, int]], least: int, count: int) -> None:
    sums = Counter({number: sum(n for documents, n in addends if documents >> number & 1) for number in range(70)})
    slices = sliced_sum(addends)
    assert [sum((each >> number & 1) << place for place, each in enumerate(slices)) for number in sums] == [
        *sums.values()
    ]
    assert [*numbers_in(reaching(slices, least))] == [number for number in sums if sums[number] >= least]
    last = sorted(sums.values(), reverse=True)[:count][-1]
    assert [*numbers_in(highest(slices, count))] == [number for number in sums if sums[number] >= max(1, last)]
    for documents, _ in addends:
        assert documents_of(numbers_in(documents), 69) == documents


def test_the_best_are_found_while_documents_come_and_go() -> None:
    """Lengths drift, so that bands are misplaced; some tokens are in nearly all documents, others in one."""
    random, scores = Random(7), WordScores()
    kept: dict[int, Counter[str]] = {}
    for step in range(1_500):
        number = random.choice([*kept]) if len(kept) > 300 else len(kept) + 1
        if number in kept:
            scores.drop(number)
        words = (f"w{min(9, int(random.expovariate(0.4)))}" for _ in range(random.randint(1, 3 + step // 20)))
        kept[number] = Counter([*words, f"n{number % 50}"])
        scores.add(number, kept[number])
        if step % 10 == 0:
            query = [f"w{random.randrange(10)}" for _ in range(3)] + [f"n{random.randrange(60)}"]
            found, expected = scores.best(query, 3), every_score(kept, query)
            assert found == [(number, expected[number]) for number, _ in found]
            assert [score for _, score in found] == sorted(expected.values())[:3]


def every_score(documents: dict[int, Counter[str]], query: list[str]) -> dict[int, float]:
    """BM25 of every document that has one of the tokens, by the plain formula."""
    average = sum(each.total() for each in documents.values()) / len(documents)
    found: dict[int, float] = {}
    for token in query:
        having = [number for number, tokens in documents.items() if token in tokens]
        idf = max(1e-6, log((len(documents) - len(having) + 0.5) / (len(having) + 0.5))) if having else 0.0
        for number in having:
            times, length = documents[number][token], documents[number].total()
            weight = (times * (1.2 + 1.0)) / (times + 1.2 * (1 - 0.75 + 0.75 * length / average))
            found[number] = found.get(number, 0.0) - idf * weight
    return found
