"""The executor `rlm`: dspy.RLM, with each step recorded as it happens. Importing this module loads dspy.

Differences from dspy 3.4 (found in its source and by running it):

- `_execute_iteration` is replaced, because in dspy an unparsable reply ends the run without a record. Here it costs an
  iteration, and the agent gets the reason.
- Sub-agents are never installed, because no limit of the run covers their calls. Sub-calls are this project's, because
  all executors must count them alike.
- Tools are called without dspy's validation, because they validate and record their arguments themselves.
- Instructions are this project's, a third as long, and the context is shown whole. dspy shows the first and last 500
  characters of a variable, which truncates instructions.
- The history has the form of replies. A prompt that is too long for the model shows earlier steps by a line each; in
  dspy it ends the run.
- A failure of the call that forces the answer leaves the outcome `forced_at_limit`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import dspy

from rbank_es.executors.agent_step import (
    CODE_FORM,
    AgentTask,
    StepQuestions,
    code_signature,
    extract_signature,
    make_sandboxes,
    run_code,
    take_code_step,
)
from rbank_es.executors.executor import Ending, Executor, Interpreters, Recorder, RunLimits
from rbank_es.executors.instructions import code_instructions
from rbank_es.executors.step_history import ShownSteps
from rbank_es.executors.sub_calls import SubCalls, sub_calls

if TYPE_CHECKING:
    from rbank_es.models.run_models import Lms
    from rbank_es.tools.shared.toolbox import Toolbox


_HISTORY = "repl_history"


class Rlm(Executor):
    """The executor `rlm`: code, with the whole history in every prompt."""

    frame_chars = 2_100

    def work(self, task: str, context: str, tools: Toolbox, recorder: Recorder, lms: Lms, limits: RunLimits) -> Ending:
        """Run a `RecordedRLM`."""
        subcalls = sub_calls(lms, limits, tools.session)
        questions = StepQuestions(_HISTORY, ShownSteps(CODE_FORM, tools, limits), recorder, lms, self.sampling)
        rlm = RecordedRLM(tools, recorder, subcalls, limits, self.interpreters or make_sandboxes(limits), questions)
        ending: Ending = rlm(context=context, question=task).ending
        return ending


# Any, because dspy's decorator for experimental classes hides from type checkers that this is a class.
_RLM: Any = dspy.RLM


class RecordedRLM(_RLM):
    """One run of dspy.RLM. Its prediction has one field, `ending`."""

    def __init__(
        self,
        tools: Toolbox,
        recorder: Recorder,
        subcalls: SubCalls,
        limits: RunLimits,
        interpreters: Interpreters,
        questions: StepQuestions,
    ) -> None:
        self._tools, self._limits, self._interpreters = tools, limits, interpreters
        self._inputs: dict[str, Any] = {}
        self._recorder, self._subcalls, self._questions = recorder, subcalls, questions
        super().__init__(
            AgentTask,
            max_iters=limits.iterations,
            max_llm_calls=limits.subcalls,
            max_output_chars=limits.output_chars,
            tools=list(tools.functions.values()),
            interpreter_factory=interpreters,
        )

    # ---------------------------------------------------------------- tools

    def _normalize_tools(self, tools: list[Callable[..., Any]] | None) -> dict[str, Any]:
        return {function.__name__: function for function in tools or ()}

    def _make_interpreter_tool(self, tool: Callable[..., Any]) -> Callable[..., Any]:
        return tool

    def _make_llm_tools(self, budget: object = None, max_workers: int = 8) -> dict[str, Callable[..., Any]]:
        return self._subcalls.functions

    # dspy describes sub-agents in the prompt only if this returns a text.
    def _setup_facade(self, repl: Any, budget: Any, interpreter_factory: Any) -> str:
        return ""

    # ---------------------------------------------------------------- prompts

    def _build_signatures(self) -> tuple[Any, Any]:
        execution = getattr(self._interpreters, "execution_instructions", "")
        step = code_signature(code_instructions(self._tools, self._limits.subcalls, execution), _HISTORY)
        return step, extract_signature(_HISTORY)

    # ---------------------------------------------------------------- steps

    def forward(self, **inputs: Any) -> Any:
        """Take steps until one submits or there are no more."""
        self._inputs = inputs
        return super().forward(**inputs)

    def _execute_iteration(
        self,
        repl: Any,
        variables: list[Any],
        history: Any,
        iteration: int,
        input_args: dict[str, Any],
        output_field_names: list[str],
        interpreter_factory: Any,
        sub_agent_rules: str,
    ) -> Any:
        """Take one step: return the history with it, or a prediction with the run's ending."""
        if self._recorder.spent is not None:
            return self._extract_fallback(variables, history, output_field_names)
        index = self._recorder.next_step()
        number = f"{iteration + 1}/{self.max_iters}"
        action = self._questions.ask(self.generate_action, **self._inputs, iteration=number)
        run = partial(run_code, repl, variables=input_args, told=self._recorder.told())
        submission = take_code_step(self._recorder, index, action, run)
        if submission is not None:
            return dspy.Prediction(ending=Ending("submitted", submission))
        return history

    def _extract_fallback(self, variables: list[Any], history: Any, output_field_names: list[str]) -> Any:
        return dspy.Prediction(ending=self._questions.force(**self._inputs))
