"""Settings: every choice in one value, the same digest for the same choices, and never a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.errors import BadInput
from rbank_es.events.run_events import RunBounds
from rbank_es.loop.settings import LoopSettings, question_of
from rbank_es.models.model_choice import LmChoice

LM = LmChoice(model="openai/gpt-4.1-mini")
OTHERS: dict[str, Any] = {
    "lm": LmChoice(model="openai/gpt-4.1"),
    "sub_lm": LM,
    "judge_lm": LM,
    "extractor_lm": LM,
    "executor": "react",
    "layers": ("L0",),
    "preset": "lean",
    "budgets": {"L1": 5},
    "mode": "both",
    "memory_graph": True,
    "leave_one_out": True,
    "domain": "lights",
    "observed": True,
    "task_slice": True,
    "tool_manual": "all",
    "constraints": "a",
    "guide": "a",
    "payloads": "naive",
    "iterations": 3,
    "subcalls": 3,
    "bounds": RunBounds(step_code_s=3.0),
    "unsafe_local": True,
    "judge": "checks",
    "supervised": True,
    "extract": False,
    "extract_from": "best",
    "consolidation": "append",
    "rollouts": 2,
    "temperature": 0.5,
    "perturbation": "prefix",
}


TOGETHER = {name: value for name, value in OTHERS.items() if name != "memory_graph"}
"""Choices that can be made together: the memory graph would show what leave-one-out withholds."""


@given(st.permutations(sorted(TOGETHER)))
def test_the_same_choices_have_the_same_digest_in_whatever_order_they_were_made(names: list[str]) -> None:
    made = LoopSettings(**{name: OTHERS[name] for name in names})
    assert made.digest == LoopSettings(**TOGETHER).digest and len(made.digest) == 64


def test_a_script_goes_by_its_name_and_not_by_its_place(tmp_path: Path) -> None:
    """The digest is the same on another machine."""
    here, there = (LoopSettings(lm=LmChoice(model=f"script:{place}/turns.toml")) for place in (tmp_path, "/elsewhere"))
    assert here.digest == there.digest and here.scripted and str(tmp_path) not in here.recorded


def test_recorded_settings_are_read_back() -> None:
    settings = LoopSettings(**TOGETHER)
    assert LoopSettings.from_recorded(settings.recorded) == settings
    with pytest.raises(BadInput, match="can't be read"):
        LoopSettings.from_recorded('{"colour": 1}')
    with pytest.raises(BadInput, match="can't be read"):
        LoopSettings.from_recorded('{"budgets": ' + '{"L2": ' * 100_000)


def test_what_can_not_be_chosen_is_refused() -> None:
    with pytest.raises(BadInput, match="nobody judged"):
        LoopSettings(lm=LM, judge="none")
    with pytest.raises(BadInput, match="'L9'"):
        LoopSettings(lm=LM, layers=("L9",))
    with pytest.raises(BadInput, match="rollouts"):
        LoopSettings(lm=LM, rollouts=0)


@pytest.mark.parametrize(
    "choice",
    [
        {"iterations": 0},
        {"iterations": 10**20},
        {"subcalls": -1},
        *({"bounds": RunBounds(**{name: 0})} for name in RunBounds.__struct_fields__),
        {"bounds": RunBounds(run_wall_s=float("nan"))},
        {"bounds": RunBounds(step_wall_s=float("inf"))},
        {"bounds": RunBounds(run_calls=-1)},
        {"temperature": float("nan")},
        {"temperature": 2.5},
        {"budgets": {"L9": 1}},
        {"budgets": {"L1": -1}},
    ],
)
def test_what_no_run_can_have_is_refused_when_it_is_chosen(choice: dict[str, object]) -> None:
    """Not when the first run begins, for then there is a bank already."""
    with pytest.raises(BadInput, match="give|budgets"):
        LoopSettings(lm=LM, **choice)  # type: ignore[arg-type]


def test_the_first_rollout_gets_the_question_as_it_is_and_the_others_hold_it() -> None:
    question = "Which {lights}?"
    for way in ("none", "prefix", "rephrase", "thinking"):
        put = [question_of(question, way, index) for index in range(4)]  # type: ignore[arg-type]
        assert put[0] == question and all(question in each for each in put)
        assert len(set(put[:3])) == (1 if way == "none" else 3)
