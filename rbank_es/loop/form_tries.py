"""The tries of the forms in which a model has to reply: one call each, by the code that asks in a loop.

All is recorded in a bank in memory that nobody keeps, and no code of the model runs.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import LmFailed, MissingExtra, RBankError
from rbank_es.events import RunFinished, RunStarted, StepTaken
from rbank_es.events.run_events import Role
from rbank_es.events.server_traits import ServerTraits
from rbank_es.limits import reply_limits
from rbank_es.models.answer_bounds import run_within
from rbank_es.models.doctor_time import TryTime
from rbank_es.models.live_model import reply_bounds
from rbank_es.models.lm_request import CUT, LmMessage, LmResponse
from rbank_es.models.model_call import STOPPING, Model, ModelAnswer, Question, RetryableFailure, Try, failed
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.model_findings import Tried, forms_of, most_tokens
from rbank_es.models.parameters import BY_SCHEMA, takes_no_bounds
from rbank_es.models.run_models import Lms
from rbank_es.models.scripted_model import rendered
from rbank_es.models.tool_support import calls_tools

if TYPE_CHECKING:
    from rbank_es.executors.executor import RunResult

_RUN = "try"
_TASK = "How many letters has the word lighthouse? Take note of your way with event_log before you submit the number."
_NOTE = rendered(
    {
        "next_thought": "I count l-i-g-h-t-h-o-u-s-e: 10 letters. I take note of that.",
        "next_tool_name": "event_log",
        "next_tool_args": {"obj": {"note": "the word has 10 letters"}},
    }
)
"""A step that a script takes, for the answer that is forced behind it."""

_ROLES: tuple[Role, ...] = ("agent", "judge", "extractor")

_UNREAD = frozenset({"unreadable", "no_code", "syntax"})
"""Faults of a step whose reply didn't keep the form."""


def try_forms(model: Model, choice: LmChoice, traits: ServerTraits, time_of_all: TryTime) -> Iterator[Tried]:
    """Try each of `forms_of` with one call, as it is asked at a server of these traits; yield whether it was kept.

    Raises `LmFailed` if a call shows that no other can succeed.
    """
    for name in forms_of(traits):
        if not time_of_all.fits(name, traits):
            continue
        with Bank.create("memory:") as bank:
            once = _Once(model, [_NOTE] if name == "forced" else [], time_of_all)
            most = most_tokens(name)[1]
            choices: dict[Role, LmChoice] = {role: _short(choice, role, traits, most) for role in _ROLES}
            with Lms(bank, _RUN, choices, servers=(traits,), model_for=partial(_given, once)) as lms:
                try:
                    kept, words = _TRIES[name](bank, lms, once)
                except MissingExtra as missing:
                    yield Tried(name=name, kept=None, detail=str(missing))
                    continue
            yield once.finding(name, kept, words)


def _given(once: _Once, role: Role, choice: LmChoice) -> Model:
    return once


def _short(choice: LmChoice, role: Role, traits: ServerTraits, most_tokens: int) -> LmChoice:
    """Return the choice with the bounds of a short try, and with JSON by schema where runs use it."""
    if role != "agent" and traits.json_schema:
        choice = msgspec.structs.replace(choice, arguments={**choice.arguments, **BY_SCHEMA})
    if takes_no_bounds(choice.model):
        return choice
    most = {"max_tokens": most_tokens}
    bounds = {name: value for name, value in reply_bounds(choice, role).items() if name != "max_completion_tokens"}
    connection = {name: value for name, value in choice.arguments.items() if name not in choice.parameters}
    return msgspec.structs.replace(choice, arguments={**connection, **bounds, **most})


class _Once:
    """A model that answers with the given replies first, then asks the real one once, and refuses what follows.

    `answer` or `failure` is the outcome of that one call.
    """

    def __init__(self, model: Model, replies: list[str], time_of_all: TryTime) -> None:
        self._model, self._replies, self._asked = model, [*replies], False
        self._time = time_of_all
        self.asked_again = False
        self.answer: ModelAnswer | None = None
        self.failure: LmFailed | None = None
        self.duration_s = 0.0

    def prepare(self, question: Question) -> Try:
        """Return the next try."""
        if self._replies:
            message = LmMessage.of("assistant", self._replies.pop(0))
            given = LmResponse(model=question.request.model, message=message, finish_reason="stop")
            return lambda: ModelAnswer(given)
        if self._asked:
            self.asked_again = True
            raise failed("refused", "one call tries one form")
        self._asked = True
        attempt = self._model.prepare(question)
        return lambda: self._tried(attempt)

    def _tried(self, attempt: Try) -> ModelAnswer:
        began = time.monotonic()
        try:
            self.answer = run_within(self._time.left_s, attempt)
        except LmFailed as failure:
            self.failure = failure
        except RetryableFailure as turned:
            # Not retried, because that would be a call more than was said.
            self.failure = turned.failure
        self.duration_s = round(time.monotonic() - began, 2)
        if self.answer is None:
            raise self.failure or failed("unexpected", "there was neither an answer nor a failure")
        return self.answer

    def close(self) -> None:
        """Do nothing, because several forms share the model."""

    def finding(self, name: str, kept: bool | None, words: str) -> Tried:
        """Return what the call showed. Raises its failure if no other call can succeed."""
        if self.failure is not None:
            if self.failure.code in STOPPING:
                raise self.failure
            # A server without tools may say so by refusing them.
            refused = False if name == "tools" and self.failure.code == "refused" else None
            return Tried(name=name, kept=refused, detail=self.failure.message, duration_s=self.duration_s)
        if self.answer is None:
            return Tried(name=name, kept=None, detail="no call was made")
        usage = self.answer.response.usage
        if self.answer.response.finish_reason in CUT and not kept and _begun(self.answer.response.text):
            # With more room it might have been whole.
            kept, words = None, "its reply was begun in the form, and cut by the bound of a short try"
        return Tried(
            name=name,
            kept=kept,
            detail=words,
            tokens_in=usage.get("input_tokens"),
            tokens_out=usage.get("output_tokens"),
            duration_s=self.duration_s,
        )


