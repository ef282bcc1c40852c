"""What runs inside the sandbox, run outside: values as plain data, output that is bounded, errors that say where."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import tracemalloc
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.sandbox import guest
from rbank_es.sandbox.session import GUEST_LIMITS

guest.LIMITS |= GUEST_LIMITS | {
    "argument_chars": 1_000,
    "error_chars": 500,
    "output_chars": 1_000,
    "printed_chars": 100_000,
    "submit_chars": 1_000,
}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.integers() | st.text() | st.none(), inner)
        | st.tuples(inner, inner)
        | st.frozensets(st.integers() | st.text())
    ),
)


class Unspeakable:
    def __repr__(self) -> str:
        raise KeyError("no text")


@dataclasses.dataclass
class Point:
    x: int
    y: object


Pair = namedtuple("Pair", "left right")


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch) -> Iterator[guest.Workspace]:
    """A workspace in this process; what it changes is put back."""
    for module, name in ((guest.os, "_exit"), (guest.os, "abort"), (guest.os, "kill"), (guest.os, "system")):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(guest.signal, "raise_signal", guest.signal.raise_signal)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    made = guest.Workspace(lambda name, arguments: "")
    made.register(json.dumps({"tools": [], "outputs": ["answer"]}))
    yield made


def step(workspace: guest.Workspace, code: str, number: int = 1, **variables: str) -> dict[str, Any]:
    request = json.dumps({"step": number, "code": code, "variables": variables})
    outcome = json.loads(asyncio.run(workspace.answer(request)))
    assert isinstance(outcome, dict)
    return outcome


@given(values)
def test_any_value_becomes_plain_json(value: Any) -> None:
    text = json.dumps(guest.plain(value), allow_nan=False)
    text.encode()
    assert json.loads(text) == guest.plain(value)


@given(values)
def test_plain_data_stays_as_it_is(value: Any) -> None:
    once = guest.plain(value)
    assert guest.plain(once) == once


KNOWN: dict[str, tuple[Any, Any]] = {
    "set": ({3, 1, 2}, [1, 2, 3]),
    "nan": (float("nan"), "nan"),
    "infinity": (float("-inf"), "-inf"),
    "bytes": (b"x\xff", "x\\xff"),
    "large integer": (2**70, 2**70),
    "huge integer": (2**100_000, "<integer of 100,001 bits>"),
    "dataclass": (Point(1, {2}), {"x": 1, "y": [2]}),
    "named tuple": (Pair(1, 2), {"left": 1, "right": 2}),
    "keys": ({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "None": "b", "(1, 2)": "c"}),
    "object": (Unspeakable(), "<Unspeakable: its text can't be made (KeyError)>"),
    "surrogates": ("\ud83c\udf0a \ud800", "🌊 \ufffd"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_json_does_not_know_becomes_text_or_the_nearest_plain_value(name: str) -> None:
    value, expected = KNOWN[name]
    assert guest.plain(value) == expected


def test_a_value_that_holds_itself_ends_somewhere() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "nested too deep" in json.dumps(guest.plain(loop))


class Endless(list[int]):
    def __iter__(self) -> Iterator[int]:
        while True:
            yield 1


def test_a_value_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that know each other in both directions double with every level of nesting."""
    monkeypatch.setitem(guest.LIMITS, "values", 5_000)
    loop: list[Any] = []
    loop.extend([loop, loop])
    for value in (loop, Endless([1])):
        with pytest.raises(ValueError, match="holds more than 5,000 others, or itself"):
            guest.plain(value)


ODD = """
class Items(dict):
    def items(self): raise ValueError('no items')
    keys = items
class Walk(list):
    def __iter__(self): raise ValueError('no walk')
class Length(str):
    def __len__(self): raise ValueError('no length')
class Kind:
    @property
    def __class__(self): raise ValueError('no class')
class Fields(tuple):
    def _asdict(self): raise ValueError('no fields')
class Ends:
    def __repr__(self): SUBMIT(answer=1)
"""
"""Classes whose values can't be looked at without an error."""


