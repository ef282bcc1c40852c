"""The sandbox as a dspy interpreter, and the unsafe local one. Importing this module loads dspy."""

from __future__ import annotations

import inspect
import json
import keyword
import re
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import dspy
import msgspec
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput
from dspy.utils.callback import BaseCallback, with_callbacks

from rbank_es import limits
from rbank_es.errors import SandboxUnavailable
from rbank_es.limits import sandbox_limits
from rbank_es.sandbox.guest_protocol import Lost, Outcome, TimeLimits
from rbank_es.sandbox.session import (
    DEFAULT_SETTINGS,
    EXECUTION_INSTRUCTIONS,
    NO_SUB_AGENTS,
    SUB_AGENT_TOOL,
    Restart,
    SandboxSettings,
    Session,
    start_session,
)
from rbank_es.sandbox.step_outcome import (
    Kind,
    LossCode,
    RecordedCall,
    RecordedStep,
    StepReport,
    SubmissionRefused,
)

TakeSession = Callable[[SandboxSettings], Session]


class CannotStart(SandboxUnavailable, CodeInterpreterError):
    """`SandboxUnavailable` that is also dspy's error of an interpreter that can't start."""

    def __init__(self, error: SandboxUnavailable) -> None:
        super().__init__(error.code, error.reason, error.fix)
        self.code = error.code  # dspy's errors have a code of their own


class StepFailed(CodeExecutionError):
    """An error of a step's code. The message holds its output, the error, and the place in the code."""


class SessionLost(CodeExecutionError):
    """A step that lost the session and all variables; the next step starts another. `loss` is its cause.

    `restart` is None in replays.
    """

    def __init__(self, message: str, loss: LossCode, restart: Restart | None = None) -> None:
        self.loss: LossCode = loss
        self.restart = restart
        super().__init__(message)


class SandboxExhausted(CodeInterpreterError):
    """The loss of the last session that a run may have. `loss` is its cause."""

    def __init__(self, message: str, loss: LossCode) -> None:
        self.loss: LossCode = loss
        super().__init__(message)


