"""Looking behind a handle: stats, peek, slice, find; bounded whatever is asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es.tools.shared.tool_answers import size
from rbank_es.tools.shared.toolbox import Toolbox
from tests.effort import examples
from tests.tools.tool_sessions import bank_at, session_for, toolbox_for

TEXT = "".join(f"line {n}: the quick brown fox\n" for n in range(2_000))


@pytest.fixture(scope="module")
def toolbox(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with bank_at(tmp_path_factory.mktemp("tools") / "bank") as bank:
        yield toolbox_for(session_for(bank))


@pytest.fixture(scope="module")
def handle(toolbox: Toolbox) -> dict[str, Any]:
    """The handle of `TEXT`."""
    ref = toolbox.session.store.put(TEXT, "text")
    return {"key": ref.key}


def test_a_peek_of_everything_is_bounded(toolbox: Toolbox, handle: dict[str, Any]) -> None:
    peek = toolbox.call("ctx_peek", {"ref": handle, "n": 10**9})
    assert size(peek) <= 1_000 and len(peek["text"]) > 700 and TEXT.startswith(peek["text"])


def test_a_pattern_of_nothing_moves_on(toolbox: Toolbox, handle: dict[str, Any]) -> None:
    found = toolbox.call("ctx_find", {"ref": handle, "pattern": "x*", "k": 2})
    assert [hit["start"] for hit in found["hits"]] == [0, 1] and found["next_start"] == 2


@pytest.mark.slow
def test_a_pattern_that_backtracks_for_ever_is_stopped_and_the_tool_still_works(toolbox: Toolbox) -> None:
    ref = toolbox.session.store.put("a" * 5_000 + "b", "text")
    error = toolbox.call("ctx_find", {"ref": ref.key, "pattern": r"(a+a+)+$"})["error"]
    assert error["code"] == "timeout" and "plainer pattern" in error["hint"]
    assert error["message"] == "the pattern was still looking after 1 s"
    assert toolbox.call("ctx_find", {"ref": ref.key, "pattern": "b"})["hits"][0]["start"] == 5_000


@pytest.mark.parametrize("pattern", ["(", "[a-", "*", "(?P<x", "a{9999999999}", "(?<=a*)b" + "(" * 50])
def test_what_is_no_pattern_is_said_to_be_none(toolbox: Toolbox, handle: dict[str, Any], pattern: str) -> None:
    result = toolbox.call("ctx_find", {"ref": handle, "pattern": pattern})
    assert result["ok"] or (result["error"]["code"] in ("bad_pattern", "timeout", "tool_failed"))
    assert size(result) <= 1_000


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.text(max_size=9_000),
    start=st.integers(-5, 10_000),
    end=st.integers(-5, 10_000),
    pattern=st.one_of(st.text(max_size=20), st.sampled_from((".", "\\w+", "a|b", "$", "^"))),
    k=st.integers(-3, 10**6),
)
def test_whatever_is_asked_every_answer_fits(
    toolbox: Toolbox, content: str, start: int, end: int, pattern: str, k: int
) -> None:
    ref = toolbox.session.store.put(content, "text")
    for name, arguments, cap_chars in (
        ("ctx_stats", {}, 1_000),
        ("ctx_peek", {"n": end}, 1_000),
        ("ctx_slice", {"start": start, "end": end}, 4_000),
        ("ctx_find", {"pattern": pattern, "k": k, "start": start}, 1_000),
    ):
        result = toolbox.call(name, {"ref": ref.key, **arguments})
        assert size(result) <= cap_chars
        assert result["ok"] or result["error"]["hint"]
