"""The executor `scratchpad`: a loop over one dspy.Predict and one interpreter. Importing this module loads dspy.

Variables last from step to step. The inputs are set once, and again only after a lost session, because a second
assignment would undo the agent's changes. The prompt holds the latest steps whole and each earlier one as a line.
Otherwise the total length of prompts would grow with the square of the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dspy

from rbank_es.executors.agent_reply import take_steps
from rbank_es.executors.agent_step import (
    CODE_FORM,
    CodeOutcome,
    StepQuestions,
    code_signature,
    make_sandboxes,
    open_interpreter,
    run_code,
    take_code_step,
)
from rbank_es.executors.executor import Ending, Executor, Recorder, RunLimits
from rbank_es.executors.instructions import code_instructions
from rbank_es.executors.step_history import ShownSteps
from rbank_es.executors.sub_calls import sub_calls
from rbank_es.executors.submission import Submission
from rbank_es.sandbox.step_outcome import LOSSES

if TYPE_CHECKING:
    from rbank_es.models.run_models import Lms
    from rbank_es.tools.shared.toolbox import Toolbox

_SHOWN = " Only your latest steps are shown to you whole: keep what you find in variables."


class Scratchpad(Executor):
    """The executor `scratchpad`: code, with only the latest steps whole in the prompt."""

    frame_chars = 2_100

    def work(self, task: str, context: str, tools: Toolbox, recorder: Recorder, lms: Lms, limits: RunLimits) -> Ending:
        """Take steps in one interpreter."""
        interpreters = self.interpreters or make_sandboxes(limits)
        subcalls = sub_calls(lms, limits, tools.session)
        execution = getattr(interpreters, "execution_instructions", "")
        predict = dspy.Predict(
            code_signature(code_instructions(tools, limits.subcalls, execution, _SHOWN), "scratchpad")
        )
        inputs: dict[str, Any] = {"context": context, "question": task}
        shown = ShownSteps(CODE_FORM, tools, limits)
        questions = StepQuestions("scratchpad", shown, recorder, lms, self.sampling, limits.history_entries)
        with open_interpreter(interpreters, {**tools.functions, **subcalls.functions}) as interpreter:
            run = _PadCode(interpreter, inputs, recorder)

            def step(number: int) -> Submission | None:
                index = recorder.next_step()
                action = questions.ask(predict, **inputs, iteration=f"{number}/{limits.iterations}")
                return take_code_step(recorder, index, action, run)

            return take_steps(recorder, limits.iterations, step, lambda: questions.force(**inputs))


class _PadCode:
    """Runs the code of replies in one interpreter, which is given the inputs once."""

    def __init__(self, interpreter: Any, inputs: dict[str, str], recorder: Recorder) -> None:
        self._interpreter, self._inputs, self._recorder = interpreter, inputs, recorder
        self._is_given = False

    def __call__(self, reply: str, wall_s: float) -> tuple[str, CodeOutcome]:
        given = {} if self._is_given else self._inputs
        code, ran = run_code(self._interpreter, reply, wall_s, given, self._recorder.told())
        # Code that never ran assigned no inputs, and a lost session lost them.
        if ran.fault not in ("no_code", "syntax"):
            self._is_given = ran.fault not in LOSSES
        return code, ran
