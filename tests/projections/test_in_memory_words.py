"""BM25 in memory: bounds that are summed in slices, and the best by them, beside the plain formula."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.policies.bit_slices import documents_of, highest, numbers_in, reaching, sliced, sliced_sum
from rbank_es.policies.word_relevance import Formula
from rbank_es.projections.in_memory_words import WordScores
from rbank_es.projections.tokenizer import CountedText
from tests.effort import examples

ADDENDS = st.lists(st.tuples(st.integers(0, 2**70 - 1), st.integers(1, 300)), max_size=12)


@settings(max_examples=examples(200), deadline=None)
@given(ADDENDS, st.integers(1, 700), st.integers(1, 80))
def test_sums_in_slices_are_those_of_each_document(addends: list[tuple[int, int]], least: int, count: int) -> None:
    sums = Counter({number: sum(n for documents, n in addends if documents >> number & 1) for number in range(70)})
    slices = sliced_sum([sliced([(documents, amount)]) for documents, amount in addends])
    assert [sum((each >> number & 1) << place for place, each in enumerate(slices)) for number in sums] == [
        *sums.values()
    ]
    assert [*numbers_in(reaching(slices, least))] == [number for number in sums if sums[number] >= least]
    last = sorted(sums.values(), reverse=True)[:count][-1]
    assert [*numbers_in(highest(slices, count))] == [number for number in sums if sums[number] >= max(1, last)]
    for documents, _ in addends:
        assert documents_of([*numbers_in(documents)], 69) == documents


@pytest.mark.slow
@pytest.mark.parametrize("formula", [Formula(idf="sqlite"), Formula(k1=0.8, b=1.0, columns=(3.0, 2.0, 0.5, 1.0))])
def test_the_best_are_found_while_documents_come_and_go(formula: Formula) -> None:
    """Lengths drift, so that bands are misplaced; some tokens are in nearly all documents, others in one."""
    random, scores = Random(7), WordScores(formula)
    kept: dict[int, CountedText] = {}
    for step in range(1_500):
        number = random.choice([*kept]) if len(kept) > 300 else len(kept) + 1
        if number in kept:
            scores.drop(number, kept[number])
        words = [f"w{min(9, int(random.expovariate(0.4)))}" for _ in range(random.randint(1, 3 + step // 20))]
        kept[number] = CountedText(Counter([*words, f"n{number % 50}"]), {}, len(words) + 1)
        scores.add(number, kept[number])
        if step % 10 == 0:
            query = [f"w{random.randrange(10)}" for _ in range(3)] + [f"n{random.randrange(60)}"]
            wanted = {number for number in kept if number % 4 < 3}
            terms = [(rarity(formula, kept, token), scores.token(token)) for token in query]
            found = dict(scores.best(terms, 3, documents_of(wanted, 301)))
            expected = {n: score for n, score in every_score(formula, kept, query).items() if n in wanted}
            least = min(sorted(expected.values())[-3:], default=0.0)
            assert found == {n: score for n, score in expected.items() if score >= least}


def rarity(formula: Formula, documents: dict[int, CountedText], token: str) -> float:
    return formula.rarity(len(documents), sum(token in each.own for each in documents.values()))


def every_score(formula: Formula, documents: dict[int, CountedText], query: list[str]) -> dict[int, float]:
    """BM25 of every document that has one of the tokens, by the plain formula."""
    average = sum(each.length for each in documents.values()) / len(documents)
    found: dict[int, float] = {}
    for token in query:
        rare = rarity(formula, documents, token)
        for number, text in documents.items():
            if token in text.own:
                frequency = formula.columns[2] * text.own[token]
                weight = rare * formula.saturated(frequency, text.length, average)
                found[number] = found.get(number, 0.0) + weight
    return found
