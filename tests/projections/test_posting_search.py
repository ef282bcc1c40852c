"""The best texts for weighted terms, beside the scores of all texts by the definition."""

from __future__ import annotations

from array import array
from random import Random

import pytest

from rbank_es.policies.word_relevance import Formula
from rbank_es.projections.posting_search import Postings, PostingSearch, RankedTexts, WeightedTerm
from tests.laws.test_word_index_laws import by_numpy

TEXTS = 60
FORMULAS = [
    Formula(k1=k1, b=b, columns=(1.0, 1.0, 1.0, 1.0)) for k1, b in ((1.2, 0.75), (1.0, 0.25), (0.6, 1.0), (2.0, 0.0))
]


@pytest.mark.slow
@pytest.mark.parametrize("formula", FORMULAS, ids=lambda formula: f"{formula.k1} {formula.b}")
@pytest.mark.parametrize("numpy", [False, True], ids=["python", "numpy"])
def test_no_text_is_left_out_that_is_among_the_best(formula: Formula, numpy: bool) -> None:
    """Lengths differ a hundredfold, and all but a few terms weigh little: what is added without them selects.

    Each search is asked again with other filters and other numbers of texts, which goes on with the walk so far.
    """
    if numpy:
        pytest.importorskip("numpy")
    with by_numpy(numpy):
        for seed in range(150):
            chance = Random(seed)
            terms = [term(chance, weight) for weight in chance.choices((0.0, 0.2, 0.5, 1.0, 4.0), k=4)]
            texts = searched(chance)
            search = PostingSearch(terms, formula, texts)
            for share in (0.5, 0.1, 1.0, 0.0, 0.9):
                wanted, k = bytes(each and chance.random() < share for each in texts.active), chance.randint(1, 4)
                assert dict(search.best(wanted, k)) == best_by_definition(terms, formula, texts, wanted, k)


def best_by_definition(
    terms: list[WeightedTerm], formula: Formula, texts: RankedTexts, wanted: bytes, k: int
) -> dict[int, float]:
    scores = {
        text: score for text in range(1, TEXTS) if wanted[text] and (score := score_of(terms, formula, texts, text)) > 0
    }
    least = min(sorted(scores.values())[-k:], default=0.0)
    return {text: score for text, score in scores.items() if score >= least}


def term(chance: Random, weight: float) -> WeightedTerm:
    having = sorted(chance.sample(range(1, TEXTS), chance.choice((0, 5, 20, 50))))
    codes = array("H", (chance.randrange(4) for _ in having))
    return WeightedTerm(weight, Postings(b"", array("I", having), codes, len(having)))


def searched(chance: Random) -> RankedTexts:
    lengths = array("I", (chance.choice((1, 3, 10, 100)) for _ in range(TEXTS)))
    active = bytes(chance.random() < 0.8 for _ in range(TEXTS))
    return RankedTexts(lengths, sum(lengths) / TEXTS, array("d", (0.0, 1.0, 2.0, 5.0)), active, {})


def score_of(terms: list[WeightedTerm], formula: Formula, texts: RankedTexts, text: int) -> float:
    score = 0.0
    for weight, postings in terms:
        frequency = texts.frequencies[dict(postings.pairs())[text]] if text in dict(postings.pairs()) else 0.0
        if frequency and weight:
            score += weight * formula.saturated(frequency, texts.lengths[text], texts.average)
    return score
