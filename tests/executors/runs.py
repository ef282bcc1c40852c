"""Runs for tests: a bank, a few tools, a model that says what the test says, an interpreter that starts fast."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dspy
from dspy._vendor.lm15.providers.common import parse_json_object
from dspy._vendor.lm15.serde import request_to_dict
from dspy.lm15 import Message, Request, Response, TextPart, ToolCallPart, Usage

from rbank_es.bank import Bank
from rbank_es.context.assembly import Context
from rbank_es.context.base_instructions import base_instructions
from rbank_es.errors import LmFailed
from rbank_es.events import Event, RunFinished, RunStarted, StepTaken
from rbank_es.events.run_events import Role
from rbank_es.executors.executor import Executor, Interpreters, Recorder, RunLimits, RunResult, executor_class
from rbank_es.models.lm_request import prompt_text
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.run_models import Lms
from rbank_es.models.scripted_model import rendered
from rbank_es.tools.shared.handle_store import Store
from rbank_es.tools.shared.tool_family import Reply, ToolError
from rbank_es.tools.shared.toolbox import Toolbox
from tests.tools.tool_sessions import RUN, bank_at, session_for, toolbox_for

TASK = "Which lights can be seen from the Marigold?"

Said = str | LmFailed | Callable[[Request], str]
"""What a model says: words, a failure, or what it makes of the request."""


class Cut(str):
    """Words that the provider ended at a bound."""


class Calls(str):
    """Words with calls of tools by the chat protocol: the name of each, and its arguments or their text."""

    calls: tuple[tuple[str, Any], ...]

    def __new__(cls, *calls: tuple[str, Any], words: str = "") -> Calls:
        made = super().__new__(cls, words)
        made.calls = calls
        return made


class Turns:
    """A model of a test: its agent says one thing after the other, its sub-model answers every prompt."""

    def __init__(self, said: Sequence[Said], sub: Callable[[str], str] = str.upper) -> None:
        self.said = list(said)
        self.sub = sub
        self.requests: list[Request] = []
        self.mutex = threading.Lock()

    def model_for(self, role: str, choice: LmChoice) -> Any:
        return _Answering(self._sub if role == "sub" else self._agent)

    def _agent(self, request: Request) -> str:
        self.requests.append(request)
        assert self.said, "the model is asked more often than the test foresees"
        said = self.said.pop(0)
        if isinstance(said, LmFailed):
            raise said
        return said if isinstance(said, str) else said(request)

    def _sub(self, request: Request) -> str:
        return self.sub(request.messages[-1].text)

    def prompt(self, number: int = -1) -> str:
        """The words of a request of the agent."""
        return prompt_text(request_to_dict(self.requests[number]))


class _Answering:
    def __init__(self, answer: Callable[[Request], str]) -> None:
        self._answer = answer

    def complete(self, request: Request) -> Response:
        said = self._answer(request)
        parts: list[Any] = [TextPart(text=str(said))] if said or not isinstance(said, Calls) else []
        if isinstance(said, Calls):
            for at, (name, given) in enumerate(said.calls):
                parts.append(ToolCallPart(id=f"c{at}", name=name, input=parse_json_object(given)))
        message, finish = Message.assistant(parts), "length" if isinstance(said, Cut) else "stop"
        usage = Usage(input_tokens=10, output_tokens=5)
        return Response(id=None, model=request.model, message=message, finish_reason=finish, usage=usage)


def code(text: str, reasoning: str = "I think.") -> str:
    """A reply with a step of code."""
    return rendered({"reasoning": reasoning, "code": f"```python\n{text}\n```"})


def call(tool: str, arguments: Any = None, thought: str = "I think.") -> str:
    """A reply with a call of a tool."""
    return rendered({"next_thought": thought, "next_tool_name": tool, "next_tool_args": arguments or {}})


def answer(text: str, sparql: str = "", evidence: Any = None) -> str:
    """A reply with the final fields, as it is asked for in the end."""
    return rendered({"reasoning": "So.", "answer": text, "sparql": sparql, "evidence": evidence or {}})


def find(word: str, k: int = 6) -> Reply:
    """Find lights by a word. Args: word: what to look for; k: how many. Example: find('rock')"""
    return Reply({"found": f"{word} light", "k": k}, f"all about {word} " * 30, "text")


def refuse(word: str = "") -> Reply:
    """A tool that says no."""
    raise ToolError("refused_here", f"{word} can't be", "ask otherwise")


def broken_tool() -> Reply:
    """A tool with a defect."""
    raise ZeroDivisionError("a secret of the host: /srv/x")


class Setting:
    """One run that is about to be made."""

    def __init__(self, place: Path, said: Sequence[Said], **options: Any) -> None:
        self.bank: Bank = options.pop("bank", None) or bank_at(place)
        session = session_for(self.bank)
        session.run = self.run_id = options.pop("run", RUN)
        session.store = Store(self.bank, self.run_id, options.pop("new_id", None))
        session.meter = options.pop("meter", None) or session.meter
        self.tools: Toolbox = toolbox_for(session, {"find": find, "refuse": refuse, "broken_tool": broken_tool})
        model_for = options.pop("model_for", None)
        self.turns = said if isinstance(said, Turns) else Turns(said, **options)
        choices: dict[Role, LmChoice] = {role: LmChoice(model="test/turns") for role in ("agent", "sub")}
        self.lms = Lms(self.bank, self.run_id, choices, model_for=model_for or self.turns.model_for, sleep=_no_wait)
        self.recorder = Recorder(self.bank, self.run_id, self.tools)
        self.context = Context(mode="auto", layers=(base_instructions(),))

    def begin(self) -> None:
        self.bank.append([RunStarted(run=self.run_id, task=TASK, executor="test"), self.context.event(self.run_id)])

    def run(self, executor: str | Executor, interpreters: Interpreters | None = None, **limits: Any) -> RunResult:
        """Make it."""
        self.begin()
        made = executor_class(executor)(interpreters or local) if isinstance(executor, str) else executor
        return made.execute(TASK, self.context.text, self.tools, self.recorder, self.lms, RunLimits(**limits))

    # ---------------------------------------------------------------- what was recorded

    @property
    def events(self) -> list[Event]:
        return list(self.bank.events(run=self.run_id, resolve=True))

    @property
    def types(self) -> list[str]:
        return [str(event.__struct_config__.tag) for event in self.events]

    @property
    def steps(self) -> list[StepTaken]:
        return [event for event in self.events if isinstance(event, StepTaken)]

    @property
    def end(self) -> RunFinished:
        [end] = [event for event in self.events if isinstance(event, RunFinished)]
        return end


def _no_wait(seconds: float) -> None:
    """Try again at once."""


def local() -> Any:
    """An interpreter that starts in a moment, for code that the test wrote itself."""
    return dspy.LocalInterpreter(execution_timeout=20)
