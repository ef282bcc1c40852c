"""The executor `rlm`: the contract, and what differs from dspy's own."""

from __future__ import annotations

from pathlib import Path

from tests.sandbox.sandboxes import require_dspy

require_dspy()
from tests.executors.contract import CodeContract  # noqa: E402
from tests.executors.runs import TASK, code  # noqa: E402
from tests.executors.section_replies import SectionReplies  # noqa: E402


class TestRlm(CodeContract, SectionReplies):
    name = "rlm"

    def test_inputs_are_put_back_before_each_step(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, code("question = 'another'"), code("print(question)"), self.submits())
        assert made.run(self.name, self.interpreters).steps[1].output.strip() == TASK
