"""The repetition that ends a text is found soon, and what people write is none: code, tables, triples, numbers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.limits import reply_limits
from rbank_es.models.repetition import repetition_of

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = sorted(
    path
    for pattern in (
        "rbank_es/**/*.py",
        "docs/*.md",
        "rbank_es/data/**/*.ttl",
        "rbank_es/data/**/*.toml",
        "tests/**/*.rq",
    )
    for path in ROOT.glob(pattern)
    if path.is_file() and not path.is_symlink()
)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_no_beginning_of_a_written_text_ends_in_a_repetition(part: int) -> None:
    step = 5 * reply_limits.REPEATED_CHECK_CHARS
    for path in WRITTEN[part::20]:
        text = path.read_text(encoding="utf-8")[:40_000]
        assert [end for end in range(step, len(text) + step, step) if repetition_of(text[:end])] == [], path


@given(st.integers(0, 2**32), st.sampled_from(["triples", "table", "code", "numbers", "inserts", "json"]))
def test_generated_rows_that_differ_in_anything_are_no_repetition(seed: int, kind: str) -> None:
    rows = random.Random(seed)
    line = {
        "triples": lambda n: f"lt:light-{n} a lt:Lighthouse ; lt:height {rows.randrange(80)} .",
        "table": lambda n: f"| light {n} | {rows.choice('abc')} | 0 | 0 | yes |",
        "code": lambda n: f"found_{n} = sparql_query(query_{n})\nprint(found_{n}['key'])",
        "numbers": lambda n: f"{n}, ",
        "inserts": lambda n: f"INSERT DATA {{ <http://example.org/{n}> a <http://example.org/Thing> }};",
        "json": lambda n: f'{{"id": {n}, "name": "same", "tags": []}},',
    }[kind]
    text = "\n".join(line(n) for n in range(400))
    assert repetition_of(text) is None


@pytest.mark.parametrize("text", ["", "a" * 999, "-" * 120, "0, " * 300, ("| 0 | 0 | 0 |\n") * 50, "ab" * 400])
def test_a_ruler_and_a_short_list_of_equal_values_are_none(text: str) -> None:
    assert repetition_of(text) is None


@given(
    st.text(max_size=2_000),
    st.text(min_size=1, max_size=reply_limits.REPEATED_PERIOD_CHARS),
    st.integers(0, reply_limits.REPEATED_PERIOD_CHARS),
)
def test_a_passage_is_found_once_it_stands_often_and_long_enough(before: str, passage: str, begun: int) -> None:
    times = max(reply_limits.REPEATED_TIMES, -(-reply_limits.REPEATED_CHARS // len(passage)))
    text = before + passage * times + passage[: begun % len(passage)]
    found = repetition_of(text)
    assert found is not None and found.period <= len(passage) and found.times >= reply_limits.REPEATED_TIMES
    assert text.endswith(text[-found.period :] * reply_limits.REPEATED_TIMES) or begun % len(passage)
    assert len(passage) % found.period == 0 or found.period < len(passage)


@given(st.text(min_size=1, max_size=50))
def test_what_is_found_does_repeat(passage: str) -> None:
    text = passage * 300
    found = repetition_of(text)
    if found is not None:
        tail = text[-found.period * found.times :]
        assert tail == tail[: found.period] * found.times
