"""The executor `scratchpad`: the contract, and what its prompts and its variables hold."""

from __future__ import annotations

from pathlib import Path

from tests.sandbox.sandboxes import require_dspy

require_dspy()
from rbank_es.sandbox.interpreter import SessionLost  # noqa: E402
from tests.executors.contract import CodeContract, Dying  # noqa: E402
from tests.executors.runs import TASK, code  # noqa: E402
from tests.executors.section_replies import SectionReplies  # noqa: E402


class TestScratchpad(CodeContract, SectionReplies):
    name = "scratchpad"

    def test_inputs_are_given_once(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, code("question = 'another'"), code("print(question)"), self.submits())
        result = made.run(self.name, self.interpreters)
        assert result.steps[1].output.strip() == "another" and TASK in made.turns.prompt()

    def test_inputs_are_given_again_where_a_session_was_lost(self, tmp_path: Path) -> None:
        interpreter = Dying(["one", "two", SessionLost("all variables are gone", "memory"), "four", "five"])
        made = self.setting(tmp_path, *["prose", *[code("pass")] * 5])
        made.run(self.name, lambda: interpreter, iterations=5)
        given = ["context", "question"]
        assert interpreter.variables == [given, [], [], given]