def _begun(reply: str) -> bool:
    """Return whether the beginning of a reply is one of the form, or thoughts before it."""
    return reply.lstrip().startswith(("[[", "{", "<think"))


# ---------------------------------------------------------------- steps


def _try_step(bank: Bank, lms: Lms, once: _Once) -> tuple[bool, str]:
    _executed(bank, lms, "react", _TASK)
    return _of_step(bank)


def _try_guide(bank: Bank, lms: Lms, once: _Once) -> tuple[bool, str]:
    _executed(bank, lms, "scratchpad", _TASK)
    return _of_step(bank)


def _try_forced(bank: Bank, lms: Lms, once: _Once) -> tuple[bool, str]:
    result = _executed(bank, lms, "react", _TASK)
    kept = result is not None and result.outcome == "forced_at_limit" and bool(result.answer)
    return kept, "it gave an answer" if kept else "its answer can't be read"


def _executed(bank: Bank, lms: Lms, executor: str, task: str) -> RunResult | None:
    """Execute a run of one step; None where the loop's code ended it."""
    from rbank_es.executors.executor import Recorder, RunLimits, executor_class
    from rbank_es.tools.shared.toolbox import build_tools

    bank.append(RunStarted(run=_RUN, task=task, executor=executor))
    tools = build_tools(bank, run=_RUN)
    chosen = executor_class(executor)
    made = chosen(_Unrun if chosen.runs_code else None)
    with suppress(LmFailed):
        return made.execute(task, "", tools, Recorder(bank, _RUN, tools), lms, RunLimits(iterations=1, subcalls=0))
    return None


def _of_step(bank: Bank) -> tuple[bool, str]:
    step = next((event for event in bank.events(resolve=True) if isinstance(event, StepTaken)), None)
    if step is None:
        return False, "there was no step"
    kept = step.error_code not in _UNREAD
    return kept, "the reply was read" if kept else str(step.output)[: reply_limits.TRIED_REASON_CHARS]


class _Unrun:
    """An interpreter that parses code, and runs none."""

    def __init__(self) -> None:
        self.tools: dict[str, Callable[..., Any]] = {}

    def start(self) -> None:
        """Do nothing."""

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> str:
        """Return nothing printed. Raises SyntaxError for what is no Python."""
        ast.parse(code)
        return ""

    def shutdown(self) -> None:
        """Do nothing."""


def _try_tools(bank: Bank, lms: Lms, once: _Once) -> tuple[bool, str]:
    kept = False
    with suppress(LmFailed):
        kept = calls_tools(lms)
    return kept, "it called the tool" if kept else "it called no tool"


# ---------------------------------------------------------------- after a run


def _try_judge(bank: Bank, lms: Lms, once: _Once) -> tuple[bool, str]:
    from rbank_es.judging.lm_judge import judge_by_lm
    from rbank_es.judging.run_outcome import outcome_of

    _record_run(bank)
    with suppress(LmFailed):
        judge_by_lm(outcome_of(bank, _RUN), lms)
    return _of_reply(once)


def _try_extractor(bank: Bank, lms: Lms, once: _Once) -> tuple[bool, str]:
    from rbank_es.extraction.extractors import extract
    from rbank_es.extraction.judged_run import past_run

    _record_run(bank)
    with suppress(LmFailed, RBankError):
        extract(past_run(bank, _RUN), _TASK, {"verdict": "success", "reason": "The number is right."}, lms)
    return _of_reply(once)


def _of_reply(once: _Once) -> tuple[bool, str]:
    return not once.asked_again, "its reply can't be read" if once.asked_again else "the reply was read"


def _record_run(bank: Bank) -> None:
    """Record a made-up run that answered well."""
    step = StepTaken(
        run=_RUN,
        index=1,
        reasoning="Count the letters.",
        code='event_log({"note": "10 letters"})',
        output='{"ok": true}',
    )
    end = RunFinished(run=_RUN, outcome="submitted", iterations=1, answer="It has 10 letters.", answer_chars=18)
    bank.append([RunStarted(run=_RUN, task=_TASK), step, end])


_TRIES: dict[str, Callable[[Bank, Lms, _Once], tuple[bool, str]]] = {
    "step": _try_step,
    "guide": _try_guide,
    "forced": _try_forced,
    "judge": _try_judge,
    "extractor": _try_extractor,
    "tools": _try_tools,
}
