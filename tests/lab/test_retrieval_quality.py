"""The quality of retrieval: measures worked out by hand, cases read strictly, and the shipped set labelled rightly."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from rbank_es import limits
from rbank_es.data import lights
from rbank_es.errors import BadInput
from rbank_es.lab.retrieval_comparison import compare_retrieval
from rbank_es.policies import Bm25V2
from rbank_es.policies.retrieval_quality import RelevanceCase, evaluate, injection, read_cases

CASES = (
    RelevanceCase(id="found", query="q", relevant=("a", "b")),
    RelevanceCase(id="late", query="q", relevant=("c", "z")),
    RelevanceCase(id="missed", query="q", relevant=("z",)),
    RelevanceCase(id="unrelated", query="q", relevant=()),
)


def abcd(case: RelevanceCase, k: int, polarity: str | None) -> Sequence[str]:
    """Strategies are a, b and c; d is a guardrail."""
    return {"success": "abc", "failure": "d", None: "abcd"}[polarity][:k]


def test_measures_are_those_worked_out_by_hand() -> None:
    measured = evaluate(Bm25V2(k_success=2, k_failure=1), CASES, abcd)
    assert [(each.first, each.recall, each.reciprocal) for each in measured] == [
        (1.0, 1.0, 1.0),
        (0.0, 0.5, 1 / 3),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
    ]
    assert [(each.related, each.given, each.right) for each in measured] == [
        (True, ("a", "b", "d"), 2),
        (True, ("a", "b", "d"), 0),
        (True, ("a", "b", "d"), 0),
        (False, ("a", "b", "d"), 0),
    ]
    counts = injection(measured)
    assert (counts.given, counts.right, counts.related, counts.covered) == (12, 2, 3, 1)
    assert (counts.unrelated, counts.disturbed) == (1, 1)


def test_policies_are_compared_case_by_case() -> None:
    pytest.importorskip("scipy")
    none = evaluate(Bm25V2(), CASES, lambda *_: [])
    some = evaluate(Bm25V2(), CASES, abcd)
    found = compare_retrieval(none, some)
    first, recall, _ = found.measures
    assert (first.first, first.second, recall.second) == (0.0, 1 / 3, 0.5)
    assert recall.difference is not None and recall.difference.n == 3
    assert recall.difference.mean == pytest.approx(0.5)
    assert found.first.precision is None and found.second.precision is not None
    assert found.second.precision[0] == 1 / 8
    with pytest.raises(ValueError, match="same"):
        compare_retrieval(none, some[1:])


def test_cases_are_read_with_ids_by_line() -> None:
    text = (
        b'\xef\xbb\xbf{"query": "q", "relevant": ["a"], "domain": "lights"}\n\n{"id": "x", "query": "", "relevant": []}'
    )
    one, two = read_cases(text)
    assert (one.id, one.domain, one.relevant, two.id) == ("line-1", "lights", ("a",), "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "there are no cases"),
        (b"\n \n", "there are no cases"),
        (b'{"query": "q"}', "line 1 is no case.*relevant"),
        (b'{"relevant": []}', "line 1 is no case.*query"),
        (b'{"query": "q", "relevant": "a"}', "line 1 is no case"),
        (b'{"query": "q", "relevant": [], "wanted": 1}', "line 1 is no case.*wanted"),
        (b'\n[1]', "line 2 is no case"),
        (b'{"query": "q", "query": "r", "relevant": []}', "line 1 is no case"),
        (b'\xff', "line 1 is no case"),
        (b'{"query": ' + b"[" * 100_000, "line 1 is no case"),
        (b'{"id": "x", "query": "q", "relevant": []}\n' * 2, "line 2: there is a case 'x' already"),
        (b'{"query": "q", "relevant": []}\n' * (limits.RELEVANCE_CASES + 1), "more than 10,000 cases"),
    ],
    ids=range(12),
)  # fmt: skip
def test_what_is_no_case_is_refused_by_line(text: bytes, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_cases(text)


# ---------------------------------------------------------------- the shipped set

NEEDED = {
    "sub": r"subClassOf\*",
    "area": r"lt:covers",
    "marks": r"lt:marks",
    "sight": r"lt:inSightOf",
    "label": r"rdfs:label",
    "height": r"lt:towerHeight|lt:focalHeight",
    "range": r"lt:nominalRange|lt:range",
    "lens": r"lt:lensOrder",
    "outage": r"lt:Outage|lt:cause",
    "keeper": r"lt:keeper\b",
    "lit": r"lt:Lit\b",
}
"""What the right query of a task has where lessons of this group help, by the beginning of their ids."""
FAMILIES = {"same": "shared-names", "rows": "rows-and-things"}
LESSONS = json.loads(lights().lessons.read_bytes())
SHIPPED = {case.id: case for case in read_cases(lights().cases.read_bytes())}


def test_the_shipped_cases_name_lessons_and_each_half_has_both_kinds() -> None:
    ids = {lesson["id"] for lesson in LESSONS}
    assert len(ids) == len(LESSONS) == 42
    assert {id for case in SHIPPED.values() for id in case.relevant} == {
        id for id in ids if not id.startswith("tools-")
    }
    for half in ("chosen", "unseen"):
        cases = [case for case in SHIPPED.values() if case.half == half]
        assert min(sum(bool(case.relevant) for case in cases), sum(not case.relevant for case in cases)) >= 15
