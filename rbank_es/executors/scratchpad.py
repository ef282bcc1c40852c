"""The executor `scratchpad`: a loop over one dspy.Predict and one interpreter. Importing this module loads dspy.

Variables last from step to step. The inputs are set once, and again only after a lost session, because a second
assignment would undo the agent's changes. The prompt holds the latest steps whole and each earlier one as a line.
Otherwise the total length of prompts would grow with the square of the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dspy

from rbank_es.executors.agent_reply import ask_shortened, force_answer
from rbank_es.executors.agent_step import (
    CODE_FORM,
    CodeOutcome,
    ForcedAnswer,
    ask,
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
        with open_interpreter(interpreters, {**tools.functions, **subcalls.functions}) as interpreter:
            shown = ShownSteps(CODE_FORM, tools, limits)
            forced = ForcedAnswer("scratchpad", lms, self.sampling)
            inputs = {"context": context, "question": task}
            return _Pad(inputs, recorder, limits, interpreter, predict, shown, forced).run()


class _Pad:
    """One run."""

    def __init__(
        self,
        inputs: dict[str, str],
        recorder: Recorder,
        limits: RunLimits,
        interpreter: Any,
        predict: Any,
        shown: ShownSteps,
        forced: ForcedAnswer,
    ) -> None:
        self._inputs, self._recorder, self._limits = inputs, recorder, limits
        self._interpreter, self._predict, self._shown = interpreter, predict, shown
        self._forced = forced
        self._is_given = False
        self._shown_by_a_line = 0

    def run(self) -> Ending:
        """Take steps until one submits or there are no more."""
        for number in range(1, self._limits.iterations + 1):
            if self._recorder.spent is not None:
                break
            submitted = self._step(number)
            if submitted is not None:
                return submitted
        return force_answer(self._recorder, lambda: self._ask(self._forced, advise=False))

    def _step(self, number: int) -> Ending | None:
        index = self._recorder.next_step()
        iteration = f"{number}/{self._limits.iterations}"
        action = self._ask(self._predict, iteration=iteration)
        submission = take_code_step(self._recorder, index, action, self._run_code)
        return Ending("submitted", submission) if submission is not None else None

    def _run_code(self, reply: str, wall_s: float) -> tuple[str, CodeOutcome]:
        given = {} if self._is_given else self._inputs
        code, ran = run_code(self._interpreter, reply, wall_s, given, self._recorder.told())
        # Code that never ran assigned no inputs, and a lost session lost them.
        if ran.fault not in ("no_code", "syntax"):
            self._is_given = ran.fault not in LOSSES
        return code, ran

    def _ask(self, predict: Any, *, advise: bool = True, **inputs: Any) -> Any:
        """Ask the model about its steps so far."""
        steps = self._recorder.steps

        def ask_with(by_a_line: int) -> Any:
            return ask(predict, **self._inputs, **inputs, scratchpad=self._shown.text(steps, by_a_line, advise=advise))

        # Once shortened, a history stays so, because the model's limit doesn't grow.
        earlier = max(self._shown_by_a_line, len(steps) - self._limits.history_entries)
        given, self._shown_by_a_line = ask_shortened(ask_with, earlier, len(steps), self._recorder.giving_way)
        return given
