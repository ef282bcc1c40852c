"""A loop while it runs: what it is doing, on one line of a terminal, and a line for each task that ended."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rbank_es.bank import Bank
from rbank_es.cli.shared.event_sentences import summary
from rbank_es.cli.shared.terminal_text import count, cut, line
from rbank_es.events import (
    Event,
    LmCalled,
    MemoriesConsolidated,
    MemoriesExtracted,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
    type_of,
)
from rbank_es.log import ANY, Appended, EventLog, Expected, LogWrapper

if TYPE_CHECKING:
    from rbank_es.loop.closed_loop import TaskResult
    from rbank_es.loop.tasks import Task

OnEvents = Callable[[Sequence[Event]], None]

VERDICTS = {True: "success", False: "failure", None: "not judged"}


class WatchedLog(LogWrapper):
    """A log that tells of every group that is appended through it."""

    def __init__(self, log: EventLog, on_events: OnEvents) -> None:
        super().__init__(log)
        self._on_events = on_events

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        """As of the log."""
        done = super().append(events, expected=expected)
        if not done.duplicate:
            self._on_events(done.events)
        return done


def watched(bank: Bank, on_events: OnEvents) -> Bank:
    """The bank, telling of every group that is appended through what this returns."""
    return Bank(WatchedLog(bank.log, on_events), bank.name)


class Live:
    """Shows on standard error what a loop does: one line, drawn over and over, where that is a terminal.

    A line for each task that ended stays there too; with `verbose` one for every event, also where nobody looks.
    A context manager: leaving it wipes the line.
    """

    def __init__(self, *, verbose: bool = False) -> None:
        self._stream = sys.stderr
        self._draws = self._stream is not None and self._stream.isatty()
        self._verbose = verbose
        self._mutex = threading.Lock()
        self._drawn = False
        self._place = ""
        self._doing = ""
        self._calls, self._tokens, self._cost_usd = 0, 0, 0.0

    # ---------------------------------------------------------------- what is told

    def task(self, task: Task, number: int, total: int) -> None:
        """A task begins."""
        self._place, self._doing = f"task {number} of {total}, {line(task.id)}", "retrieving"
        self._draw()

    def events(self, events: Sequence[Event]) -> None:
        """Something was recorded; called by any thread."""
        with self._mutex:
            for event in events:
                self._note(event)
        if self._verbose:
            for event in events:
                self._say(f"{event.seq:>6,}  {type_of(event)}: {line(summary(event))}")
        self._draw()

    def result(self, result: TaskResult) -> None:
        """A task ended."""
        if self._draws or self._verbose:
            self._say(told(result))

    def wipe(self) -> None:
        """Take the line away, so that something else can be printed; the next event draws it again."""
        with self._mutex:
            self._wipe()
            if self._stream is not None:
                self._stream.flush()

    # ---------------------------------------------------------------- showing

    def _note(self, event: Event) -> None:
        if isinstance(event, LmCalled):
            self._calls += 1
            self._tokens += (event.tokens_in or 0) + (event.tokens_out or 0)
            self._cost_usd += event.cost_usd or 0.0
        self._doing = doing(event) or self._doing

    def _draw(self) -> None:
        if not self._draws:
            return
        with self._mutex:
            import shutil

            cost = f", ${self._cost_usd:.4f}" if self._cost_usd else ""
            text = f"{self._place}: {self._doing} ({count(self._calls, 'call')}, {self._tokens:,} tokens{cost})"
            self._stream.write(f"\r\x1b[2K{cut(text, shutil.get_terminal_size().columns - 1)}")
            self._stream.flush()
            self._drawn = True

    def _say(self, text: str) -> None:
        if self._stream is None:
            return
        with self._mutex:
            self._wipe()
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def _wipe(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[2K")
            self._drawn = False

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()


def doing(event: Event) -> str:
    """What a loop is doing after an event, in a few words; empty where it says nothing of that."""
    if isinstance(event, RunStarted):
        return "thinking"
    if isinstance(event, ToolCalled):
        return f"step {event.step}, {line(event.tool)}" if event.step is not None else line(event.tool)
    if isinstance(event, StepTaken):
        return f"step {event.index} failed ({event.error_code})" if event.error_code else f"step {event.index} taken"
    if isinstance(event, RunFinished):
        return f"{event.outcome}; judging"
    if isinstance(event, RunJudged):
        return f"{VERDICTS[event.success]}; learning" if event.purpose == "learning" else ""
    if isinstance(event, MemoriesExtracted):
        return f"{count(len(event.heads), 'candidate')} drawn"
    return "memory brought up to date" if isinstance(event, MemoriesConsolidated) else ""


def told(result: TaskResult) -> str:
    """A task that ended, on one line."""
    parts = [
        VERDICTS[result.success] if result.error_code is None else f"{result.outcome} ({result.error_code})",
        count(result.iterations, "step"),
        f"{result.tokens_in + result.tokens_out:,} tokens",
        *([f"${result.cost_usd:.4f}"] if result.cost_usd else []),
        *([count(len(result.added), "new item")] if result.added else []),
        *(["was done already"] if result.how == "known" else []),
    ]
    return f"{line(result.task)}: {', '.join(parts)}" + (f". {line(result.reason)}" if result.reason else "")
