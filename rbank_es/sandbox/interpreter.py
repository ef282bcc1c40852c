"""The sandbox as dspy knows it: an interpreter that outlives what agents do to it. Importing this module loads dspy."""

from __future__ import annotations

import inspect
import json
import keyword
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dspy
import msgspec
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput
from dspy.utils.callback import BaseCallback, with_callbacks

from rbank_es import limits
from rbank_es.errors import SandboxUnavailable
from rbank_es.sandbox import deno
from rbank_es.sandbox.session import (
    DEFAULT_SETTINGS,
    EXECUTION_INSTRUCTIONS,
    NO_SUB_AGENTS,
    SUB_AGENT_TOOL,
    Lost,
    Restart,
    SandboxSettings,
    Session,
)
from rbank_es.sandbox.step_outcome import Kind, Outcome, RecordedCall, RecordedStep, StepReport, SubmissionRefused

if TYPE_CHECKING:
    from dspy import LocalInterpreter


TakeSession = Callable[[SandboxSettings], Session]


class CannotStart(SandboxUnavailable, CodeInterpreterError):
    """`SandboxUnavailable`, also for those who expect dspy's error of a host that is not set up."""

    def __init__(self, error: SandboxUnavailable) -> None:
        super().__init__(error.code, error.reason, error.fix)
        self.code = error.code  # dspy's errors have a code of their own


class StepFailed(CodeExecutionError):
    """The code of a step raised. The message is what it printed, the error, and where in the code it happened."""


class SessionLost(CodeExecutionError):
    """A step cost the session with all variables; the next step begins another. `restart` says why, save in replays."""

    def __init__(self, message: str, restart: Restart | None = None) -> None:
        self.restart = restart
        super().__init__(message)


class SandboxExhausted(CodeInterpreterError):
    """More sessions were lost than one run may have; no more steps are taken."""


def start_session(settings: SandboxSettings) -> Session:
    """A new session. Raises `CannotStart`."""
    try:
        return Session(deno.find(), memory_bytes=settings.memory_bytes)
    except SandboxUnavailable as error:
        raise CannotStart(error) from error


class Sandbox(dspy.PythonInterpreter):
    """Runs an agent's code in Deno and Pyodide, step by step, with variables that last from one step to the next.

    It is dspy's `PythonInterpreter` to those who use it, and its script runs inside; the process, the conversation with
    it and what its code may cost are this project's. What differs, to the agent's good: values pass between tools and
    code as they are (None, large integers, 1.0, order of keys); what was printed is kept beside the last value, and
    before an error; errors name the line. What an agent can do to a session (hang, flood, use up memory, die, forge
    messages) ends that session as an error of that step, and the run goes on in a new one, `restarts` times at most.

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
        """Nothing is started yet.

        Args:
            tools: functions by name; may be changed between steps.
            output_fields: what SUBMIT takes, each with its `name`; may be changed between steps. None: `output`.
            callbacks: dspy's, for metrics; what they raise is swallowed.
            settings: time, memory, restarts.
            take_session: where sessions come from.
        """
        super().__init__(deno_command=["deno"], tools=tools, output_fields=output_fields, callbacks=callbacks)
        self.settings = settings
        self.restarts = 0
        self.report: StepReport | None = None
        """What the last step did; None where it did not begin."""
        self._take_session = take_session
        self._session: Session | None = None
        self._is_shut_down = False
        self._in_use = threading.Lock()

    @with_callbacks
    def start(self) -> None:
        """Have a session ready. Does nothing if there is one. Raises `CannotStart`."""
        self._ready()

    @with_callbacks
    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Run one step.

        Args:
            code: Python; its last expression is its value.
            variables: assigned before it runs, by name.

        Returns:
            What it printed, then the text of its value if that is not None, as one text of at most
            `SANDBOX_OUTPUT_CHARS` characters and a gap; None if that is empty; `FinalOutput` after SUBMIT.

        Raises:
            StepFailed: the code raised.
            SyntaxError: it can't be parsed.
            SessionLost: it cost the session; the next step begins a new one.
            SandboxExhausted: likewise, and there is no other.
            CannotStart: there is no session, and none can be started.
            CodeInterpreterError: a step is running already, or the variables can't be passed.
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
        """End the session for good; a step that runs in another thread ends with it. May be called again."""
        self._is_shut_down = True
        session = self._session
        if self._in_use.acquire(blocking=False):
            self._drop()
            self._in_use.release()
        elif session is not None:
            session.stop()

    @property
    def session(self) -> Session | None:
        """The session that the next step would run in, if there is one."""
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
        try:
            session.register(self._functions(), self._output_names())
            outcome = session.run(code, variables, answer, self.settings.step_time_s)
        except Lost as lost:
            self._drop()
            if self._is_shut_down:
                raise CodeInterpreterError("this sandbox was shut down amid a step") from lost
            raise self._loss(code, lost, calls, time.perf_counter() - began - tools_s, tools_s) from lost
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
            self._session = self._take_session(self.settings)
        return self._session

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.end()

    def _loss(
        self, code: str, lost: Lost, calls: list[RecordedCall], duration_s: float, tools_s: float
    ) -> CodeInterpreterError:
        """Count a loss, and tell of it."""
        seconds = f" (the limit is {self.settings.step_time_s:g} s)" if lost.code == "timeout" else ""
        reason = f"{lost.message}{seconds}. All variables are gone"
        exhausted = self.restarts >= self.settings.restarts
        if exhausted:
            self._is_shut_down = True
            message = f"{reason}; the session was restarted {self.restarts} times already, which is all that a run gets"
        else:
            message = f"{reason}; the session was restarted, and the next step begins anew: define again what you need"
        kind: Kind = "exhausted" if exhausted else "lost"
        step = RecordedStep(code=code, kind=kind, output=message, calls=tuple(calls))
        self.report = StepReport(step=step, duration_s=duration_s, tools_s=tools_s)
        if exhausted:
            return SandboxExhausted(message)
        self.restarts += 1
        restart = Restart(number=self.restarts, code=lost.code, message=message, detail=lost.detail)
        return SessionLost(message, restart)

    # ---------------------------------------------------------------- tools and values

    def _refuse_sub_agents(self) -> None:
        """dspy.RLM asks every interpreter to take in a stand-in for dspy, through which code makes further agents."""
        if SUB_AGENT_TOOL in self.tools and not self.settings.sub_agents:
            raise sub_agents_refused()

    def _answer(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool on the agent's behalf; what goes wrong is the agent's to hear."""
        try:
            text = json.dumps({"value": self.invoke_tool(name, arguments)}, default=_plain)
        except Exception as error:
            text = json.dumps({"error": f"{type(error).__name__}: {error}"[: limits.ERROR_CHARS]})
        if len(text) > limits.SANDBOX_MESSAGE_BYTES // 2:
            most = f"{limits.SANDBOX_MESSAGE_BYTES // 2:,}"
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
        chars, most = sum(map(len, literals.values())), limits.SANDBOX_MESSAGE_BYTES // 4
        if chars > most:
            raise CodeInterpreterError(f"the variables have {chars:,} characters, {most:,} are taken: pass handles")
        return literals