@pytest.mark.parametrize("odd", ["Items()", "Walk([1])", "Length('x')", "Kind()", "Fields()"])
def test_values_that_can_not_be_looked_at_cost_a_step_at_most(workspace: guest.Workspace, odd: str) -> None:
    step(workspace, ODD)
    assert step(workspace, f"odd = {odd}\nprint('kept')")["stdout"] == "kept\n"
    submitted = step(workspace, f"SUBMIT(answer={odd})")
    assert submitted["kind"] in ("error", "final")
    assert submitted["kind"] == "final" or submitted["message"].startswith("ValueError: no ")
    assert step(workspace, "1 + 1")["value"] == "2"


def test_a_text_that_submits_submits_nothing(workspace: guest.Workspace) -> None:
    step(workspace, ODD)
    assert step(workspace, "SUBMIT(answer=Ends())")["final"] == (
        '{"answer": "<Ends: its text can\'t be made (Submitted)>"}'
    )


def test_names_that_are_no_text_disturb_nothing(workspace: guest.Workspace) -> None:
    assert step(workspace, "globals()[1] = 2\nx = 3\nprint(x)")["variables_n"] == 1


def test_code_that_is_nested_too_deep_is_a_syntax_error(
    workspace: guest.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's parser then says that memory is used up, which it is not."""

    def parse(code: str, place: str) -> None:
        raise MemoryError

    monkeypatch.setattr(guest.ast, "parse", parse)
    outcome = step(workspace, "-" * 9 + "1")
    assert outcome["kind"] == "syntax" and "nested too deep to be parsed" in outcome["message"]


def test_memory_is_kept_back_for_the_message_that_none_is_left(workspace: guest.Workspace) -> None:
    """It is let go where a step used up all, and kept back again for the next."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in (1, 2):
            step(workspace, "1", number)
            kept, _ = tracemalloc.get_traced_memory()
            assert kept - before >= guest.LIMITS["reserve_bytes"]
            assert "is used up" in step(workspace, "raise MemoryError", number)["message"]
            left, _ = tracemalloc.get_traced_memory()
            assert left - before < guest.LIMITS["reserve_bytes"] / 2
    finally:
        tracemalloc.stop()


@given(st.lists(st.text(max_size=300), max_size=60))
def test_output_keeps_its_head_and_its_tail_and_counts_all(pieces: list[str]) -> None:
    printed = guest.Printed(kept_chars=100, most_chars=10**9)
    for piece in pieces:
        printed.write(piece)
    everything, kept = "".join(pieces), printed.kept()
    assert printed.chars == len(everything)
    if len(everything) <= 100:
        assert kept == everything
    else:
        left_out = len(everything) - 100
        assert kept == everything[:50] + (guest.gap(left_out) if left_out else "") + everything[-50:]


def test_printing_without_end_is_refused() -> None:
    printed = guest.Printed(kept_chars=100, most_chars=1_000)
    with pytest.raises(guest.PrintedTooMuch):
        for _ in range(100):
            print("x" * 100, file=printed)
    assert len(printed.kept()) < 200


def test_a_long_value_is_cut_in_its_middle(workspace: guest.Workspace) -> None:
    outcome = step(workspace, "'a' * 600 + 'b' * 600")
    assert outcome["value"] == "a" * 500 + guest.gap(200) + "b" * 500
    assert outcome["value_chars"] == 1_200


def test_an_error_names_the_places_in_the_agents_own_code(workspace: guest.Workspace) -> None:
    step(workspace, "def half(x):\n    return 1 / x", 1)
    outcome = step(workspace, "import json\nprint('so far')\nhalf(0)", 2)
    assert outcome["kind"] == "error" and outcome["stdout"] == "so far\n"
    assert outcome["message"].splitlines() == [
        "ZeroDivisionError: division by zero",
        "  step 2, line 3: half(0)",
        "  step 1, line 2, in half: return 1 / x",
    ]


def test_an_error_names_the_four_last_places_and_the_beginning_of_each_line(workspace: guest.Workspace) -> None:
    code = "\n".join(["def f0(): return 1 / 0", *(f"def f{n}(): return f{n - 1}()" for n in range(1, 9)), "f8()"])
    assert len(step(workspace, code)["message"].splitlines()) == 1 + 4
    message = step(workspace, f"1 / 0 + {' + '.join('9' * 100)}")["message"]
    assert len(message.splitlines()[1].partition("line 1: ")[2]) == 200 // 2, "and as much of its end"


def test_an_error_within_the_standard_library_is_told_by_the_line_that_led_there(workspace: guest.Workspace) -> None:
    outcome = step(workspace, "import json\njson.loads('{')")
    assert outcome["message"].splitlines()[1:] == ["  step 1, line 2: json.loads('{')"]


def test_an_error_that_can_not_say_what_it_is_is_told_all_the_same(workspace: guest.Workspace) -> None:
    code = "class Odd(Exception):\n    def __str__(self): raise ValueError\n    __repr__ = __str__\nraise Odd"
    assert step(workspace, code)["message"].startswith("Odd: <Odd: its text can't be made (ValueError)>")


def test_code_that_can_not_be_parsed_is_told_with_its_line(workspace: guest.Workspace) -> None:
    outcome = step(workspace, "x = 1\ny = (2")
    assert outcome["kind"] == "syntax"
    assert outcome["message"].splitlines() == ["SyntaxError: '(' was never closed", "  step 1, line 2: y = (2"]


@pytest.mark.parametrize(
    "code", ["exit()", "import sys; sys.exit(1)", "import os; os._exit(1)", "import os; os.abort()"]
)
def test_a_step_can_not_end_python(workspace: guest.Workspace, code: str) -> None:
    assert step(workspace, code)["message"].startswith("SystemExit: nothing ends this way; call SUBMIT")


def test_variables_are_measured_without_functions_modules_and_private_names(workspace: guest.Workspace) -> None:
    outcome = step(
        workspace, "import json\ndef f(): pass\nclass C: pass\n_hidden = 1\na = 'four'\nb = [1, 22]\nc = 'x'"
    )
    assert outcome["variable_types"] == {"str": 2, "list": 1}
    assert outcome["variables_n"] == 3 and outcome["variables_chars"] == len("four") + len("122") + len("x")


def test_the_size_of_a_huge_variable_is_not_counted_to_the_end() -> None:
    assert guest.size_chars([["x" * 10] * 1_000] * 100_000) <= 10 * guest.LIMITS["counted"]


def test_the_last_expression_is_the_value_also_after_a_future_import(workspace: guest.Workspace) -> None:
    outcome = step(workspace, "from __future__ import annotations\nimport asyncio\nawait asyncio.sleep(0)\n'done'")
    assert outcome["value"] == "done"


def test_functions_of_an_earlier_task_are_gone_and_what_a_step_named_so_stays(workspace: guest.Workspace) -> None:
    given = [{"name": name, "doc": "", "parameters": []} for name in ("first", "second")]
    workspace.register(json.dumps({"tools": given, "outputs": None}))
    step(workspace, "second = 2")
    workspace.register(json.dumps({"tools": [], "outputs": None}))
    assert step(workspace, "[name in globals() for name in ('first', 'second', 'SUBMIT')]")["value"] == str(
        [False, True, True]
    )


def test_a_step_has_no_future_imports_but_its_own(workspace: guest.Workspace) -> None:
    assert step(workspace, "def f(x: int): pass\nf.__annotations__['x'] is int")["value"] == "True"
    step(workspace, "def g(x: int): pass\nthere = g.__annotations__")
    assert step(workspace, "there['x'] is int")["value"] == "True"


def test_given_variables_are_set_before_the_code_runs(workspace: guest.Workspace) -> None:
    assert step(workspace, "x, y", x="float('inf')", y="{'a': None}")["value"] == "(inf, {'a': None})"


def test_a_submission_that_is_too_long_is_refused_and_told(workspace: guest.Workspace) -> None:
    outcome = step(workspace, "SUBMIT('x' * 2000)")
    assert outcome["kind"] == "error" and "1,000 are taken" in outcome["message"]


def test_only_a_bare_except_stops_a_submission(workspace: guest.Workspace) -> None:
    outcome = step(workspace, "try:\n    SUBMIT(answer=1)\nexcept Exception:\n    pass")
    assert outcome["kind"] == "final" and json.loads(outcome["final"]) == {"answer": 1}


def test_tasks_do_not_outlive_their_step(workspace: guest.Workspace) -> None:
    code = "import asyncio\nseen = []\nasync def go_on():\n    while True:\n        await asyncio.sleep(0)\n"
    outcome = step(
        workspace, code + "task = asyncio.ensure_future(go_on())\nawait asyncio.sleep(0)\nlen(asyncio.all_tasks())"
    )
    assert outcome["value"] == "2"  # asyncio.run would wait for ever if the second were not cancelled