class Sandbox(dspy.PythonInterpreter):
    """An interpreter that runs an agent's code in Deno and Pyodide, step by step, with lasting variables.

    It has the interface and the script of dspy's `PythonInterpreter`; process, protocol and limits are this project's.
    Unlike dspy's, it passes values unchanged between tools and code (None, large integers, 1.0, order of keys), keeps
    output beside the last value and before an error, and names the line of an error. A session that the agent breaks
    (hang, flood, memory, crash, forged messages) ends as an error of that step; up to `restarts` others follow.

    One step at a time, from any thread; a tool can't run a step.
    """

    execution_instructions = EXECUTION_INSTRUCTIONS

    def __init__(
        self,
        *,
        tools: dict[str, Callable[..., Any]] | None = None,
        output_fields: list[dict[str, Any]] | None = None,
        callbacks: list[BaseCallback] | None = None,
        settings: SandboxSettings = DEFAULT_SETTINGS,
        take_session: TakeSession = start_session,
    ) -> None:
        """Start nothing yet.

        Args:
            tools: functions by name; may change between steps.
            output_fields: fields of SUBMIT, each with its `name`; may change between steps. None for one, `output`.
            callbacks: dspy's, for metrics; their exceptions are swallowed.
            settings: limits.
            take_session: returns a session for these settings.
        """
        # Never run: the command only keeps dspy from looking for Deno itself.
        super().__init__(deno_command=["deno"], tools=tools, output_fields=output_fields, callbacks=callbacks)
        self.settings = settings
        self.restarts = 0
        self.wall_s = settings.step_wall_s
        """Seconds that the next step may take with its tools, if that is less than its settings say."""
        self.report: StepReport | None = None
        """The report of the last step; None if that did not begin."""
        self._take_session = take_session
        self._session: Session | None = None
        self._is_shut_down = False
        self._in_use = threading.Lock()

    @with_callbacks
    def start(self) -> None:
        """Start a session unless there is one. Raises `CannotStart`."""
        self._ready()

    @with_callbacks
    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Run one step.

        Args:
            code: Python; its last expression is its value.
            variables: assigned before it runs, by name.

        Returns:
            Its output, then the text of its value unless that is None, at most `SANDBOX_OUTPUT_CHARS` characters and
            a gap; None if both are empty; `FinalOutput` after SUBMIT.

        Raises:
            StepFailed: the code raised.
            SyntaxError: the code can't be parsed.
            SessionLost: the session was lost; the next step starts a new one.
            SandboxExhausted: the last session was lost.
            CannotStart: no session can be started.
            CodeInterpreterError: a step runs already, or the variables can't be passed.
        """
        self._refuse_sub_agents()
        if not self._in_use.acquire(blocking=False):
            raise CodeInterpreterError(
                "a step is running in this sandbox; it takes one at a time, and none from a tool"
            )
        self.report = None
        try:
            return self._step(code, self._literals(variables or {}))
        finally:
            self._in_use.release()

    @with_callbacks
    def shutdown(self) -> None:
        """End the session for good, with any step that runs in another thread. Idempotent."""
        self._is_shut_down = True
        session = self._session
        if self._in_use.acquire(blocking=False):
            self._drop()
            self._in_use.release()
        elif session is not None:
            session.stop()

    @property
    def session(self) -> Session | None:
        """The session of the next step; None if it must be started."""
        return self._session

    # ---------------------------------------------------------------- steps

    def _step(self, code: str, variables: dict[str, str]) -> Any:
        calls: list[RecordedCall] = []
        tools_s = 0.0

        def answer(name: str, arguments: dict[str, Any]) -> str:
            nonlocal tools_s
            calls.append(RecordedCall(tool=name, arguments=json.dumps(arguments)))
            began = time.perf_counter()
            try:
                return self._answer(name, arguments)
            finally:
                tools_s += time.perf_counter() - began

        session = self._ready()
        began = time.perf_counter()
        times = TimeLimits(self.settings.step_code_s, min(self.settings.step_wall_s, self.wall_s))
        try:
            session.register(self._functions(), self._output_names())
            outcome = session.run(code, variables, answer, times)
        except Lost as lost:
            self._drop()
            if self._is_shut_down:
                raise CodeInterpreterError("this sandbox was shut down amid a step") from lost
            raise self._loss(code, lost, times, calls, time.perf_counter() - began - tools_s, tools_s) from lost
        except BaseException:
            self._drop()
            raise
        step = RecordedStep(
            code=code, kind=outcome.kind, output=_output(outcome), calls=tuple(calls), measures=outcome.measures
        )
        self.report = StepReport(step=step, duration_s=time.perf_counter() - began - tools_s, tools_s=tools_s)
        return result_of(step)

    def _ready(self) -> Session:
        if self._is_shut_down:
            raise CodeInterpreterError("this sandbox was shut down; make a new one")
        if self._session is None:
            try:
                self._session = self._take_session(self.settings)
            except SandboxUnavailable as error:
                raise CannotStart(error) from error
            # Shut down from another thread while it started: nobody else would end it.
            if self._is_shut_down:
                self._drop()
                raise CodeInterpreterError("this sandbox was shut down while it started")
        return self._session

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.end()

    def _loss(
        self, code: str, lost: Lost, times: TimeLimits, calls: list[RecordedCall], duration_s: float, tools_s: float
    ) -> CodeInterpreterError:
        """Count a lost session, and return the error that the agent is shown."""
        limits_s = {"timeout": times.code_s, "wall_timeout": times.wall_s}
        seconds = f" (the limit is {limits_s[lost.code]:g} s)" if lost.code in limits_s else ""
        reason = f"{lost.message}{seconds}. All variables are gone"
        exhausted = self.restarts >= self.settings.restarts
        if exhausted:
            self._is_shut_down = True
            message = f"{reason}; the session was restarted {self.restarts} times already, which is all that a run gets"
        else:
            message = f"{reason}; the session was restarted, and the next step begins anew: define again what you need"
        kind: Kind = "exhausted" if exhausted else "lost"
        step = RecordedStep(code=code, kind=kind, loss=lost.code, output=message, calls=tuple(calls))
        self.report = StepReport(step=step, duration_s=duration_s, tools_s=tools_s)
        if exhausted:
            return SandboxExhausted(message, lost.code)
        self.restarts += 1
        restart = Restart(number=self.restarts, code=lost.code, message=message, detail=lost.detail)
        return SessionLost(message, lost.code, restart)

    # ---------------------------------------------------------------- tools and values

    def _refuse_sub_agents(self) -> None:
        if SUB_AGENT_TOOL in self.tools and not self.settings.sub_agents:
            raise sub_agents_refused()

    def _answer(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool for the agent's code; return its value or its error as JSON."""
        try:
            text = json.dumps({"value": self.invoke_tool(name, arguments)}, default=_plain)
        except Exception as error:
            text = json.dumps({"error": f"{type(error).__name__}: {error}"[: limits.ERROR_CHARS]})
        # Half, because the text is escaped once more inside the message.
        if len(text) > sandbox_limits.SANDBOX_MESSAGE_BYTES // 2:
            most = f"{sandbox_limits.SANDBOX_MESSAGE_BYTES // 2:,}"
            text = json.dumps({"error": f"ValueError: {name}() gave {len(text):,} characters as JSON, {most} fit"})
        return text

    def _functions(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "doc": inspect.getdoc(function) or "", "parameters": parameters_of(function)}
            for name, function in self.tools.items()
        ]

    def _output_names(self) -> list[str] | None:
        return [field["name"] for field in self.output_fields] if self.output_fields else None

    def _literals(self, variables: dict[str, Any]) -> dict[str, str]:
        for name in variables:
            if not name.isidentifier() or keyword.iskeyword(name):
                raise CodeInterpreterError(f"{name!r} can't name a variable")
        literals = {name: self._serialize_value(value) for name, value in variables.items()}
        chars, most = sum(map(len, literals.values())), sandbox_limits.SANDBOX_VARIABLES_CHARS
        if chars > most:
            raise CodeInterpreterError(f"the variables have {chars:,} characters, {most:,} are taken: pass handles")
        return literals


