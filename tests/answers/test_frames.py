"""Lists of answers as frames: every value is the answer's, and the types are those of the struct, whatever the rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from math import isnan
from typing import Any, Literal

import msgspec
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from rbank_es import Bank
from rbank_es.answers import Moment
from rbank_es.answers.shared import frames
from rbank_es.answers.shared.question_form import lists_of
from rbank_es.errors import BadInput, MissingExtra
from tests.answers.asked import answers_of
from tests.cli_runner import SAMPLE
from tests.effort import examples


@pytest.fixture(scope="module")
def moment() -> Iterator[Moment]:
    with Bank.open(SAMPLE) as bank, bank.at() as opened:
        yield opened


def plain(value: Any) -> Any:
    """What a frame holds, with one form of none, of a time and of a list."""
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and isnan(value)):
        return None
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [plain(dict(zip(frame, row, strict=True))) for row in frame.itertuples(index=False, name=None)]


def wanted(row: type[Struct], rows: Any) -> list[dict[str, Any]]:
    schema = frames.schema_of(row)
    columns = frames.columns_of(schema, rows)
    return [plain({name: columns[name][place] for name in schema}) for place in range(len(rows))]


@pytest.mark.slow
def test_every_list_of_every_answer_is_a_frame_of_the_answers_values(moment: Moment) -> None:
    asked = set[str]()
    for name, _, found in answers_of(moment):
        for listed, row in lists_of(type(found)).items():
            rows = getattr(found.whole() if hasattr(found, "whole") and listed == "rows" else found, listed)
            there, schema = wanted(row, rows), frames.schema_of(row)
            assert rows_of(found.to_pandas(listed)) == there == plain(found.to_polars(listed).to_dicts()), name
            as_they_are = [key for key, kind in schema.items() if kind.name in ("text", "whole", "number", "truth")]
            for made, each in zip(there, map(msgspec.to_builtins, rows), strict=True):
                assert [made[key] for key in as_they_are] == [each[key] for key in as_they_are]
            asked.add(f"{name}.{listed}")
    assert {"runs.rows", "items.rows", "health.series", "leakage.flags", "run.given", "whatif.prompts"} <= asked


class Part(Struct, frozen=True, kw_only=True):
    word: str | None
    number: float


class Anything(Struct, frozen=True, kw_only=True):
    text: str | None
    whole: int
    maybe: int | None
    share: float | None
    sure: bool | None
    said: Literal["success", "failure"] | None
    begun_at: str
    ended_at: str | None
    names: tuple[str, ...]
    parts: tuple[Part, ...]
    part: Part | None
    object: dict[str, Any]


INT64 = st.integers(-(2**63) + 1, 2**63 - 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
TIMES = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)).map(lambda each: each.isoformat() + "Z")
PARTS = st.builds(Part, word=st.none() | TEXTS, number=FINITE)
ROWS = st.builds(
    Anything, text=st.none() | TEXTS, whole=INT64, maybe=st.none() | INT64, share=st.none() | FINITE,
    sure=st.none() | st.booleans(), said=st.sampled_from(["success", "failure", None]), begun_at=TIMES,
    ended_at=st.none() | TIMES, names=st.lists(TEXTS, max_size=2).map(tuple), part=st.none() | PARTS,
    parts=st.lists(PARTS, max_size=2).map(tuple), object=st.dictionaries(TEXTS, INT64 | st.none(), max_size=2),
)  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(rows=st.lists(ROWS, max_size=4))
def test_any_value_that_a_row_may_have_comes_back_from_each_library(rows: list[Anything]) -> None:
    there = wanted(Anything, rows)
    schema = frames.schema_of(Anything)
    pandas, polars = frames.pandas_frame(Anything, rows), frames.polars_frame(Anything, rows)
    arrow = frames.arrow_table(schema, frames.columns_of(schema, rows))
    assert rows_of(pandas) == there
    assert plain(polars.to_dicts()) == there == plain(arrow.to_pylist())
    assert [each["object"] for each in there] == [msgspec.json.encode(row.object).decode() for row in rows]
    assert pandas.dtypes.equals(frames.pandas_frame(Anything, []).dtypes)
    assert polars.schema["parts"] == pl.List(pl.Struct({"word": pl.String, "number": pl.Float64}))


def test_a_number_of_more_than_64_bits_is_refused_by_name() -> None:
    row = Anything(
        text=None, whole=2**63, maybe=None, share=None, sure=None, said=None, begun_at="2026-01-01T00:00:00Z",
        ended_at=None, names=(), parts=(), part=None, object={},
    )  # fmt: skip
    for make in (frames.pandas_frame, frames.polars_frame):
        with pytest.raises(BadInput, match="whole has a number of more than 64 bits"):
            make(Anything, [row])


def test_what_can_t_be_a_frame_says_why(moment: Moment, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="no list is called 'flag'; there are: rows, leakage_by_tool, flags"):
        moment.leakage().to_pandas("flag")
    with pytest.raises(BadInput, match="has no list"):
        moment.ask("event", event="1").to_polars()
    monkeypatch.setattr("rbank_es.system.extras.find_spec", lambda name: None)
    for make in (moment.runs().to_pandas, moment.runs().to_polars):
        with pytest.raises(MissingExtra, match=r"rbank-es\[frames\]"):
            make()


def test_a_bank_is_asked_without_loading_any_library_of_frames() -> None:
    program = (
        f"from rbank_es import Bank; import sys; Bank.open({str(SAMPLE)!r}).runs(); "
        "print([name for name in ('pandas', 'polars', 'pyarrow', 'numpy') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"
