"""The base of executors, their registry, and the limits, steps, submission and result of a run. Loads no dspy."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import msgspec

from rbank_es import limits as lim
from rbank_es.errors import BadInput, MissingExtra
from rbank_es.events.codec import encodable
from rbank_es.events.run_events import DEFAULT_BOUNDS, Outcome, RunBounds
from rbank_es.sandbox.step_outcome import NOTHING, LossCode, Measures, SubmissionRefused
from rbank_es.system.registry import Registry
from rbank_es.tools.runtime.run_meter import check_bounds

if TYPE_CHECKING:
    from rbank_es.executors.run_record import Recorder
    from rbank_es.models.run_models import Lms
    from rbank_es.tools.runtime.toolbox import Toolbox

Interpreters = Callable[[], Any]
"""Makes an interpreter (dspy's `CodeInterpreter`) for one run; a `SandboxPool` is one. The caller shuts it down.

It may have `execution_instructions`, which go to the agent."""

Fault = (
    Literal["unreadable", "no_code", "syntax", "raised", "no_sandbox", "refused", "unknown_tool", "tool_failed"]
    | LossCode
)
"""Why a step failed: the reply could not be parsed, or held no code; its code can't be parsed, raised, found no
sandbox, or lost its session (named by the cause); its submission was refused; no such tool; the tool returned an error.
"""


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


class RunStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step as it was recorded. `index` counts from 1.

    `code` is what ran: Python, or a tool call as JSON; empty where the reply held nothing to run. `output` is the whole
    text that the agent is shown. `measures` are sizes after the step. `fault` says why it failed, if it did.
    """

    index: int
    reasoning: str = ""
    code: str = ""
    output: str = ""
    measures: Measures = NOTHING
    fault: Fault | None = None


FIELDS = ("answer", "sparql", "evidence")

FINAL = "FINAL: "
"""The prefix of the output of a step that submitted; the submission as JSON follows."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in words, the SPARQL query behind it (empty if there is none), and its evidence."""

    answer: str
    sparql: str = ""
    evidence: dict[str, Any] = {}

    @classmethod
    def of(cls, given: Any) -> Submission:
        """Return a typed submission of any fields. Raises `SubmissionRefused` without an answer.

        Non-texts become JSON; evidence that is a key, or a list of keys, becomes `{"keys": [...]}`.
        """
        fields = given if isinstance(given, Mapping) else {"answer": given}
        answer = _words(fields.get("answer"))
        if not answer.strip():
            raise SubmissionRefused("SUBMIT: the answer is empty; submit what you found, or say that it can't be told")
        return cls(answer=answer, sparql=_words(fields.get("sparql")), evidence=_evidence(fields.get("evidence")))

    @property
    def output(self) -> str:
        """The output of the step that submitted it."""
        return FINAL + json.dumps(msgspec.to_builtins(self), ensure_ascii=False)


def submitted_fields(output: str) -> str | None:
    """Return the JSON of a submission from the output of its step; None if that is no submission."""
    return output.removeprefix(FINAL) if output.startswith(FINAL) else None


def _words(value: Any) -> str:
    if value is None:
        return ""
    return encodable(value if isinstance(value, str) else _json(value))


def _evidence(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        value = _decoded(value)
    if value is None or value in ("", [], ()):
        return {}
    # Through JSON and back, because an event holds plain data only.
    kept: dict[str, Any] = json.loads(encodable(_json(value if isinstance(value, Mapping) else {"keys": _list(value)})))
    return kept


def _decoded(text: str) -> Any:
    # A JSON list or object is decoded; any other text is one key.
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, list | dict) else text


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]


def _json(value: Any) -> str:
    # Anything has JSON here: unknown types and NaN become text.
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except (ValueError, TypeError, RecursionError):
        return json.dumps(str(value), ensure_ascii=False)


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run.

    `submitted`: the agent called SUBMIT. `forced_at_limit`: its iterations or a bound of the run were used up (`bound`
    names it), and one more call asked for the answer; where that call failed, `error_code` says so and the answer is
    empty. `failed`: any other end. `error_code` is stable, for programs: the codes of `LmFailed` and
    `SandboxUnavailable`, and unreadable, sandbox_exhausted, sandbox_failed, bound_spent, replay_differs, not_recorded,
    unexpected.
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


class Ending(NamedTuple):
    """How the work on a task ended: its outcome, the submission if there is one, and the error if there is one."""

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
        """Let the agent take steps, and record each as it happens. The agent's model is in place (`lms.context`).

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
        try:
            with lms.context("agent", temperature=self.temperature, rollout_id=self.rollout_id):
                ending = self.work(encodable(task), encodable(context), tools, recorder, lms, limits)
        except Exception as error:
            from rbank_es.executors.agent_calls import failure_of

            ending = Ending("failed", None, *failure_of(error))
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


EXECUTORS: Registry[type[Executor]] = Registry(
    "executor",
    {
        "rlm": "rbank_es.executors.rlm:Rlm",
        "react": "rbank_es.executors.react:React",
        "scratchpad": "rbank_es.executors.scratchpad:Scratchpad",
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
