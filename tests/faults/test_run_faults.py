"""Whatever a model says: no crash, each reply recorded as a step, and nothing handed in that is not typed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.models.scripted_model import rendered
from tests.effort import examples
from tests.sandbox.sandboxes import require_dspy

require_dspy()
from tests.executors.runs import Calls, Setting, answer, call, code  # noqa: E402

CODE = code("rows = sparql_query('SELECT * {?s ?p ?o}')\nprint(rows['size'])")
CALL = call("find", {"word": "rock", "k": 3})
SUBMITS = call("SUBMIT", {"answer": "Three.", "sparql": "SELECT", "evidence": {"keys": ["a", "b"]}})
FINAL = answer("Three.", "SELECT * { ?s ?p ?o }", {"keys": ["k1", {"deep": [1, 2.5, None]}]})

PIECES = st.sampled_from(
    [
        *("[[ ## code ## ]]", "[[ ## reasoning ## ]]", "[[ ## completed ## ]]", "[[ ## answer ## ]]", "[[ ##", "## ]]"),
        *("[[ ## next_tool_args ## ]]", "[[ ## next_tool_name ## ]]", "[[ ## evidence ## ]]", "[[ ## nothing ## ]]"),
        *(
            "```",
            "```python\n",
            "```json\n",
            "{",
            "}",
            "[",
            "]",
            '"',
            "'",
            ":",
            ",",
            "\\",
            "\n",
            "\r",
            "\u2028",
            "\x00",
        ),
        *("null", "NaN", "1e999", "-0", "9" * 400, "[" * 2_000, "{" * 900, '{"a":' * 500, "\\ud800", "\ufeff", "🌊"),
        *("True", "lambda: 0", "(" * 300, "0x", "$ref", "__proto__", "<tool_call>", "<think>", "```\n```"),
    ]
)
CUTS = st.tuples(st.floats(0, 1), st.floats(0, 1))
MUTATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), CUTS, PIECES),
        st.tuples(st.just("insert"), CUTS, st.text(max_size=20)),
        st.tuples(st.just("delete"), CUTS, st.just("")),
        st.tuples(st.just("repeat"), CUTS, st.just("")),
        st.tuples(st.just("swap"), CUTS, st.just("")),
        st.tuples(st.just("end"), CUTS, st.just("")),
    ),
    min_size=1,
    max_size=6,
)


def mutated(text: str, changes: list[tuple[str, tuple[float, float], str]]) -> str:
    """A text after some changes, each at a place told as a share of its length."""
    for kind, places, piece in changes:
        start, end = sorted(round(place * len(text)) for place in places)
        middle = text[start:end]
        if kind == "insert":
            text = text[:start] + piece + text[start:]
        elif kind == "delete":
            text = text[:start] + text[end:]
        elif kind == "repeat":
            text = text[:end] + middle[:200] + text[end:]
        elif kind == "swap":
            text = text[:start] + middle[::-1] + text[end:]
        else:
            text = text[:end]
    return text


def native(text: str) -> str:
    """A reply whose text stands for the arguments of a call, and one whose last word names the tool."""
    return Calls(("find", text), (text.split()[-1][:100], {}), words=text[:100])


class Still:
    """An interpreter that runs nothing: here it is about what is read from a reply."""

    def __init__(self) -> None:
        self.tools: dict[str, Any] = {}

    def start(self) -> None:
        """Nothing needs to."""

    def shutdown(self) -> None:
        """Nothing needs to."""

    def execute(self, text: str, variables: dict[str, Any] | None = None) -> str:
        assert isinstance(text, str) and text.strip()
        return "seen"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "bases"), [("rlm", [CODE]), ("scratchpad", [CODE]), ("react", [CALL, SUBMITS]), ("tools", [CALL])]
)
def test_no_reply_of_a_model_breaks_a_run(name: str, bases: list[str], tmp_path: Path) -> None:
    """At least 340 of each executor: a thousand in all, where all are tried. An empty one is no word of a model."""
    bank = Bank.create(tmp_path / "bank", unsafe_no_sync=True)
    seen: Counter[str] = Counter()
    reply = st.builds(mutated, st.sampled_from([*bases, CODE, rendered({}), "words"]), MUTATIONS).filter(str.strip)
    forced = st.builds(mutated, st.just(FINAL), MUTATIONS).filter(str.strip)
    if name == "tools":
        whole = json.dumps({"answer": "Three.", "sparql": "SELECT * { ?s ?p ?o }", "evidence": ["k1"]})
        forced = st.builds(mutated, st.just(whole), MUTATIONS).map(lambda text: Calls(("SUBMIT", text)))
        reply = reply.map(native)

    @settings(
        max_examples=examples(180),
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    # Three, because a fourth of a kind would end the run as one that stands still.
    @given(st.lists(reply, min_size=3, max_size=3), forced)
    def run(replies: list[str], final: str) -> None:
        made = Setting(tmp_path, [*replies, final], bank=bank, run=f"run-{sum(seen.values())}")
        result = made.run(name, Still, iterations=len(replies))
        seen[f"{result.outcome} {result.error_code}"] += 1
        assert result.outcome in ("submitted", "forced_at_limit"), result.error
        assert result.error_code in (None, "unreadable")
        assert isinstance(result.answer, str) and isinstance(result.sparql, str) and isinstance(result.evidence, dict)
        assert bool(result.answer.strip()) == (result.error_code is None)
        assert result.outcome == "submitted" or len(result.steps) == len(replies)
        assert all(step.output and (step.fault != "unreadable" or not step.code) for step in result.steps)

    run()
    steps = sum(1 for _ in bank.events(types={"step_taken"}))
    assert steps >= examples(340) and bank.check().events == bank.position
    # The mutations reach both sides of what can be read, or they would show nothing.
    assert {"forced_at_limit None", "forced_at_limit unreadable"} <= seen.keys()
