"""The recorder: one run of an agent of one's own, from its start to its end.

>>> from rbank_es import Bank
>>> bank = Bank.create("memory:")
>>> with bank.record("Which lamps are lit?", model="a-model") as run:
...     lessons = run.recall()
...     run.tool("search", {"q": "lamps"}, ["hall", "porch"])
...     run.finish("The hall's.")
>>> run.judge(False, by="tests", reason="The porch's, too.")
>>> bank.run(run.id).run.verdict, bank.run(run.id).run.outcome
('failure', 'submitted')
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import RLock
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, cast

from msgspec import Struct

from rbank_es import __version__, limits
from rbank_es.bank.model_calls import ModelCalls
from rbank_es.bank.recall_delivery import lesson_texts
from rbank_es.bank.recorded_values import (
    PlainValues,
    RecordedText,
    recorded_amount,
    recorded_count,
    recorded_error,
    recorded_json,
    recorded_name,
    recorded_settings,
    recorded_text,
)
from rbank_es.bank.run_locks import WriterMark, close_left_runs
from rbank_es.bank.verdict_acts import VerdictActs
from rbank_es.errors import BadInput, DuplicateEvent, RBankError
from rbank_es.events import (
    ContextBuilt,
    Event,
    LmCalled,
    NoteLogged,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.events.items import Item
from rbank_es.events.redaction import secrets
from rbank_es.events.run_events import Outcome, Role, VerdictValue, verdict_value
from rbank_es.system.forks import told_of_forks
from rbank_es.system.registry import Registry

Client = TypeVar("Client")
Result = TypeVar("Result")

told_of_runs: list[Callable[[VerdictActs, AgentRun], object]] = []
"""Who is told of each run that begins in this process, and of its bank: the plugin of pytest, while it has a bank."""

JUDGE_VERSION = "1"
"""The version of a judge that is no part of this project: its name says what it is."""

_PARTS: Registry[Any] = Registry(
    "part of the recorder",
    {"recall": "rbank_es.agents.recall:recall", "wrap": "rbank_es.agents.wrapped_clients:wrapped"},
)
"""What floors above do for a run. Loaded when used: an agent may go without, and searching loads SQLite."""


class Lessons(Struct, frozen=True, kw_only=True):
    """The lessons of a bank that fit a question, for a prompt.

    `text` quotes them within the budget of L2, and is empty where nothing fits, or nothing new. `items` are those that
    fit and that the run has now; `added` are the ids of those that `text` quotes: a run is given none twice.
    `position` is that of the bank that was searched.
    """

    text: str
    items: tuple[Item, ...]
    added: tuple[str, ...]
    position: int

    def __str__(self) -> str:
        return self.text


class AgentRun:
    """One run of an agent while it is recorded, for a `with` or an `async with`. Threads may share it.

    Each method records at once: what it was given is on disk when it returns. Values of any kind and size are taken:
    they are recorded as text, without the environment's secrets, at most `RECORDED_CHARS` of each, with their true
    sizes. Left without `finish`, the run failed: `unfinished`, or `raised` with the exception, which is raised again,
    or `interrupted`. A forked child can't go on with it. Raises `BadInput` for what can't be recorded of this run
    (before it began, after it ended), and as `Bank.append` where the log can't be written.
    """

    def __init__(self, bank: VerdictActs, task: str, facts: Mapping[str, Any]) -> None:
        """Record in `bank`; `facts` are fields of `run_started`. Nothing is recorded before the `with`."""
        if not isinstance(task, str):
            raise BadInput(f"the task of a run is a text, and {type(task).__name__} was given")
        self.id = f"run-{os.urandom(8).hex()}"
        """The id of the run, by which `bank.run(id)`, `show` and `learn` find it."""
        self.task = task
        self._bank, self._facts = bank, _checked(facts)
        self._lock, self._process = RLock(), os.getpid()
        self._start_id, self._end_id = bank.log.new_id(), bank.log.new_id()
        self._mark: WriterMark | None = None
        self._began, self._left, self._ended = False, False, False
        self._steps, self._began_s = 0, 0.0
        self._context: ContextBuilt | None = None
        self._calls = ModelCalls(bank, self.id, self._facts["model"])
        told_of_forks.add(self)

    @property
    def ended(self) -> bool:
        """Whether its end is recorded, so that it can be judged."""
        return self._ended

    @property
    def recalled(self) -> str:
        """The lessons that the run was given so far, for a prompt; empty where none fitted."""
        texts = self._context.texts if self._context is not None else ()
        return "\n\n".join(text for text in texts if isinstance(text, str) and text)

    @property
    def calls(self) -> ModelCalls:
        """The record of its calls of models, for what wraps a client."""
        return self._calls

    def forget_parent(self) -> None:
        """See `Forkable.forget_parent`: the run stays that of the process that began it."""
        self._lock = RLock()

    # ---------------------------------------------------------------- beginning and end

    def __enter__(self) -> Self:
        self._begin(lambda started: self._bank.append(started))
        return self

    def begin_with_recall(self) -> Lessons:
        """Begin the run as `with` does, and recall for its task, in one group: the disk is waited for once.

        For what can't use a `with`: `__exit__` ends the run, also where this was not called or raised.
        """
        return self._begin(lambda started: self._recall(self.task, first=(started,)))

    def _begin(self, record: Callable[[RunStarted], Result]) -> Result:
        """Record the start, perhaps with more, and return what that returns."""
        with self._lock:
            self._require_own_process()
            if self._began or self._left:
                done = "was left before it began" if self._left else "has begun already"
                raise BadInput(f"the run {self.id} {done}; bank.record(task) makes another")
            close_left_runs(self._bank)
            self._mark, self._began_s = WriterMark(self._bank, self.id), time.perf_counter()
            try:
                recorded = record(self._started())
                self._began = True
                for told in told_of_runs:
                    told(self._bank, self)
            except BaseException as error:
                # An interruption may come when the start is on disk, and no `with` would end the run then.
                self._left_by(error, only_if_begun=True)
                raise
        return recorded

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A child that was forked inside of the `with` leaves the run to its parent.
        if os.getpid() != self._process:
            return
        with self._lock:
            # Whoever is beginning it on another thread finds that it was left.
            self._left = not self._began
        if self._left or self._ended:
            return
        if error is not None:
            self._left_by(error)
            return
        try:
            with self._lock:
                self._finish("failed", code="unfinished", error="the agent's loop ended without run.finish(answer)")
        except BaseException as interruption:
            self._left_by(interruption)
            raise

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def finish(self, answer: object = "", *, sparql: str | None = None, evidence: object = None) -> None:
        """Record the answer, and that the run ended with it."""
        hidden = secrets()
        texts = {"answer": recorded_text(answer, hidden)}
        if sparql is not None:
            texts["sparql"] = recorded_text(sparql, hidden)
        if evidence is not None:
            texts["evidence"] = recorded_json(evidence, hidden)
        with self._lock:
            self._require_running("finish")
            self._finish("submitted", texts=texts)

    def _left_by(self, error: BaseException, *, only_if_begun: bool = False) -> None:
        """Record that an exception ended the run. The exception must be raised even if that can't be recorded."""
        try:
            with self._lock:
                begun = not only_if_begun or self._bank.log.seq_of_id(self._start_id) is not None
                if begun and isinstance(error, Exception):
                    self._finish("failed", code="raised", error=recorded_error(error, secrets())[1])
                elif begun:
                    words = f"the run was interrupted ({type(error).__name__})"
                    self._finish("failed", code="interrupted", error=words)
                elif self._mark is not None:
                    self._mark.release()
        except (RBankError, OSError) as failure:
            error.add_note(f"the end of the run {self.id} could not be recorded: {failure}")

    def _finish(
        self,
        outcome: Outcome,
        *,
        texts: Mapping[str, RecordedText] | None = None,
        code: str | None = None,
        error: str | None = None,
    ) -> None:
        given = texts or {}
        sent, unsent = self._calls.delivery()
        event = RunFinished(
            id=self._end_id,
            run=self.id,
            outcome=outcome,
            answer_chars=given["answer"].chars if "answer" in given else None,
            duration_s=max(0.0, round(time.perf_counter() - self._began_s, 6)),
            error_code=code,
            recall_sent=sent,
            recall_unsent=unsent,
            error=error,
            **_fields(given),
        )
        # Under one id, because an end that was interrupted may be on disk already, and a run has one.
        with suppress(DuplicateEvent):
            self._bank.append(event)
        self._ended = True
        self._calls.close()
        if self._mark is not None:
            self._mark.release()

    def _started(self) -> RunStarted:
        task = recorded_text(self.task, secrets()).text
        return RunStarted(id=self._start_id, run=self.id, release=__version__, task=task, **self._facts)

    # ---------------------------------------------------------------- in between

    def recall(self, question: str | None = None) -> Lessons:
        """Return the lessons that fit a question (default: the task), by the bank's retrieval policy.

        The searches and what the run is given are recorded. Raises also as `Bank.search`.
        """
        asked = self.task if question is None else question
        if not isinstance(asked, str):
            raise BadInput(f"a question is a text, and {type(asked).__name__} was given")
        with self._lock:
            self._require_running("recall")
            return self._recall(asked)

    def _recall(self, question: str, *, first: Sequence[Event] = ()) -> Lessons:
        lessons, self._context = _PARTS.get("recall")(
            self._bank,
            recorded_text(question, secrets()).text,
            first=first,
            run=self.id,
            domain=self._facts["ontology"],
            level=self._facts["level"],
            before=self._context,
        )
        self._calls.recall(_texts_of(lessons))
        return cast("Lessons", lessons)

    def tool(
        self,
        name: str,
        arguments: object = None,
        result: object = None,
        *,
        error: object = None,
        duration_s: float | None = None,
    ) -> None:
        """Record a call of a tool: its arguments, what it returned to the agent, its error (a text, an exception)."""
        hidden = secrets()
        code, message = (None, None) if error is None else recorded_error(error, hidden)
        texts = {"arguments": recorded_json({} if arguments is None else arguments, hidden)}
        if result is not None:
            texts["result"] = recorded_text(result, hidden)
        self._record(
            "tool",
            ToolCalled(
                run=self.id,
                tool=recorded_name(name),
                # What the agent got of a call that failed is the message.
                chars=texts["result"].chars if "result" in texts else len(message or ""),
                duration_s=recorded_amount(duration_s, limits.EVENT_S),
                error_code=code,
                error=message,
                **_fields(texts),
            ),
        )

    def step(self, *, reasoning: object = None, code: object = None, output: object = None) -> None:
        """Record a step of the agent: what it thought, the code that it ran, what that gave. Steps are counted."""
        hidden, given = secrets(), {"reasoning": reasoning, "code": code, "output": output}
        texts = {name: recorded_text(value, hidden) for name, value in given.items() if value is not None}
        chars = texts["output"].chars if "output" in texts else None
        with self._lock:
            self._record("step", StepTaken(run=self.id, index=self._steps + 1, stdout_chars=chars, **_fields(texts)))
            self._steps += 1

    def call(
        self,
        *,
        request: object = None,
        response: object = None,
        model: str | None = None,
        role: Role = "agent",
        parameters: Mapping[str, object] | None = None,
        tokens_in: int | None = None,
        tokens_out: int | None = None,
        tokens_cached: int | None = None,
        cost_usd: float | None = None,
        duration_s: float | None = None,
        error: object = None,
    ) -> None:
        """Record a call of a model, as it was sent and answered. `model` is that of the run unless given."""
        hidden = secrets()
        code, message = (None, None) if error is None else recorded_error(error, hidden)
        given = {"request": request, "response": response}
        texts = {name: recorded_json(value, hidden) for name, value in given.items() if value is not None}
        if role == "agent":
            values = PlainValues(limits.LM_REQUEST_BYTES)
            self._calls.begin(values.of(request), whole=request is not None and values.whole)
        self._record(
            "call",
            LmCalled(
                run=self.id,
                role=role,
                model=recorded_name(model or self._facts["model"]),
                parameters=recorded_settings(parameters),
                tokens_in=recorded_count(tokens_in),
                tokens_out=recorded_count(tokens_out),
                tokens_cached=recorded_count(tokens_cached),
                cost_usd=recorded_amount(cost_usd, limits.EVENT_USD),
                duration_s=recorded_amount(duration_s, limits.EVENT_S),
                error_code=code,
                error=message,
                **_fields(texts),
            ),
        )

    def wrap(self, client: Client) -> Client:
        """Return a client whose calls are recorded: an OpenAI client, a `dspy.LM`, or a function that asks a model.

        The client itself is not changed. Answers and exceptions arrive as they are, whatever becomes of the record: a
        failure of that is a `RuntimeWarning`. Calls that begin after the end of the run are recorded as those of none.
        Raises `BadInput` for anything else.
        """
        with self._lock:
            self._require_running("wrap")
            return cast("Client", _PARTS.get("wrap")(client, self._calls))

    def note(self, note: object) -> None:
        """Record anything else that belongs to the run."""
        self._record("note", NoteLogged(run=self.id, note=recorded_json(note, secrets()).text))

    # ---------------------------------------------------------------- afterwards

    def judge(
        self,
        verdict: bool | VerdictValue,
        *,
        by: str,
        reason: str = "",
        kind: Literal["outcome", "human"] = "outcome",
    ) -> None:
        """Record a verdict for learning on the run, which must have ended: True, False or `undecided`.

        An `outcome` is what happened (tests, a reward, an exit code), and `by` what told it; `human` is the word of the
        person `by`, as `bank.overrule` takes it, with a reason. The latest of the highest authority stands.
        """
        value = verdict_value(verdict)
        if value is None:
            raise BadInput(f"{verdict!r} is no verdict: give True, False or 'undecided'")
        if kind not in ("outcome", "human"):
            raise BadInput(f"{kind!r} is no kind of a judge here: give outcome for what happened, human for a person")
        if not self._ended:
            raise BadInput(f"the run {self.id} has not ended: judge it after run.finish(answer), or after the `with`")
        if kind == "human":
            self._bank.overrule(self.id, value, reason=reason, by=recorded_name(by))
            return
        facts: dict[str, Any] = {"judge": recorded_name(by, "outcome"), "judge_version": JUDGE_VERSION}
        words = recorded_text(reason, secrets()).text
        self._bank.append(
            RunJudged(run=self.id, purpose="learning", verdict=value, kind="outcome", reason=words, **facts)
        )

    # ---------------------------------------------------------------- checks

    def _record(self, what: str, event: Event) -> None:
        with self._lock:
            self._require_running(what)
            self._bank.append(event)

    def _require_running(self, what: str) -> None:
        self._require_own_process()
        if not self._began:
            raise BadInput(f"{what}: the run has not begun; use it in a `with`: with bank.record(task) as run: …")
        if self._ended:
            raise BadInput(f"{what}: the run {self.id} has ended; bank.record(task) makes another")

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            raise BadInput(
                f"the run {self.id} is recorded by the process that made it, not by its children: record in that one, "
                "or let the child record a run of its own"
            )


