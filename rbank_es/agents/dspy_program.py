"""A DSPy program that has a bank: it recalls before each call, is recorded, and ends its run. Loads dspy.

>>> agent = Remembering(dspy.ChainOfThought("question -> answer"), bank)  # doctest: +SKIP
>>> agent(question="Which lamps are lit?").answer  # doctest: +SKIP
'hall, porch'
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rbank_es.agents.answer_judges import AnswerJudge, judge_answer
from rbank_es.agents.wrapped_lm import recording_callback
from rbank_es.bank import Bank
from rbank_es.bank.agent_run import AgentRun
from rbank_es.system.extras import named_extra

with named_extra():
    import dspy
    from dspy.utils.callback import BaseCallback


class Remembering(dspy.Module):
    """A program whose calls are runs of one bank, for any number of threads.

    The lessons that fit a call are added to the instructions of each of its predictors, for this call alone: the
    program, its demonstrations and traces are as without. Calls of models and of `dspy.Tool`s are recorded. It is
    compiled, saved and loaded as the program is; saved whole, it holds the place of its bank.
    """

    def __init__(
        self,
        program: dspy.Module,
        bank: Bank | str | Path,
        *,
        judge: AnswerJudge | None = None,
        task: Callable[[Mapping[str, Any]], str] | None = None,
        domain: str | None = None,
    ) -> None:
        """Wrap `program`.

        `judge` gives a verdict on each prediction. `task` says what a call is about, given its inputs: without it, all
        of them. `domain` is a fact of the runs.
        """
        super().__init__()
        self.program = program
        self.judge, self.task, self.domain = judge, task, domain
        self._place = _BankPlace(bank)

    @property
    def bank(self) -> Bank:
        """The bank of its runs. Raises as `Bank.open` where the program was loaded, and the bank isn't there."""
        return self._place.bank

    def forward(self, **inputs: Any) -> Any:
        """Call the program in a run. Raises as the program, `Bank.record` and the judge."""
        run = self._run(inputs)
        with ExitStack() as stack:
            stack.push(run)  # ends it, also where it never began
            run.begin_with_recall()
            with _recorded(run):
                prediction = self.program(**inputs)
            run.finish(_answer(prediction))
        judge_answer(run, self.judge, prediction)
        return prediction

    async def aforward(self, **inputs: Any) -> Any:
        """See `forward`: what reads and writes the bank is on a thread, because a search would hold the loop."""
        run = self._run(inputs)
        with ExitStack() as stack:
            stack.push(run)  # ends it, also where it never began
            await asyncio.to_thread(run.begin_with_recall)
            with _recorded(run):
                prediction = await self.program.acall(**inputs)
            await asyncio.to_thread(run.finish, _answer(prediction))
        await asyncio.to_thread(judge_answer, run, self.judge, prediction)
        return prediction

    def _run(self, inputs: Mapping[str, Any]) -> AgentRun:
        task = _task(inputs) if self.task is None else self.task(inputs)
        return self.bank.record(task, domain=self.domain, executor="dspy")


@contextmanager
def _recorded(run: AgentRun) -> Iterator[None]:
    """Give a context of DSPy that records the calls of a run and has its lessons."""
    callbacks = [*dspy.settings.callbacks, recording_callback(run.calls), _ToolCalls(run)]
    with dspy.context(callbacks=callbacks, adapter=_with_lessons(dspy.settings.adapter, run.recalled)):
        yield


class _BankPlace:
    """The bank of a program. Programs are copied and pickled: a copy has the same bank, a pickle its place."""

    def __init__(self, bank: Bank | str | Path) -> None:
        self._bank = bank

    @property
    def bank(self) -> Bank:
        """The bank, which is opened when it is first used. Raises as `Bank.open`."""
        if not isinstance(self._bank, Bank):
            self._bank = Bank.open(self._bank)
        return self._bank

    def __deepcopy__(self, memo: Any) -> _BankPlace:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _BankPlace, (self._bank.log.place if isinstance(self._bank, Bank) else self._bank,)


class _ToolCalls(BaseCallback):
    """The record of a program's tools in its run."""

    def __init__(self, run: AgentRun) -> None:
        self._run = run
        self._begun: dict[str, tuple[str, Any, float]] = {}

    def on_tool_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Note the call."""
        self._begun[call_id] = (instance.name, inputs.get("kwargs", inputs), time.perf_counter())

    def on_tool_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Record it."""
        name, arguments, began = self._begun.pop(call_id)
        self._run.tool(name, arguments, outputs, error=exception, duration_s=time.perf_counter() - began)


class _Lessons:
    """An adapter that adds lessons to the instructions of each signature that it is called with."""

    lessons: str

    def __call__(self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: Any) -> Any:
        return super().__call__(lm, lm_kwargs, self._extended(signature), demos, inputs)  # type: ignore[misc]

    async def acall(self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: Any) -> Any:
        """See `__call__`."""
        return await super().acall(lm, lm_kwargs, self._extended(signature), demos, inputs)  # type: ignore[misc]

    def _extended(self, signature: Any) -> Any:
        return signature.with_instructions(f"{signature.instructions}\n\n{self.lessons}")


def _with_lessons(adapter: Any, lessons: str) -> Any:
    """Return the adapter in force with lessons. Its class has its name, because DSPy's streams go by names."""
    if not lessons:
        return adapter
    given: Any = copy.copy(adapter) if adapter is not None else dspy.ChatAdapter()
    given.__class__ = type(type(given).__name__, (_Lessons, type(given)), {})
    given.lessons = lessons
    return given


def _task(inputs: Mapping[str, Any]) -> str:
    if len(inputs) == 1:
        return str(next(iter(inputs.values())))
    return "\n".join(f"{name}: {value}" for name, value in inputs.items())


def _answer(prediction: Any) -> Any:
    """Return what a prediction says: the value of its only field, or all of them."""
    fields = prediction.toDict() if isinstance(prediction, dspy.Prediction) else prediction
    return next(iter(fields.values())) if isinstance(fields, dict) and len(fields) == 1 else fields
