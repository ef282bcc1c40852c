"""The executor `tools`: the contract, and replies with several calls, odd names, or calls that can't be read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.sandboxes import require_dspy

require_dspy()
from rbank_es.bank import Bank  # noqa: E402
from rbank_es.errors import LmFailed  # noqa: E402
from rbank_es.limits import reply_limits  # noqa: E402
from rbank_es.loop.closed_loop import run_closed_loop  # noqa: E402
from rbank_es.loop.settings import LoopSettings  # noqa: E402
from rbank_es.loop.tasks import Task  # noqa: E402
from rbank_es.models.model_call import failed  # noqa: E402
from rbank_es.models.model_choice import LmChoice  # noqa: E402
from tests.executors.contract import AdvisedContract, tool_calls  # noqa: E402
from tests.executors.runs import Calls, Cut, Setting, Turns  # noqa: E402
from tests.loop.loops import source  # noqa: E402
from tests.test_floors import ROOT  # noqa: E402

ROCK, SAND = ("find", {"word": "rock"}), ("find", {"word": "sand"})


def conversation(made: Setting, number: int = -1) -> list[Any]:
    """The messages of a request of the agent."""
    return list(made.turns.requests[number].messages)


def faults(made: Setting) -> list[str | None]:
    return [step.error_code for step in made.steps]


class TestTools(AdvisedContract):
    name = "tools"
    interpreters = None

    def calls(self, tool: str, **arguments: Any) -> str:
        return Calls((tool, arguments), words="I think.")

    def submits(self, text: Any = "Three.", **fields: Any) -> str:
        return Calls(("SUBMIT", {"answer": text, "sparql": "", "evidence": {}, **fields}))

    def answers(self, text: str, sparql: str = "", evidence: Any = None) -> str:
        return self.submits(text, sparql=sparql, evidence=evidence)

    def half_said(self) -> str:
        return "I have a plan, and no call."

    def test_common_tools_have_a_line_in_their_order_and_rare_ones_are_named(self, tmp_path: Path) -> None:
        """As functions, with schemas that a server can read, instead of lines."""
        made = self.setting(tmp_path, self.submits())
        made.run(self.name)
        offered = made.turns.requests[0].tools
        common = [each.name for each in made.tools.manual() if not each.rare]
        assert [each.name for each in offered] == [*common, "llm_query", "llm_query_batched", "SUBMIT"]
        assert all(name in str(made.turns.requests[0].system) for name in {*made.tools.functions} - {*common})
        find = next(each for each in offered if each.name == "find")
        assert find.parameters == {
            "type": "object",
            "properties": {"word": {"type": "string"}, "k": {"type": "integer"}},
            "required": ["word"],
        }
        for each in offered:
            assert each.description and "$ref" not in json.dumps(each.parameters)
            assert all(property_.keys() & {"type", "enum"} for property_ in each.parameters["properties"].values())

    def test_calls_of_one_reply_are_made_in_their_order(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, Calls(ROCK, ("refuse", {"word": "x"}), SAND, words="All three."), self.submits())
        result = made.run(self.name)
        assert (result.outcome, result.iterations, faults(made)) == ("submitted", 2, [None, None])
        assert [each.tool for each in tool_calls(made)] == ["find", "refuse", "find"]
        step = made.steps[0]
        assert [json.loads(each)["tool"] for each in str(step.code).splitlines()] == ["find", "refuse", "find"]
        assert str(step.output).index("rock light") < str(step.output).index("sand light")
        task, said, told = conversation(made)
        assert [part.type for part in said.parts] == ["text", *["tool_call"] * 3] and said.parts[0].text == "All three."
        assert [part.id for part in told.parts] == [part.id for part in said.parts[1:]]
        assert "sand light" in told.parts[2].content[0].text and task.role == "user"

    def test_a_call_that_was_made_before_is_told_to_be_so_and_recorded_as_it_was(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, Calls(ROCK), Calls(ROCK), self.submits())
        assert made.run(self.name).outcome == "submitted" and len(tool_calls(made)) == 2
        assert made.turns.prompt().count("You have it already") == 1 and "You have it" not in str(made.steps[1].output)

    def test_a_bare_value_is_the_one_argument_that_a_tool_needs(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, Calls(("find", '"rock"')), self.submits())
        made.run(self.name)
        assert made.steps[0].error_code is None and "value was taken as word" in str(made.steps[0].output)

    def test_calls_past_the_bound_of_a_reply_are_not_made_and_the_agent_is_told(self, tmp_path: Path) -> None:
        most = reply_limits.REPLY_CALLS
        made = self.setting(tmp_path, Calls(*[ROCK] * (most + 3)), self.submits())
        assert made.run(self.name).outcome == "submitted"
        assert len(tool_calls(made)) == most and len(conversation(made)[1].parts) == most
        assert f"(3 more calls were not made: a reply may have {most} of them.)" in made.turns.prompt()

    @pytest.mark.parametrize(
        "arguments", ['{"word": "ro', "rock", '["rock"]', "7", "{'word'}", '{"word": "\ud800"', "[" * 5_000]
    )
    def test_arguments_that_cant_be_read_are_an_answer(self, tmp_path: Path, arguments: str) -> None:
        """They are not sent again: a server that parses its own history would refuse every later request."""
        made = self.setting(tmp_path, Calls(("find", arguments)), self.submits())
        result = made.run(self.name)
        assert (result.outcome, len(made.steps)) == ("submitted", 2) and made.steps[0].error_code is not None
        assert "bad_arguments" in made.turns.prompt() and "partial_json" not in made.turns.prompt()

    @pytest.mark.parametrize("arguments", ["{'word': 'rock',}", '```json\n{"word": "rock"}\n```', '{word: "rock"}'])
    def test_arguments_in_another_notation_are_read(self, tmp_path: Path, arguments: str) -> None:
        made = self.setting(tmp_path, Calls(("find", arguments)), self.submits())
        made.run(self.name)
        assert json.loads(str(made.steps[0].code)) == {"tool": "find", "args": {"word": "rock"}}

    @pytest.mark.parametrize("arguments", ["null", "", "{}"])
    def test_no_arguments_may_be_written_in_any_way(self, tmp_path: Path, arguments: str) -> None:
        made = self.setting(tmp_path, Calls(("broken_tool", arguments)), self.submits())
        made.run(self.name)
        assert [each.error_code for each in tool_calls(made)] == ["tool_failed"]

    @pytest.mark.parametrize("name", ["find light!", "é", "x" * 200, "functions.find", " "])
    def test_a_name_that_the_protocol_does_not_know_is_an_answer(self, tmp_path: Path, name: str) -> None:
        made = self.setting(tmp_path, Calls((name, {})), self.submits())
        assert made.run(self.name).outcome == "submitted" and faults(made) == ["unknown_tool", None]
        _, said, _ = conversation(made)
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", said.parts[0].name)

    @pytest.mark.parametrize(
        "words",
        [
            '{"name": "find", "arguments": {"word": "rock"}}',
            '<tool_call>\n{"name": "find", "arguments": {"word": "rock"}}\n</tool_call>',
            '```json\n{"name": "find", "parameters": {"word": "rock"}}\n```',
            '[{"type": "function", "function": {"name": "find", "arguments": {"word": "rock"}}}]',
            '<|python_tag|>{"name": "find", "arguments": {"word": "rock"}}',
            'I look:\n```json\n{"name": "find", "arguments": {"word": "rock"}}\n```\nThen I count what it finds.',
            'Now {"name": "find", "arguments": {"word": "rock"}}',
            'find({"word": "rock"})',
            "Thought: I look.\nAction: find\nAction Input: {'word': 'rock'}",
        ],
    )
    def test_a_call_that_is_written_out_is_a_call(self, tmp_path: Path, words: str) -> None:
        """Servers pass on as text what they don't know for a call; it is shown again as one."""
        made = self.setting(tmp_path, words, self.submits())
        made.run(self.name)
        assert json.loads(str(made.steps[0].code)) == {"tool": "find", "args": {"word": "rock"}}
        assert [part.type for part in conversation(made)[1].parts] == ["tool_call"]

    @pytest.mark.parametrize(
        "words",
        [
            'I would not write {"name": "find", "arguments": {"word": "rock"}} here.',
            'For example {"name": "find", "arguments": {"word": "rock"}} finds a rock.',
            'Then {"name": "find", "arguments": {"word": "a"}} or {"name": "find", "arguments": {"word": "b"}}.',
            'I call {"name": "find", "arguments": {"wrod": "rock"}} now.',
            'I call {"name": "find", "arguments": {}} now.',
            '{"name": "no_such_tool", "arguments": {}}',
            '{"name": "find"}',
            '{"name": "find", "arguments": {"word": "rock"',
            '{"name": "find", "arguments": {"word": "a", "word": "b"}}',
        ],
    )
    def test_a_call_amid_words_or_half_written_is_none(self, tmp_path: Path, words: str) -> None:
        made = self.setting(tmp_path, words, self.submits())
        made.run(self.name)
        assert faults(made) == ["unreadable", None] and not tool_calls(made)

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("find", "it calls find with other arguments than word"),
            ("lt:Light", "it calls lt:Light, and there is no such tool"),
            ("SUBMIT", "it calls SUBMIT with other arguments than answer, sparql, evidence"),
        ],
    )
    def test_a_call_amid_words_that_can_not_be_made_is_told_as_such(self, tmp_path: Path, name: str, told: str) -> None:
        """A model that was told that it calls no tool made the same call again."""
        call = json.dumps({"name": name, "arguments": {"wrod": "rock"}})
        made = self.setting(tmp_path, f"I look:\n```json\n{call}\n```\nThen I count what it finds.", self.submits())
        made.run(self.name)
        assert told in made.turns.prompt(1)

    def test_a_reply_without_a_call_is_answered_and_not_shown_again(self, tmp_path: Path) -> None:
        """No two messages of one side follow each other, none is empty: some servers refuse both."""
        made = self.setting(tmp_path, "First I look.", Calls(ROCK), Cut("So I"), "", "", "", self.submits())
        assert made.run(self.name).outcome == "submitted"
        roles = [each.role for each in conversation(made)]
        # Only calls are shown, because models say again what they read of themselves.
        assert roles == ["user", "assistant", "tool"] and "First I look." not in made.turns.prompt(1)
        assert all(part for each in conversation(made) for part in each.parts)
        assert "it calls no tool" in made.turns.prompt(1) and "it was cut at its bound" in made.turns.prompt(3)

    @pytest.mark.parametrize("refuses", [False, True])
    def test_behind_a_reply_without_a_call_one_is_required_unless_the_server_refuses_that(
        self, tmp_path: Path, refuses: bool
    ) -> None:
        said = [failed("refused", "no tool_choice here")] if refuses else []
        made = self.setting(tmp_path, "prose", *said, "prose", Calls(ROCK), self.submits())
        assert made.run(self.name).outcome == "submitted"
        required = [getattr(each.config.tool_choice, "mode", "") == "required" for each in made.turns.requests]
        # From the second such reply on each step has to be a call.
        assert required == ([False, True, False, False, False] if refuses else [False, True, True, True])

    @pytest.mark.parametrize("last", ["tool", "user"])
    def test_the_forced_answer_is_asked_for_behind_the_last_words(self, tmp_path: Path, last: str) -> None:
        said = Calls(ROCK) if last == "tool" else "prose"
        made = self.setting(tmp_path, said, self.submits("Two."))
        result = made.run(self.name, iterations=1)
        assert (result.outcome, result.answer) == ("forced_at_limit", "Two.")
        request = made.turns.requests[-1]
        assert [each.name for each in request.tools] == ["SUBMIT"] and request.config.tool_choice.mode == "required"
        shown = ["user", "assistant", "tool"] if last == "tool" else ["user"]
        assert [each.role for each in request.messages] == shown
        assert "call SUBMIT now" in made.turns.prompt() and "call SUBMIT now" not in made.turns.prompt(0)

    def test_a_shortened_history_keeps_each_call_with_its_answer(self, tmp_path: Path) -> None:
        too_long = LmFailed("context_too_long", "too long", "choose another model")
        said = [Calls(("find", {"word": f"w{number}"}), ROCK) for number in range(5)]
        made = self.setting(tmp_path, *said, too_long, too_long, self.submits())
        assert made.run(self.name).outcome == "submitted"
        for number in (-3, -2, -1):
            task, *others = conversation(made, number)
            for call, answer in zip(others[::2], others[1::2], strict=True):
                assert [part.id for part in call.parts] == [part.id for part in answer.parts]
        assert len(conversation(made)) == 1 + 2 and "w4 light" in made.turns.prompt()
        assert "(Your steps 1 to 4 are left out" in conversation(made)[0].text