def sub_agents_refused() -> CodeExecutionError:
    """Return the error upon which dspy.RLM goes on without sub-agents."""
    return CodeExecutionError(NO_SUB_AGENTS)


def result_of(step: RecordedStep) -> Any:
    """Return the result of `execute` for a step with this outcome, or raise its error."""
    if step.kind == "final":
        return FinalOutput(json.loads(step.output))
    if step.kind in ("lost", "exhausted"):
        raise (SessionLost if step.kind == "lost" else SandboxExhausted)(step.output, step.loss or "died")
    if step.kind != "output":
        raise _ERRORS[step.kind](step.output)
    return step.output or None


_ERRORS: dict[Kind, type[Exception]] = {"refused": SubmissionRefused, "error": StepFailed, "syntax": SyntaxError}


def parameters_of(function: Callable[..., Any]) -> list[dict[str, str]]:
    """Return name, kind and default (as source text) of each parameter, for `Session.register`."""
    return [
        {"name": each.name, "kind": each.kind.name}
        | ({} if each.default is each.empty else {"default": repr(each.default)})
        for each in inspect.signature(function).parameters.values()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]


def _output(outcome: Outcome) -> str:
    """Return the text of an outcome for the agent."""
    if outcome.kind == "final":
        return outcome.final
    last = outcome.value if outcome.kind == "output" else outcome.message
    between = "\n" if outcome.stdout and last and not outcome.stdout.endswith("\n") else ""
    return outcome.stdout + between + last


def _plain(value: Any) -> Any:
    """Return a tool's value as plain data: Structs and models by their fields, others as text."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    try:
        return msgspec.to_builtins(value)
    except (TypeError, ValueError):
        return str(value)


WARNING = """\
!!! UNSAFE: the agent's code runs WITHOUT a sandbox (--unsafe-local).
!!! It can read and delete your files, see your keys and use your network, as you can yourself.
!!! Use this only where nothing is at stake. The sandbox is the default; rbank-es doctor says whether it runs here."""


class UnsafeLocal:
    """A factory of dspy's `LocalInterpreter`, which does not isolate the code. Each run gets its own."""

    def __init__(self, *, step_wall_s: float = limits.STEP_WALL_S) -> None:
        """Warn on standard error. A step over `step_wall_s` seconds, its tools included, ends its run."""
        self.step_wall_s = step_wall_s
        print(WARNING, file=sys.stderr, flush=True)

    @property
    def execution_instructions(self) -> str:
        """dspy's description of this interpreter for a model."""
        return str(dspy.LocalInterpreter.execution_instructions)

    def __call__(self) -> dspy.LocalInterpreter:
        """Return a new interpreter; the caller shuts it down."""
        return _Local(execution_timeout=self.step_wall_s)


# dspy's own takes a submission only with all its fields, and is made again for each step.
_SUBMIT = "def SUBMIT(answer=None, sparql='', evidence=None, _submit=SUBMIT): _submit(answer, sparql, evidence)"


class _Local(dspy.LocalInterpreter):
    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        try:
            return super().execute(f"{_SUBMIT}\n{code}", variables)
        except SyntaxError as error:
            raise SyntaxError(_LINE.sub(lambda line: f"line {int(line[1]) - 1}", str(error))) from None


_LINE = re.compile(r"line (\d+)")
