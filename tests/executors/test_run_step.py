"""When a run stands still: counted over its steps alone, told once, final when the next step goes on as before."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rbank_es.executors.run_step import RunStep, repeated_by, stall_of

KEYS = ("01a7", "01b9", "02c4", "77d1")


def steps(*made: dict[str, Any]) -> list[RunStep]:
    return [RunStep(index=index, **each) for index, each in enumerate(made, 1)]


def prose(number: int) -> dict[str, Any]:
    return {"fault": "unreadable", "output": f"[Error] it was cut at {number} tokens"}


def asked(number: int) -> dict[str, Any]:
    return {"code": '{"tool": "g_stats", "args": {}}', "output": f"key {KEYS[number]}, 3 rows", "answered": 1}


def wrong(number: int) -> dict[str, Any]:
    return {"code": f"x{number}", "fault": "raised", "output": f"NameError: x{number}"}


def varied(number: int) -> dict[str, Any]:
    return {"code": f"print('{'abcdefg'[number]}')", "output": "abcdefg"[number]}


def fails_otherwise(number: int) -> dict[str, Any]:
    return {"code": "abcdefgh"[number], "fault": "tool_failed", "output": "abcdefgh"[number]}


def test_a_repeated_call_is_that_of_the_first_step_that_made_it_with_the_same_outcome() -> None:
    made = steps(wrong(1), asked(0), asked(1), asked(2))
    earlier = repeated_by(made)
    assert earlier is not None and earlier.index == 2 and repeated_by(made[:2]) is None and repeated_by([]) is None


def test_what_was_not_the_models_word_is_no_standstill() -> None:
    silent = {"fault": "bad_response", "output": "[Error] the answer is empty"}
    assert stall_of(steps(*[silent] * 9)) is None
    assert stall_of(steps(prose(1), silent, prose(2), silent, prose(3))) is None


def test_the_same_code_with_another_outcome_is_another_call() -> None:
    """A loop over pages has the same code in each step."""
    pages = [{"code": "at += 50; print(sparql_slice(r, at))", "output": word, "answered": 1} for word in "abcd"]
    assert stall_of(steps(*pages)) is None


@given(st.lists(st.sampled_from([prose, asked, wrong, varied, fails_otherwise]), max_size=12))
def test_a_final_standstill_was_told_one_step_before(kinds: list[Any]) -> None:
    made = steps(*(kind(number % 4) for number, kind in enumerate(kinds)))
    found = stall_of(made)
    if found is not None and found.is_final:
        before = stall_of(made[:-1])
        assert before is not None