def test_a_rare_tool_is_offered_once_its_manual_was_asked_for(tmp_path: Path) -> None:
    """A short manual only names it, and a model can only call what it was offered."""
    turns = Turns([Calls(("tools", {"name": "g_props"})), Calls(("SUBMIT", {"answer": "Two."}))])
    settings = LoopSettings(lm=LmChoice(model="test/turns"), executor="tools", judge="none", extract=False)
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        run_closed_loop([Task(id="t", question="?")], bank, settings, source(), model_for=turns.model_for)
    before, after = ([tool.name for tool in request.tools] for request in turns.requests)
    assert "g_props" not in before and "g_props" in turns.prompt(0) and set(after) - set(before) == {"g_props"}


SCRIPT = """
[[task]]
id = "*"
[[task.agent]]
reasoning = "Count them."
calls = [{ tool = "g_classes" }, { tool = "sparql_query", args = { query = "SELECT ?l { ?l a lt:Lightship }" } }]
[[task.agent]]
expects = ["results_0"]
calls = [{ tool = "SUBMIT", args = { answer = "There are two.", evidence = ["results_0"] } }]
"""
WITHOUT = """
import sys
from pathlib import Path
from rbank_es.bank import Bank
from rbank_es.data import lights
from rbank_es.loop.closed_loop import run_closed_loop
from rbank_es.loop.settings import LoopSettings
from rbank_es.loop.tasks import Task
from rbank_es.models.model_choice import LmChoice
settings = LoopSettings(lm=LmChoice(model="script:turns.toml"), executor="tools", judge="none", extract=False)
task = Task(id="t", question="How many lightships are there?")
with Bank.create("./bank", unsafe_no_sync=True) as bank:
    [result] = run_closed_loop([task], bank, settings, lights().ontology)
print(result.outcome, result.answer, "dspy" in sys.modules)
"""


@pytest.mark.slow
def test_a_run_from_a_script_needs_no_dspy(tmp_path: Path) -> None:
    (tmp_path / "turns.toml").write_text(SCRIPT)
    command = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "submitted There are two. False\n", done.stderr
