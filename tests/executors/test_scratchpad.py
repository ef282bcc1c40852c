"""The executor `scratchpad`: the contract, and what its prompts and its variables hold."""

from __future__ import annotations

from pathlib import Path

from tests.sandbox.sandboxes import require_dspy

require_dspy()
from rbank_es.errors import LmFailed  # noqa: E402
from rbank_es.sandbox.interpreter import SessionLost  # noqa: E402
from tests.executors.contract import CodeContract, Dying  # noqa: E402
from tests.executors.runs import TASK, code  # noqa: E402
from tests.executors.section_replies import SectionReplies  # noqa: E402


class TestScratchpad(CodeContract, SectionReplies):
    name = "scratchpad"

    def test_the_prompt_holds_the_latest_steps_whole_and_each_earlier_one_as_a_line(self, tmp_path: Path) -> None:
        steps = [code(f"print('begins {number}')\nprint('ends {number}')") for number in range(6)]
        made = self.setting(tmp_path, *steps, self.submits())
        made.run(self.name, self.interpreters, history_entries=2)
        prompt = made.turns.prompt()
        assert [number for number in range(6) if f"Step {number + 1} gave:" in prompt] == [4, 5]
        shortened = [line.strip() for line in prompt.splitlines() if "(shortened)" in line]
        assert len(shortened) == 4 and shortened[0].startswith("Step 1 (shortened): print('begins 0')")
        assert shortened[0].endswith("-> begins 0 ends 0")

    def test_where_the_prompt_is_too_long_more_steps_are_shown_by_a_line(self, tmp_path: Path) -> None:
        too_long = LmFailed("context_too_long", "too long", "choose another model")
        steps = [code(f"print('seen {number}')") for number in range(4)]
        made = self.setting(tmp_path, *steps, too_long, too_long, self.submits())
        made.run(self.name, self.interpreters)
        assert [made.turns.prompt(number).count("(shortened)") for number in (-3, -2, -1)] == [0, 2, 3]

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