def sub_agents_refused() -> CodeExecutionError:
    """What tells dspy.RLM that there will be no sub-agents, upon which it goes on without."""
    return CodeExecutionError(NO_SUB_AGENTS)


def result_of(step: RecordedStep) -> Any:
    """What `execute` returns for a step that came out like this; raises what it raises."""
    if step.kind == "final":
        return FinalOutput(json.loads(step.output))
    if step.kind == "refused":
        raise SubmissionRefused(step.output)
    if step.kind == "error":
        raise StepFailed(step.output)
    if step.kind == "syntax":
        raise SyntaxError(step.output)
    if step.kind == "lost":
        raise SessionLost(step.output)
    if step.kind == "exhausted":
        raise SandboxExhausted(step.output)
    return step.output or None


def parameters_of(function: Callable[..., Any]) -> list[dict[str, str]]:
    """Of each parameter its name, its kind and, if any, its default as it is written."""
    return [
        {"name": each.name, "kind": each.kind.name}
        | ({} if each.default is each.empty else {"default": repr(each.default)})
        for each in inspect.signature(function).parameters.values()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]


def _output(outcome: Outcome) -> str:
    """What the agent is given of an outcome."""
    if outcome.kind == "final":
        return outcome.final
    last = outcome.value if outcome.kind == "output" else outcome.message
    between = "\n" if outcome.stdout and last and not outcome.stdout.endswith("\n") else ""
    return outcome.stdout + between + last


def _plain(value: Any) -> Any:
    """What a tool returns beside plain data: Structs and models by their fields, all else as text."""
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
    """Makes dspy's `LocalInterpreter`, one for each run; an interpreter factory as dspy takes it."""

    def __init__(self, *, step_time_s: float = limits.STEP_TIME_S) -> None:
        """Warn on standard error. A step that runs longer, its tools included, ends its run."""
        self.step_time_s = step_time_s
        print(WARNING, file=sys.stderr, flush=True)

    @property
    def execution_instructions(self) -> str:
        """What dspy tells a model of this interpreter."""
        from dspy import LocalInterpreter

        return str(LocalInterpreter.execution_instructions)

    def __call__(self) -> LocalInterpreter:
        """A new interpreter; whoever takes it shuts it down."""
        from dspy import LocalInterpreter

        return LocalInterpreter(execution_timeout=self.step_time_s)
