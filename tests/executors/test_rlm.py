"""The executor `rlm`: the contract, and what differs from dspy's own."""

from __future__ import annotations

from pathlib import Path

from tests.executors.sandboxes import require_dspy

require_dspy()
from rbank_es.executors.protocol import RunLimits, executor_named  # noqa: E402
from tests.executors.contract import CodeContract  # noqa: E402
from tests.executors.runs import TASK, Setting, code, local  # noqa: E402


class TestRlm(CodeContract):
    name = "rlm"

    def test_a_context_of_the_largest_budgets_is_shown_whole(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, self.submits())
        made.begin()
        context = "\n".join(f"line {number} of what is known" for number in range(200))
        executor = executor_named("rlm", interpreters=local)
        executor.execute(TASK, context, made.tools, made.recorder, made.lms, RunLimits())
        lines = [line.strip() for line in made.turns.prompt().splitlines()]
        assert all(lines.count(line) == 1 for line in context.splitlines())

    def test_the_whole_history_is_in_every_prompt(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, *[code(f"print('seen {number}')") for number in range(8)], self.submits())
        made.run(self.name, self.interpreters)
        assert all(f"print('seen {number}')" in made.turns.prompt() for number in range(8))

    def test_inputs_are_put_back_before_each_step(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, code("question = 'another'"), code("print(question)"), self.submits())
        assert made.run(self.name, self.interpreters).steps[1].output.strip() == TASK

    def test_limits_are_told_to_the_agent(self, tmp_path: Path) -> None:
        made = Setting(tmp_path / "bank", [code("print(1)"), self.submits()])
        made.run(self.name, self.interpreters, iterations=7, subcalls=3)
        assert "max 3 sub-LLM calls" in made.turns.prompt() and "2/7" in made.turns.prompt()
