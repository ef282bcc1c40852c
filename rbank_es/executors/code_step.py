"""A step of code: its interpreter, its code from a reply, and its outcome. Importing this module loads dspy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from dspy.predict.rlm import _strip_code_fences
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput

from rbank_es import limits
from rbank_es.events.codec import encodable
from rbank_es.events.run_events import RunBounds
from rbank_es.executors.agent_calls import Unreadable
from rbank_es.executors.executor import FIELDS, Fault, Interpreters, Recorder, RunLimits, RunStep, Submission
from rbank_es.sandbox.interpreter import Sandbox, SandboxExhausted, SessionLost
from rbank_es.sandbox.session import SandboxSettings
from rbank_es.sandbox.step_outcome import ERROR, Measures, SubmissionRefused

_OUTPUT_CHARS = 4 * limits.SANDBOX_OUTPUT_CHARS
"""Characters kept of a step's output by an interpreter that has no limit of its own."""

NO_OUTPUT = "(no output - did you forget to print?)"
"""What an agent is shown of a step that printed nothing (source: dspy.RLM)."""

NO_CODE = f"{ERROR}There was no code in your reply. Write Python code to go on, and SUBMIT to end."

_GAP_CHARS = 80  # room for the line that replaces what is left out


class CodeOutcome(NamedTuple):
    """The outcome of a step's code: output for the agent, sizes, submission, and fault.

    `terminal` is the error of an interpreter that is gone, which ends the run.
    """

    output: str
    measures: Measures = Measures(stdout_chars=0)
    submission: Submission | None = None
    fault: Fault | None = None
    terminal: CodeInterpreterError | None = None


RunReply = Callable[[str, float], tuple[str, CodeOutcome]]
"""Runs the code of a reply, within so many seconds with its tools; returns the code and its outcome."""


def take_code_step(recorder: Recorder, index: int, action: Any, run: RunReply) -> tuple[RunStep, Submission | None]:
    """Run the code of a parsed reply, or explain an unreadable one; record the step, and return it.

    Raises the terminal error of an interpreter.
    """
    if isinstance(action, Unreadable):
        reasoning, code, ran = action.reply, "", CodeOutcome(ERROR + action.reason, fault="unreadable")
    else:
        reasoning = str(action.reasoning)
        code, ran = run(str(action.code), recorder.begin_code())
    step = RunStep(
        index=index, reasoning=reasoning, code=code, output=ran.output, measures=ran.measures, fault=ran.fault
    )
    recorder.step(step)
    if ran.terminal is not None:
        raise ran.terminal
    return step, ran.submission


def code_of(reply: str) -> str:
    """Return the code of a reply: its first code block, or all of it. Raises SyntaxError for other languages."""
    code: str = _strip_code_fences(reply)
    return code


def run_code(interpreter: Any, reply: str, wall_s: float, variables: Mapping[str, Any]) -> tuple[str, CodeOutcome]:
    """Run the code of a reply with these variables, and return the code and its outcome.

    A sandbox stops it after `wall_s` seconds with its tools. Errors of the code and of the interpreter are in the
    outcome.
    """
    try:
        code = code_of(reply)
    except SyntaxError as error:
        return reply, CodeOutcome(f"{ERROR}{error}", fault="no_code")
    if not code.strip():
        return "", CodeOutcome(NO_CODE, fault="no_code")
    if isinstance(interpreter, Sandbox):
        interpreter.wall_s = wall_s
    ran = _execute(interpreter, code, variables)
    report = getattr(interpreter, "report", None)
    return code, ran if report is None else ran._replace(measures=report.step.measures)


def _execute(interpreter: Any, code: str, variables: Mapping[str, Any]) -> CodeOutcome:
    try:
        return _outcome_of(interpreter.execute(code, variables=dict(variables)))
    except SyntaxError as error:
        return _failure(str(error), "syntax")
    except SubmissionRefused as error:
        return _failure(str(error), "refused")
    except CodeExecutionError as error:
        return _failure(str(error), error.loss if isinstance(error, SessionLost) else "raised")
    except CodeInterpreterError as error:
        fault = error.loss if isinstance(error, SandboxExhausted) else "no_sandbox"
        return _failure(str(error), fault)._replace(terminal=error)


def _outcome_of(result: Any) -> CodeOutcome:
    if isinstance(result, FinalOutput):
        submission = Submission.of(result.output)
        return CodeOutcome(submission.output, Measures(), submission=submission)
    printed = "\n".join(map(str, result)) if isinstance(result, list) else str(result or "")
    return CodeOutcome(_truncate(encodable(printed)) or NO_OUTPUT, Measures(stdout_chars=len(printed)))


def _failure(message: str, fault: Fault) -> CodeOutcome:
    return CodeOutcome(_truncate(encodable(ERROR + message)), Measures(), fault=fault)


def _truncate(output: str) -> str:
    # Four times the sandbox's limit, because what the sandbox truncated must not be truncated again.
    if len(output) <= _OUTPUT_CHARS:
        return output
    half = (_OUTPUT_CHARS - _GAP_CHARS) // 2
    return f"{output[:half]}\n... {len(output) - 2 * half:,} characters left out ...\n{output[-half:]}"


def sandbox_settings(bounds: RunBounds) -> SandboxSettings:
    """Return the settings of a run's sandboxes."""
    return SandboxSettings(step_code_s=bounds.step_code_s, step_wall_s=bounds.step_wall_s)


def make_sandboxes(run_limits: RunLimits) -> Interpreters:
    """Return a factory of sandboxes that start with their first step."""
    made: Any = partial(Sandbox, settings=sandbox_settings(run_limits.bounds))
    made.execution_instructions = Sandbox.execution_instructions
    return made  # type: ignore[no-any-return]


@contextmanager
def open_interpreter(interpreters: Interpreters, functions: Mapping[str, Any]) -> Iterator[Any]:
    """Open an interpreter with these functions and the fields of SUBMIT; shut it down on exit."""
    interpreter = interpreters()
    try:
        interpreter.tools.update(functions)
        if hasattr(interpreter, "output_fields"):
            interpreter.output_fields = [{"name": name} for name in FIELDS]
        yield interpreter
    finally:
        interpreter.shutdown()
