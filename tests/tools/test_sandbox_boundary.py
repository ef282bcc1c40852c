"""Results of tools in the real sandbox: the same values, the same types, the same order of keys."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from rbank_es.tools.shared.handle_store import Store
from rbank_es.tools.shared.tool_answers import encode, handle_of
from tests.effort import examples
from tests.laws.test_encoding_laws import results
from tests.tools.sandbox import sandbox
from tests.tools.tool_sessions import bank_at, session_for, toolbox_for

pytestmark = pytest.mark.xdist_group("sandbox")


def collected() -> list[dict[str, Any]]:
    """Results of all kinds that hypothesis makes, and the awkward ones by name."""
    made: list[dict[str, Any]] = []

    @settings(
        max_examples=examples(150),
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(results)
    def collect(value: dict[Any, Any]) -> None:
        made.append(encode(value, 1_000))

    collect()
    awkward = {
        "integers": [0, -1, 2**53 - 1, -(2**53 - 1), 2**53, 10**30],
        "floats": [0.1, 1.0, -0.0, 1e300, 5e-324, float("nan"), float("inf"), 2.0**60],
        "texts": ["", "\x00", "\u2028", "🌊", "\ud800", "'\"\\", "__proto__"],
        "nothing": None,
        "nested": {"10": [None, {}, []], "2": True, "a": {"1": False}},
        "__proto__": {"x": 1},
        "constructor": "x",
        "toString": 7,
    }
    return [*made, encode(awkward, 4_000)]


@pytest.mark.slow
def test_every_result_arrives_in_the_sandbox_as_it_was_with_equal_types() -> None:
    made = collected()
    assert len(made) > examples(100)

    def result(n: int) -> dict[str, Any]:
        """A result by number."""
        return made[n]

    with sandbox({"result": result}) as run:
        lines = [run(f"print(ascii(result({n})))").removesuffix("\n") for n in range(len(made))]
    for line, value in zip(lines, made, strict=True):
        # The text of a Python value tells types, order and every digit.
        assert line == ascii(value)
        assert ast.literal_eval(line) == value


def test_tools_are_called_from_the_sandbox_and_their_failures_are_data(tmp_path: Path) -> None:
    with bank_at(tmp_path / "bank") as bank:
        toolbox = toolbox_for(session_for(bank))
        code = """
handle = put("x" * 5000)
again = ctx_slice(handle, 0, 3)
by_alias = ctx_peek("text_0", n=2)
print([handle["size"], again["text"], by_alias["text"], ctx_peek("nothing")["error"]["code"],
       ctx_slice(handle, 2**60, 2**61)["ok"], ctx_slice(handle, -1, 0)["error"]["code"]])
"""
        with sandbox(dict(toolbox.functions)) as run:
            seen = ast.literal_eval(run(code).strip())
    assert seen == [5000, "xxx", "xx", "unknown_handle", True, "bad_range"]


def test_what_the_agent_is_shown_of_its_variables_does_not_grow_with_the_payload() -> None:
    """The listing differs by the digits of the size alone, from 1 KB to 10 MB."""
    pytest.importorskip("dspy", reason="dspy is not installed (pip install 'rbank-es[agent]')")
    from dspy.primitives.repl_types import REPLVariable

    listings = []
    for size_chars in (1_000, 100_000, 10_000_000):
        handle = handle_of(Store().put("payload " * (size_chars // 8), "results"))
        listings.append(REPLVariable.from_value("result", handle).format())
    assert {re.sub(r"[\d,]+", "#", listing) for listing in listings} == {re.sub(r"[\d,]+", "#", listings[0])}
    assert len(listings[2]) - len(listings[0]) <= 4 + 1
