"""What all executors do around their loop: models in place, every way of ending told apart and recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from dspy import LMError
from dspy.primitives.code_interpreter import CodeInterpreterError

from rbank_es.errors import LmFailed, RBankError, SandboxUnavailable
from rbank_es.events.run_events import Outcome
from rbank_es.executors.executor import RunResult
from rbank_es.executors.field_call import Unreadable
from rbank_es.executors.run_recorder import Recorder, RunStopped
from rbank_es.executors.submission import FIELDS, Refused, Submission
from rbank_es.models.call_errors import FATAL
from rbank_es.sandbox.interpreter import SandboxExhausted
from rbank_es.sandbox.recorded_interpreter import RecordingDiffers

if TYPE_CHECKING:
    from rbank_es.models.router import Lms


class Ending(NamedTuple):
    """How a run ended, and what was handed in, if anything."""

    outcome: Outcome
    submission: Submission | None = None
    error_code: str | None = None
    error: str | None = None


def conducted(
    recorder: Recorder, lms: Lms, work: Callable[[], Ending], *, temperature: float | None, rollout_id: int | None
) -> RunResult:
    """Do the work with the agent's model in place, and record how it ended."""
    recorder.begin(lms)
    try:
        with lms.context("agent", temperature=temperature, rollout_id=rollout_id):
            ending = work()
    except Exception as error:
        ending = Ending("failed", None, *failure_of(error))
    handed = ending.submission or Submission(answer="")
    return recorder.finished(
        RunResult(
            run=recorder.run,
            outcome=ending.outcome,
            answer=handed.answer,
            sparql=handed.sparql,
            evidence=handed.evidence,
            error_code=ending.error_code,
            error=ending.error,
        )
    )


def forced(recorder: Recorder, asked: Callable[[], Any]) -> Ending:
    """The iterations are used up: ask once for the answer. Where that fails, the outcome is the same, without one.

    `asked` gives its fields as `ask` does. Raises `RunStopped` and `LmFailed` where nothing more may be asked.
    """
    recorder.after_steps()
    try:
        given = asked()
    except (LmFailed, LMError) as error:
        code, message = failure_of(error)
        if code in FATAL:
            raise
        return Ending("forced_at_limit", None, code, message)
    if isinstance(given, Unreadable):
        return Ending("forced_at_limit", None, "unreadable", given.reason)
    try:
        return Ending("forced_at_limit", Submission.of({name: given.get(name) for name in FIELDS}))
    except Refused:
        return Ending("forced_at_limit", None, "unreadable", "the model gave no answer when it was asked for one")


def failure_of(error: BaseException) -> tuple[str, str]:
    """Code and message of what ended a run."""
    if isinstance(error, RunStopped):
        return error.code, error.message
    if isinstance(error, (LmFailed, SandboxUnavailable)):
        return error.code, str(error)
    if isinstance(error, LMError) and isinstance(error.__cause__, LmFailed):
        return error.__cause__.code, str(error.__cause__)
    if isinstance(error, SandboxExhausted):
        return "sandbox_exhausted", str(error)
    if isinstance(error, CodeInterpreterError):
        return "sandbox_failed", str(error)
    if isinstance(error, RecordingDiffers):
        return "replay_differs", str(error)
    if isinstance(error, RBankError):
        return "unexpected", str(error)
    return "unexpected", f"{type(error).__name__}: {error}"
