"""An agent's runs as a bank records them: what `bank.record(task)` gives, and what people type against.

The floors above make it: this module says what it promises, and reaches it by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar, cast

from msgspec import Struct

from rbank_es.bank.open_bank import OpenBank
from rbank_es.events.items import Item
from rbank_es.events.run_events import Role, VerdictValue
from rbank_es.system.registry import Registry

Client = TypeVar("Client")


# Its policies take as long to load as all else of a bank, and recording needs none of them.
if TYPE_CHECKING:
    from rbank_es.bank.lessons_to_draw import LateLessons


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


class LeftRun(Struct, frozen=True, kw_only=True):
    """A run from which there is nothing to draw, and why."""

    run: str
    reason: str


class Learned(Struct, frozen=True, kw_only=True):
    """What was learned: the lessons that were drawn with what was decided about each, and the runs that were left."""

    bank: str
    lessons: tuple[LateLessons, ...] = ()
    left: tuple[LeftRun, ...] = ()

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of all candidates that were drawn."""
        return tuple(title for each in self.lessons for title in each.titles)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why nothing was drawn, or less than the model gave, for each run where that is so."""
        drawn = (f"{', '.join(each.runs)}: {each.reason}" for each in self.lessons if each.reason)
        return (*drawn, *(f"{each.run}: {each.reason}" for each in self.left))


class AgentRun(Protocol):
    """One run of an agent while it is recorded, for a `with` or an `async with`. Threads may share it.

    Each method records at once: what it was given is on disk when it returns. Values of any kind and size are taken:
    they are recorded as text, without the environment's secrets, at most `RECORDED_CHARS` of each, with their true
    sizes. Left without `finish`, the run failed: `unfinished`, or `raised` with the exception, which is raised again,
    or `interrupted`. A forked child can't go on with it. Raises `BadInput` for what can't be recorded of this run
    (before it began, after it ended), and as `Bank.append` where the log can't be written.
    """

    @property
    def id(self) -> str:
        """The id of the run, by which `bank.run(id)`, `show` and `learn` find it."""
        ...

    @property
    def ended(self) -> bool:
        """Whether its end is recorded, so that it can be judged."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def recall(self, question: str | None = None) -> Lessons:
        """Return the lessons that fit a question (default: the task), by the bank's retrieval policy.

        The searches and what the run is given are recorded. Raises also as `Bank.search`.
        """
        ...

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
        ...

    def step(self, *, reasoning: object = None, code: object = None, output: object = None) -> None:
        """Record a step of the agent: what it thought, the code that it ran, what that gave. Steps are counted."""
        ...

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
        ...

    def wrap(self, client: Client) -> Client:
        """Return a client whose calls are recorded: an OpenAI client, a `dspy.LM`, or a function that asks a model.

        The client itself is not changed. Answers and exceptions arrive as they are, whatever becomes of the record: a
        failure of that is a `RuntimeWarning`. Calls that begin after the end of the run are recorded as those of none.
        Raises `BadInput` for anything else.
        """
        ...

    def note(self, note: object) -> None:
        """Record anything else that belongs to the run."""
        ...

    def finish(self, answer: object = "", *, sparql: str | None = None, evidence: object = None) -> None:
        """Record the answer, and that the run ended with it."""
        ...

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
        ...


_HOMES: Registry[Any] = Registry(
    "part of the recorder",
    {"record": "rbank_es.agents.recorder:RunRecorder", "learn": "rbank_es.agents.learned_lessons:learn"},
)


class AgentActs(OpenBank):
    """The part of `Bank` for agents of one's own."""

    def record(
        self,
        task: str,
        *,
        model: str | None = None,
        task_id: str | None = None,
        level: int | None = None,
        family: str | None = None,
        domain: str | None = None,
        executor: str = "recorder",
        scripted: bool = False,
    ) -> AgentRun:
        """Return a run of an agent on a task, to be recorded in a `with`. `bank.run(id)` asks, `record` records.

        Args:
            task: the question, as the agent gets it.
            model: name of the agent's model.
            task_id: id of the task, the same for each run of it.
            level: difficulty of the task, 1 to 5; the bank's policy may leave out items that only harder ones taught.
            family: tasks of one family are solved in one way.
            domain: what the task is about; the bank's policy may prefer its items, and what is learned has it.
            executor: name of the loop that works on it.
            scripted: whether a script stands in for the model.

        Raises `BadInput` for a task that is no text, or a fact that no event can hold.
        """
        facts: dict[str, Any] = {
            "model": model,
            "task_id": task_id,
            "level": level,
            "family": family,
            "ontology": domain,
            "executor": executor,
            "scripted": scripted,
        }
        return cast("AgentRun", _HOMES.get("record")(self, task, facts))

    def learn(
        self,
        run: AgentRun | str | None = None,
        *,
        complete: Callable[[str], str] | None = None,
        lm: str | None = None,
        api_base: str | None = None,
    ) -> Learned:
        """Draw lessons from a judged run, or from all that are due, and let the bank's policies decide about them.

        Args:
            run: a run or its id; rollouts of its task are learned from together. None for all from which nothing that
                stands was drawn.
            complete: a function that returns a model's reply to a prompt.
            lm: the name of a model in its place: `openai/…`, or `script:FILE`.
            api_base: the URL of a server of one's own for it.

        The model reads the run as it was recorded, and its verdict with the reason. What is recorded is on disk when
        this returns, and a correction that was due is made. Raises `BadInput` unless there is one of `complete` and
        `lm`, and for a run that nobody decided about; `NotInBank`; `LmFailed` if every later call would fail too.
        """
        id = run if run is None or isinstance(run, str) else run.id
        return cast("Learned", _HOMES.get("learn")(self, id, complete, lm, api_base))
