"""Running the code of a step, and telling what came of it. Importing this module loads dspy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from dspy.predict.rlm import _strip_code_fences
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput

from rbank_es import limits
from rbank_es.executors.executor import FIELDS, Fault, Interpreters, RunLimits, RunStep, Submission
from rbank_es.sandbox.interpreter import Sandbox, SessionLost
from rbank_es.sandbox.session import SandboxSettings
from rbank_es.sandbox.step_outcome import ERROR, Measures, SubmissionRefused
from rbank_es.tools.runtime.encoder import text_of

NO_OUTPUT = "(no output - did you forget to print?)"
"""What an agent is shown of a step that printed nothing (source: dspy.RLM)."""

NO_CODE = f"{ERROR}There was no code in your reply. Write Python code to go on, and SUBMIT to end."

_OUTPUT_CHARS = 4 * limits.SANDBOX_OUTPUT_CHARS
_GAP_CHARS = 80
"""Room for the word on what is left out."""


class CodeOutcome(NamedTuple):
    """What came of a step's code: what the agent is shown, what was submitted, what failed, and what was measured."""

    output: str
    measures: Measures = Measures(stdout_chars=0)
    submission: Submission | None = None
    fault: Fault | None = None
    terminal: CodeInterpreterError | None = None
    """There is no interpreter any more: the run ends with this."""


def step_of(index: int, reasoning: str, code: str, ran: CodeOutcome) -> RunStep:
    """What is recorded of a step with code."""
    return RunStep(
        index=index,
        reasoning=reasoning,
        code=code,
        output=ran.output,
        measures=ran.measures,
        fault=ran.fault,
    )


def code_of(reply: str) -> str:
    """The Python code of a reply: of its first code block, or all of it. Raises SyntaxError for another language."""
    code: str = _strip_code_fences(reply)
    return code


def run_code(interpreter: Any, reply: str, variables: Mapping[str, Any]) -> tuple[str, CodeOutcome]:
    """Run the code of a reply with these variables: the code that was run, and what came of it.

    Nothing that code does raises here; what is no error of an interpreter goes on up.
    """
    try:
        code = code_of(reply)
    except SyntaxError as error:
        return reply, CodeOutcome(f"{ERROR}{error}", fault="no_code")
    if not code.strip():
        return "", CodeOutcome(NO_CODE, fault="no_code")
    ran = _executed(interpreter, code, variables)
    report = getattr(interpreter, "report", None)
    return code, ran if report is None else ran._replace(measures=report.step.measures)


def _executed(interpreter: Any, code: str, variables: Mapping[str, Any]) -> CodeOutcome:
    try:
        return _ended(interpreter.execute(code, variables=dict(variables)))
    except SyntaxError as error:
        return _faulty(str(error), "syntax")
    except SubmissionRefused as error:
        return _faulty(str(error), "refused")
    except CodeExecutionError as error:
        return _faulty(str(error), "lost" if isinstance(error, SessionLost) else "raised")
    except CodeInterpreterError as error:
        return _faulty(str(error), "exhausted")._replace(terminal=error)


def _ended(result: Any) -> CodeOutcome:
    """Raises `SubmissionRefused`."""
    if isinstance(result, FinalOutput):
        submission = Submission.of(result.output)
        return CodeOutcome(submission.output, Measures(), submission=submission)
    printed = "\n".join(map(str, result)) if isinstance(result, list) else str(result or "")
    return CodeOutcome(_cut(text_of(printed)) or NO_OUTPUT, Measures(stdout_chars=len(printed)))


def _faulty(message: str, fault: Fault) -> CodeOutcome:
    return CodeOutcome(_cut(text_of(ERROR + message)), Measures(), fault=fault)


def _cut(output: str) -> str:
    """An interpreter without limits of its own may give any amount. What was cut once is not cut again."""
    if len(output) <= _OUTPUT_CHARS:
        return output
    half = (_OUTPUT_CHARS - _GAP_CHARS) // 2
    return f"{output[:half]}\n... {len(output) - 2 * half:,} characters left out ...\n{output[-half:]}"


def make_sandboxes(run_limits: RunLimits) -> Interpreters:
    """Sandboxes for those who were given none, each started when it is needed."""
    settings = SandboxSettings(step_time_s=run_limits.step_time_s)

    def sandbox() -> Sandbox:
        return Sandbox(settings=settings)

    sandbox.execution_instructions = Sandbox.execution_instructions  # type: ignore[attr-defined]
    return sandbox


@contextmanager
def open_interpreter(interpreters: Interpreters, functions: Mapping[str, Any]) -> Iterator[Any]:
    """An interpreter with these functions and the fields of SUBMIT, shut down in the end."""
    interpreter = interpreters()
    try:
        interpreter.tools.update(functions)
        if hasattr(interpreter, "output_fields"):
            interpreter.output_fields = [{"name": name} for name in FIELDS]
        yield interpreter
    finally:
        interpreter.shutdown()
