"""The executor `react`: the contract, and calls of tools that are written in any way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.sandboxes import require_dspy

require_dspy()
from rbank_es.models.scripted_model import rendered  # noqa: E402
from tests.executors.runs import call  # noqa: E402
from tests.executors.section_replies import SectionReplies  # noqa: E402


class TestReact(SectionReplies):
    name = "react"
    interpreters = None

    def calls(self, tool: str, **arguments: Any) -> str:
        return call(tool, arguments)

    def submits(self, text: Any = "Three.", **fields: Any) -> str:
        return call("SUBMIT", {"answer": text, "sparql": "", "evidence": {}, **fields})

    def half_said(self) -> str:
        return rendered({"next_thought": "I have a plan.", "next_tool_name": "find"})

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("find(word='rock', k=2)", {}),
            ("find(word, k=6) - Find lights by a word. Example: find('rock')['key']", {"word": "rock", "k": 2}),
            ("`find`(word)", {"word": "rock", "k": 2}),
            ("find(word='sand')", {"word": "rock", "k": 2}),
        ],
    )
    def test_a_call_or_a_line_of_the_manual_names_its_tool(self, tmp_path: Path, name: str, arguments: Any) -> None:
        """Arguments where they belong count; those of the call where there are none, if they are values."""
        made = self.setting(tmp_path, call(name, arguments), self.submits())
        made.run(self.name)
        assert json.loads(str(made.steps[0].code)) == {"tool": "find", "args": {"word": "rock", "k": 2}}

    def test_names_in_the_place_of_values_are_no_answer(self, tmp_path: Path) -> None:
        """The line of the prompt that shows how to submit was copied, and nothing was found yet."""
        made = self.setting(tmp_path, call("SUBMIT(answer=depth, sparql=query, evidence=keys)"), self.submits())
        result = made.run(self.name)
        assert [step.fault for step in result.steps] == ["refused", None]

    def test_why_arguments_cant_be_read_is_said_in_words_for_the_agent(self, tmp_path: Path) -> None:
        """It was another library's message, with the address of its pages."""
        said = rendered({"next_thought": "t", "next_tool_name": "find", "next_tool_args": "rock"})
        made = self.setting(tmp_path, said, self.submits())
        made.run(self.name)
        told = str(made.steps[0].output)
        assert "`next_tool_args` is not a JSON object" in told and "ydantic" not in told and "http" not in told

    @pytest.mark.parametrize("arguments", ["rock", "[1, 2]", "null", "{'word'", '{"word": "rock"', "7"])
    def test_arguments_that_are_no_object_cost_a_step_at_most(self, tmp_path: Path, arguments: str) -> None:
        said = rendered({"next_thought": "t", "next_tool_name": "find", "next_tool_args": arguments})
        result = self.setting(tmp_path, said, self.submits()).run(self.name)
        assert (result.outcome, result.iterations) == ("submitted", 2)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "arguments",
        [
            '{"word": "\\ud800"}',
            '{"word": "\\u0000"}',
            '{"word": NaN}',
            '{"word": 1e999}',
            '{"1": 2}',
            '{"word": null}',
            '{"word": {"a": [[[[1]]]]}}',
        ],
    )
    def test_arguments_that_no_text_can_hold_are_taken(self, tmp_path: Path, arguments: str) -> None:
        said = rendered({"next_thought": "t", "next_tool_name": "find", "next_tool_args": arguments})
        made = self.setting(tmp_path, said, self.submits())
        assert made.run(self.name).outcome == "submitted"
        assert made.bank.check().events == made.bank.position

    def test_a_long_answer_of_a_tool_is_shown_shortened(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, call("llm_query", {"prompt": "x" * 9_000}), self.submits())
        made.run(self.name, output_chars=100)
        assert "X" * 50 not in made.turns.prompt() and "characters left out" in made.turns.prompt()
        assert "X" * 9_000 in str(made.steps[0].output)
