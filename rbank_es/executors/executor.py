"""The base of executors, their registry, and a run of one: limits, steps, submission, result, record. Loads no dspy."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from rbank_es import limits as lim
from rbank_es.bank.recall_delivery import RecallDelivery, lesson_texts
from rbank_es.errors import BadInput, LmFailed, MissingExtra, RBankError, SandboxUnavailable
from rbank_es.events import ContextBuilt, RunFinished, StepTaken
from rbank_es.events.codec import encodable
from rbank_es.events.redaction import redact_event
from rbank_es.events.run_events import DEFAULT_BOUNDS, Outcome, RunBounds
from rbank_es.executors.run_step import RunStep, stall_of
from rbank_es.executors.submission import Submission
from rbank_es.executors.told_words import told_by_steps
from rbank_es.log.run_reader import read_run
from rbank_es.models.prompt_priorities import LAYERS_GIVING_WAY, GivingWay, PromptPart
from rbank_es.sandbox.step_outcome import RecordingDiffers
from rbank_es.system.error_messages import foreign_words
from rbank_es.system.registry import Registry, checked_result
from rbank_es.tools.shared.call_budget import check_bounds

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.models.run_models import Lms
    from rbank_es.tools.shared.call_budget import Excess
    from rbank_es.tools.shared.toolbox import Toolbox

Interpreters = Callable[[], Any]
"""Makes an interpreter (dspy's `CodeInterpreter`) for one run; a `SandboxPool` is one. The caller shuts it down.

It may have `execution_instructions`, which go to the agent."""


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one run. Raises `BadInput` for less than one iteration, or a number below 0.

    Args:
        iterations: steps; after the last, one more call asks for the answer.
        subcalls: prompts that the agent may send to the sub-model, batched or not.
        output_chars: characters of each earlier step's output that a prompt shows again.
        bounds: seconds of steps, for interpreters that the executor starts itself; the tools have a meter of theirs.
        history_entries: latest steps that the scratchpad shows whole.
    """

    iterations: int = lim.RUN_ITERATIONS
    subcalls: int = lim.RUN_SUBCALLS
    output_chars: int = lim.STEP_OUTPUT_CHARS
    bounds: RunBounds = DEFAULT_BOUNDS
    history_entries: int = lim.HISTORY_ENTRIES

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise BadInput("a run needs at least one iteration")
        check_bounds(self.bounds)
        if min(self.subcalls, self.output_chars, self.history_entries) < 0:
            raise BadInput("limits of a run can't be below 0")


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run.

    `submitted`: the agent called SUBMIT. `forced_at_limit`: its iterations or a bound of the run were used up (`bound`
    names it), and one more call asked for the answer; where that call failed, `error_code` says so and the answer is
    empty. `failed`: any other end. `error_code` is stable, for programs: the codes of `LmFailed` and
    `SandboxUnavailable`, and unreadable, sandbox_exhausted, sandbox_failed, bound_spent, stalled, replay_differs,
    not_recorded, unexpected.
    """

    run: str
    outcome: Outcome
    answer: str = ""
    sparql: str = ""
    evidence: dict[str, Any] = {}
    iterations: int = 0
    steps: tuple[RunStep, ...] = ()
    bound: str | None = None
    error_code: str | None = None
    error: str | None = None


# ---------------------------------------------------------------- the record


class RunStopped(Exception):
    """The end of a run that can't go on. `code` is stable, for programs."""

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(message)


class Recorder:
    """The recorder of one run's steps and end. It sets the current step of tools and models.

    `steps` are those that were recorded.
    """

    def __init__(self, bank: Bank, run: str, tools: Toolbox, *, clock: Callable[[], float] = time.perf_counter) -> None:
        """Record in `bank` as part of `run`; `clock` returns seconds."""
        self.bank, self.run, self.tools = bank, run, tools
        self.steps: list[RunStep] = []
        self._lms: Lms | None = None
        self._meter = tools.session.meter
        self._bound: str | None = None
        self._clock = clock
        self._began = clock()

    def begin(self, lms: Lms) -> None:
        """Begin the run with these models."""
        self._lms = lms
        lms.calls.on_record, lms.calls.meter = self._meter.wrote, self._meter
        built = read_run(self.bank.log, self.run, types={"context_built"}, resolve=True).context
        lms.calls.delivery.recall(_recalled(built))
        lms.calls.giving_way.offer((PromptPart("manual", *_manuals(self.tools)), *_layers(built)))
        self._meter.begin()
        self._began = self._clock()

    @property
    def giving_way(self) -> GivingWay:
        """What of the run's prompts may give way to the model's context."""
        return self._lms.calls.giving_way if self._lms is not None else GivingWay()

    def told(self) -> Iterator[str]:
        """Yield what the agent was told in this run in words that are not the source's."""
        yield self.tools.manual_text()
        yield from self.tools.session.told
        yield from told_by_steps(self.steps)

    def next_step(self) -> int:
        """Begin a step, and return its index, from 1, which is recorded with calls of tools and models.

        Raises `RunStopped` where an event of this run could not be recorded, no more calls may be made, the run stands
        still although the agent was told, or a bound of the run is spent: look at `spent` before.
        """
        self._check()
        self._check_spoken()
        self._check_headway()
        spent = self.spent
        if spent is not None:
            self._bound = spent.bound
            raise RunStopped("bound_spent", spent.message)
        index = len(self.steps) + 1
        self._set_step(index)
        return index

    def after_steps(self) -> None:
        """End the last step, because a limit is reached: later calls belong to none.

        Raises `RunStopped` where an event of this run could not be recorded, no more calls may be made, or the run
        stands still.
        """
        self._check()
        self._check_spoken()
        self._check_headway()
        spent = self.spent
        self._bound = spent.bound if spent is not None else "iterations"
        self._set_step(None)

    def begin_code(self) -> float:
        """Begin the time of the step's code and tools, because the model has replied; return the seconds it has."""
        self._meter.begin_code()
        return self._meter.step_left_s

    @property
    def spent(self) -> Excess | None:
        """The bound of the run that is spent, so that no further step may begin; None if there is room for one."""
        return self._meter.spent

    def step(self, step: RunStep) -> None:
        """Record a step; it is on disk on return. Raises `RunStopped` if it, or a call in it, can't be recorded."""
        event = StepTaken(
            run=self.run,
            index=step.index,
            prompt_chars=self._lms.calls.prompt_chars if self._lms is not None else None,
            stdout_chars=step.measures.stdout_chars,
            variables_n=step.measures.variables_n,
            variables_chars=step.measures.variables_chars,
            variable_types=step.measures.variable_types,
            error_code=step.fault,
            reasoning=encodable(step.reasoning) or None,
            code=encodable(step.code) or None,
            output=encodable(step.output),
        )
        try:
            # Redacted, because code can print a key of the environment that a tool returned.
            event = redact_event(event)
            self.bank.append(event)
        except (RBankError, OSError) as error:
            raise RunStopped("not_recorded", f"step {step.index} could not be recorded: {error}") from error
        self._meter.wrote(event)
        self.steps.append(msgspec.structs.replace(step, answered=self._meter.answered))
        self._check()

    def finished(self, result: RunResult) -> RunResult:
        """Record the end, and return the result with its steps. If that can't be recorded, the run failed."""
        self._set_step(None)
        result = msgspec.structs.replace(result, iterations=len(self.steps), steps=tuple(self.steps), bound=self._bound)
        try:
            self.bank.append(redact_event(self._end(result)))
        except (RBankError, OSError) as error:
            kept = msgspec.structs.replace(result, answer="", sparql="", evidence={}, outcome="failed")
            reason = result.error or f"the end of the run could not be recorded: {error}"
            return msgspec.structs.replace(kept, error_code="not_recorded", error=reason)
        return result

    def ending_of(self, code: str, message: str) -> Ending:
        """Return the end of a run that an error ended; where no further call fits its bounds, it is at a limit."""
        if code != "bound_spent" or self._meter.bound_of_models is None:
            return Ending("failed", None, code, message)
        self._bound = self._meter.bound_of_models
        return Ending("forced_at_limit", None, code, message)

    def _end(self, result: RunResult) -> RunFinished:
        # A failed run has no answer, which differs from an empty one.
        answered = result.outcome != "failed"
        delivery = self._lms.calls.delivery if self._lms is not None else RecallDelivery()
        return RunFinished(
            run=self.run,
            outcome=result.outcome,
            bound=result.bound,
            iterations=result.iterations,
            answer_chars=len(result.answer) if answered else None,
            duration_s=max(0.0, round(self._clock() - self._began, 6)),
            error_code=result.error_code,
            recall_sent=delivery.sent,
            recall_unsent=delivery.unsent,
            answer=result.answer if answered else None,
            sparql=result.sparql if answered else None,
            evidence=msgspec.json.encode(result.evidence).decode() if answered else None,
            error=encodable(result.error)[: lim.ERROR_CHARS] if result.error is not None else None,
        )

    def _set_step(self, index: int | None) -> None:
        self.tools.session.step = index
        self._meter.begin_step(index)
        if self._lms is not None:
            self._lms.calls.step = index

    def _check_spoken(self) -> None:
        """Raise `RunStopped` if the agent's model has not said a word: such a run tells nothing about the agent."""
        silent = self._lms.calls.silent if self._lms is not None else None
        if silent is not None:
            raise RunStopped(silent.code, f"the provider gave no word of the model: {silent.message}")

    def _check_headway(self) -> None:
        """Raise `RunStopped` if the agent went on as before after it was told: further steps would be in vain."""
        stall = stall_of(self.steps)
        if stall is not None and stall.is_final:
            raise RunStopped("stalled", f"{stall.words}, though the agent was told after {stall.told_after}")

    def _check(self) -> None:
        if self.tools.session.unrecorded:
            error = self.tools.session.unrecorded[0]
            raise RunStopped("not_recorded", f"a call of a tool could not be recorded: {error}") from error
        broken = self._lms.calls.broken if self._lms is not None else None
        if broken is not None:
            raise RunStopped(broken.code, broken.message) from broken


def _recalled(built: ContextBuilt | None) -> dict[str, tuple[str, ...]]:
    """Return the items that the run's context quotes, with their quotes."""
    if built is None:
        return {}
    quoted = "\n".join(text for text in built.texts if isinstance(text, str))
    return lesson_texts(quoted, dict.fromkeys(built.items, ""))


def _manuals(tools: Toolbox) -> tuple[str, str]:
    """Return the manual as prompts hold it, and one of the calls alone."""
    calls = "\n".join(f"- `{each.usage}`" for each in tools.manual() if not each.rare)
    return tools.manual_text(), calls


def _layers(built: ContextBuilt | None) -> list[PromptPart]:
    """Return the layers of the run's context that may give way, in order."""
    texts = {} if built is None else dict(zip((use.layer for use in built.layers), built.texts, strict=False))
    found = ((name, texts.get(name)) for name in LAYERS_GIVING_WAY)
    return [PromptPart(name, text) for name, text in found if isinstance(text, str)]


# ---------------------------------------------------------------- executors


class Ending(NamedTuple):
    """The end of the work on a task: its outcome, the submission if there is one, and the error if there is one."""

    outcome: Outcome
    submission: Submission | None = None
    error_code: str | None = None
    error: str | None = None


class Executor(ABC):
    """An agent's loop: it works on a task until the agent submits, the iterations are used up, or something fails.

    All executors get the same tools, context and limits, and record the same events. A subclass defines `work`.
    """

    runs_code: ClassVar[bool] = True
    """Whether the agent writes Python. If not, no sandbox is started, and a rerun needs none."""

    calls_tools: ClassVar[bool] = False
    """Whether its model must take the tool calls of the chat protocol, which is found out before the first run."""

    uses_dspy: ClassVar[bool] = True
    """Whether `work` calls the agent's model through dspy, whose context then has it."""

    frame_chars: ClassVar[int] = 2_000
    """Characters of the first prompt beside context, question and manual, within a tenth: dry runs estimate with it."""

    def __init__(
        self,
        interpreters: Interpreters | None = None,
        *,
        temperature: float | None = None,
        rollout_id: int | None = None,
    ) -> None:
        """Keep what all runs of this executor share.

        Args:
            interpreters: where the agent's code runs; None to start a sandbox for each run.
            temperature: of the agent's calls; None for that of the model's choice.
            rollout_id: recorded with the agent's calls, because rollouts of one task must get distinct samples.
        """
        self.interpreters, self.temperature, self.rollout_id = interpreters, temperature, rollout_id

    @abstractmethod
    def work(self, task: str, context: str, tools: Toolbox, recorder: Recorder, lms: Lms, limits: RunLimits) -> Ending:
        """Let the agent take steps, and record each as it happens. With `uses_dspy`, its model is in place.

        Exceptions end the run as failed, with the code of the error. `context` is to be in each prompt, once.
        """

    def execute(
        self, task: str, context: str, tools: Toolbox, recorder: Recorder, lms: Lms, limits: RunLimits
    ) -> RunResult:
        """Run to the end, and record the end.

        Doesn't raise for failures of agent, model, sandbox or bank: they are in the result. Interruptions
        (`KeyboardInterrupt`) propagate.
        """
        recorder.begin(lms)
        tools.session.question = task
        try:
            with self._placed_model(lms):
                # A lone surrogate has no UTF-8, so a request with one could be neither sent nor recorded.
                ending = self.work(encodable(task), encodable(context), tools, recorder, lms, limits)
            ending = checked_result(ending, Ending, type(self).__name__, self)
        except Exception as error:
            ending = recorder.ending_of(*failure_of(error))
        submission = ending.submission or Submission(answer="")
        return recorder.finished(
            RunResult(
                run=recorder.run,
                outcome=ending.outcome,
                answer=submission.answer,
                sparql=submission.sparql,
                evidence=submission.evidence,
                error_code=ending.error_code,
                error=ending.error,
            )
        )

    @property
    def sampling(self) -> dict[str, Any]:
        """Temperature and rollout of the agent's calls, as `Lms` takes them."""
        return {"temperature": self.temperature, "rollout_id": self.rollout_id}

    def _placed_model(self, lms: Lms) -> AbstractContextManager[None]:
        if not self.uses_dspy:
            return nullcontext()
        return lms.context("agent", **self.sampling)


def failure_of(error: BaseException) -> tuple[str, str]:
    """Return code and message of the error that ended a run."""
    if isinstance(error, (RunStopped, LmFailed, SandboxUnavailable)):
        return error.code, str(error)
    # Special before general: the first class that fits decides.
    ours: tuple[_Code, ...] = ((RecordingDiffers, "replay_differs"), (RBankError, "unexpected"))
    for kind, code in (*_codes_of_dspy(), *ours):
        if isinstance(error, kind):
            return code, str(error)
    return "unexpected", foreign_words(error)


_Code = tuple[type[BaseException], str]


def _codes_of_dspy() -> tuple[_Code, ...]:
    """Return the codes of the errors that are dspy's; none where it was not loaded, because nothing raised them."""
    if "dspy" not in sys.modules:
        return ()
    from dspy.primitives.code_interpreter import CodeInterpreterError

    from rbank_es.sandbox.interpreter import SandboxExhausted

    return (SandboxExhausted, "sandbox_exhausted"), (CodeInterpreterError, "sandbox_failed")


EXECUTORS: Registry[type[Executor]] = Registry(
    "executor",
    {
        "rlm": "rbank_es.executors.rlm:Rlm",
        "react": "rbank_es.executors.react:React",
        "scratchpad": "rbank_es.executors.scratchpad:Scratchpad",
        "tools": "rbank_es.executors.tool_chat:Tools",
    },
)


def executor_class(name: str) -> type[Executor]:
    """Return the executor of that name, imported now. Raises `BadInput` for an unknown name, `MissingExtra`."""
    try:
        return EXECUTORS.get(name)
    except ModuleNotFoundError as error:
        if error.name != "dspy":
            raise
        raise MissingExtra("agent", f"the executor {name}") from error
