"""The executor `rlm`: the contract, and what differs from dspy's own."""

from __future__ import annotations

from pathlib import Path

from tests.sandbox.sandboxes import require_dspy

require_dspy()
from tests.executors.contract import CodeContract  # noqa: E402
from tests.executors.runs import TASK, Setting, code  # noqa: E402
from tests.executors.section_replies import SectionReplies  # noqa: E402


class TestRlm(CodeContract, SectionReplies):
    name = "rlm"

    def test_the_whole_history_is_in_every_prompt(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, *[code(f"print('seen {number}')") for number in range(6)], self.submits())
        made.run(self.name, self.interpreters)
        assert all(f"Step {number + 1} gave:\nseen {number}" in made.turns.prompt() for number in range(6))

    def test_inputs_are_put_back_before_each_step(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, code("question = 'another'"), code("print(question)"), self.submits())
        assert made.run(self.name, self.interpreters).steps[1].output.strip() == TASK

    def test_limits_are_told_to_the_agent(self, tmp_path: Path) -> None:
        made = Setting(tmp_path / "bank", [code("print(1)"), self.submits()])
        made.run(self.name, self.interpreters, iterations=7, subcalls=3)
        assert "3 prompts in all" in made.turns.prompt() and "2/7" in made.turns.prompt()

    def test_of_an_output_that_no_sandbox_cut_80_000_characters_are_kept(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, code("print('x' * 300_000)"), self.submits())
        kept = made.run(self.name, self.interpreters).steps[0].output
        assert kept.count("x") == 80_000 - 50 and "220,050 characters left out" in kept