def _texts_of(lessons: Lessons) -> dict[str, tuple[str, ...]]:
    """Return the texts of the items that a recall added, any of which says that the item was sent."""
    contents = {item.id: item.content or item.desc for item in lessons.items if item.id in lessons.added}
    return lesson_texts(lessons.text, contents)


def _checked(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a run as an event holds them. Raises `BadInput` for one that none can hold."""
    level = facts["level"]
    if level is not None and recorded_count(level) is None:
        raise BadInput(f"{level!r} is no level of a task: give a whole number, such as 1 for the easiest")
    for field, value in facts.items():
        name, kind = "domain" if field == "ontology" else field, _KINDS.get(field, str)
        if value is not None and not isinstance(value, kind):
            raise BadInput(
                f"{name}: a value of the type {type(value).__name__} was given, where {kind.__name__} is due"
            )
        if isinstance(value, str) and value != recorded_name(value, value):
            raise BadInput(f"{name}: a name has at most {limits.NAME_CHARS} characters, and no U+0000")
    return dict(facts)


_KINDS: dict[str, type] = {"level": int, "scripted": bool}
"""The types of the facts that are no texts."""


def _fields(texts: Mapping[str, RecordedText]) -> dict[str, Any]:
    previews = tuple(name for name, each in texts.items() if each.cut)
    return {"previews": previews, **{name: each.text for name, each in texts.items()}}
