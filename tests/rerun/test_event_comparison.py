"""Two runs compared: what counts as a difference, which is the first, and how it is told."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.context.layer_sections import LAYER_TABLE
from rbank_es.events import ContextBuilt, Event, LayerUse, LmCalled, RunFinished, RunStarted, StepTaken, ToolCalled
from rbank_es.rerun.event_comparison import first_difference, hint_for, live_hint


def called(prompt: str, role: str = "agent", **fields: object) -> LmCalled:
    """A call of a model."""
    request = json.dumps({"messages": [{"text": prompt}], "model": "m"})
    given = {"run": "r", "model": "m", "request": request, "request_key": prompt, "response": "{}", **fields}
    return LmCalled(role=role, **given)  # type: ignore[arg-type]


RUN: tuple[Event, ...] = (
    RunStarted(run="r", task="Which?", release="0.1", commit="abc", seq=10),
    ContextBuilt(
        run="r",
        chars=8,
        layers=(LayerUse(layer="base", chars=4), LayerUse(layer="L2", chars=4)),
        texts=("base", "card"),
    ),
    called("First", step=1),
    ToolCalled(run="r", tool="g_stats", call="call-1", step=1, arguments='{"a":1}', result='{"n":[1,2]}', chars=3),
    StepTaken(run="r", index=1, code="g_stats()", output="3", stdout_chars=1),
    RunFinished(run="r", outcome="submitted", answer="Three."),
)


def with_change(at: int, **fields: object) -> list[Event]:
    changed = msgspec.structs.replace(RUN[at], **fields)
    return [*RUN[:at], changed, *RUN[at + 1 :]]


@given(st.integers(1, 10**6), st.text("0123456789abcdef", min_size=8, max_size=8), st.floats(0, 100))
def test_where_when_and_how_long_make_no_difference(seq: int, noise: str, duration_s: float) -> None:
    def elsewhere(event: Event) -> Event:
        fields = {"seq": seq, "at": noise, "id": noise, "salt": noise, "crc": noise, "more": 1, "dur": 2}
        timed = {"duration_s": duration_s} if hasattr(event, "duration_s") else {}
        return msgspec.structs.replace(event, **fields, **timed)

    assert first_difference(RUN, [elsewhere(event) for event in RUN]) is None


@pytest.mark.parametrize(
    ("at", "fields", "field", "hint"),
    [
        (0, {"task": "What?"}, "task, character 2", "settings"),
        (1, {"texts": ("base", "cart")}, "texts[1], character 3", "retrieval policy"),
        (1, {"texts": ("bass", "card")}, "texts[0], character 3", "base instructions"),
        (1, {"chars": 9}, "chars", "layers"),
        (2, {"request": '{"messages":[{"text":"Fist"}],"model":"m"}'}, "request.messages[0].text, character 2", "dspy"),
        (3, {"result": '{"n":[1,3]}'}, "result.n[1]", "the ontology"),
        (3, {"result": "no JSON"}, "result, character 0", "the ontology"),
        (3, {"arguments": '{"a":2}'}, "arguments.a", "executor"),
        (4, {"output": "4"}, "output, character 0", "executor"),
        (5, {"answer": None}, "answer", "code"),
    ],
)
def test_the_first_difference_has_a_place_and_a_hint(at: int, fields: dict[str, object], field: str, hint: str) -> None:
    found = first_difference(RUN, with_change(at, **fields))
    assert found is not None
    assert (found.number, found.type, found.field) == (at + 1, RUN[at].__struct_config__.tag, field)
    assert hint in found.hint


def test_what_was_asked_is_compared_before_what_came_of_it() -> None:
    changed = with_change(2, request='{"messages":[{"text":"x"}]}', error_code="replay_miss", response=None)
    found = first_difference(RUN, changed)
    assert found is not None and found.field.startswith("request.messages")


def test_missing_and_further_events_are_told() -> None:
    missing = first_difference(RUN, RUN[:-1])
    assert missing is not None
    assert (missing.number, missing.field, missing.recorded, missing.now) == (
        6, "type", "run_finished", "no further event",
    )  # fmt: skip
    further = first_difference(RUN, [*RUN[:4], RUN[3], *RUN[4:]])
    assert further is not None and (further.number, further.recorded, further.now) == (5, "step_taken", "tool_called")
    longer = first_difference(RUN, [*RUN, RUN[5]])
    assert longer is not None and (longer.position, longer.recorded) == (0, "no further event")


def test_the_position_in_the_bank_is_told() -> None:
    found = first_difference(RUN, with_change(0, task="?"))
    assert found is not None and found.position == 10
    assert str(found).startswith("event 1 (position 10), run_started, task, character 0")


@given(st.permutations(["a", "b", "c"]))
def test_sub_calls_side_by_side_may_end_in_any_order(order: list[str]) -> None:
    recorded = [called(prompt, "sub", step=2) for prompt in ("b", "a", "c")]
    again = [called(prompt, "sub", step=2) for prompt in order]
    assert first_difference([*RUN, *recorded], [*RUN, *again]) is None


@pytest.mark.parametrize(("type_", "told"), [("step_taken", True), ("lm_called", True), ("run_started", False)])
def test_where_code_ran_again_its_own_whims_are_named_first(type_: str, told: bool) -> None:
    """Of what comes before any code, it is no cause."""
    assert ("may give something else each time" in live_hint(type_)) is told


@pytest.mark.parametrize("name", LAYER_TABLE)
def test_a_layer_that_differs_has_the_hint_of_its_row(name: str) -> None:
    event = ContextBuilt(run="r", chars=9, layers=(LayerUse(layer="base", chars=4), LayerUse(layer=name, chars=5)))
    assert hint_for(event, "texts[1], character 2") == LAYER_TABLE[name].differs_because
