"""The progress of a loop: its current step on one line of a terminal, and a line for each finished task."""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rbank_es.bank import Bank
from rbank_es.cli.shared.ontology_options import skips_unreadable
from rbank_es.cli.shared.output import truncate, warn
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
from rbank_es.events.event_sentences import summary
from rbank_es.events.readable_text import count, safe_line
from rbank_es.log import ANY, Appended, EventLog, Expected, LogWrapper

if TYPE_CHECKING:
    from rbank_es.loop.closed_loop import TaskResult
    from rbank_es.loop.tasks import Task

OnEvents = Callable[[Sequence[Event]], None]

NOT_JUDGED = "not judged"
"""The word for a run without a verdict."""


class WatchedLog(LogWrapper):
    """Log that reports every group appended through it."""

    def __init__(self, log: EventLog, on_events: OnEvents) -> None:
        super().__init__(log)
        self._on_events = on_events

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        """Append as the log does, then report the group, unless it was a duplicate."""
        done = super().append(events, expected=expected)
        if not done.duplicate:
            self._on_events(done.events)
        return done


def watched(bank: Bank, on_events: OnEvents) -> Bank:
    """Return a bank on the same log that reports every group appended through it."""
    return Bank(WatchedLog(bank.log, on_events), bank.name)


class LoopDisplay:
    """Display of a loop on standard error: one line, redrawn on a terminal, and a line for each finished task.

    With `verbose`, every event gets a line, also where standard error is no terminal. Thread-safe. A context manager:
    leaving it wipes the redrawn line.
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

    # ---------------------------------------------------------------- reports

    def task(self, task: Task, number: int, total: int) -> None:
        """Show that a task begins."""
        self._place, self._doing = f"task {number} of {total}, {safe_line(task.id)}", "retrieving"
        self._draw()

    def events(self, events: Sequence[Event]) -> None:
        """Show events that were recorded; any thread may call this."""
        # Rollouts record from several threads.
        with self._mutex:
            for event in events:
                self._note(event)
        if self._verbose:
            for event in events:
                self._print(f"{event.seq:>6,}  {type_of(event)}: {safe_line(summary(event))}")
        self._draw()

    def result(self, result: TaskResult) -> None:
        """Print the line of a finished task."""
        if self._draws or self._verbose:
            self._print(task_line(result))

    def wipe(self) -> None:
        """Wipe the redrawn line, so that the caller can print; the next event draws it again."""
        with self._mutex:
            self._wipe()
            if self._stream is not None:
                self._stream.flush()

    # ---------------------------------------------------------------- drawing

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
            self._stream.write(f"\r\x1b[2K{truncate(safe_line(text), shutil.get_terminal_size().columns - 1)}")
            self._stream.flush()
            self._drawn = True

    def _print(self, text: str) -> None:
        if self._stream is None:
            return
        with self._mutex:
            self._wipe()
            self._stream.write(f"{safe_line(text)}\n")
            self._stream.flush()

    def _wipe(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[2K")
            self._drawn = False

    def __enter__(self) -> LoopDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()


def doing(event: Event) -> str:
    """Return the next work of a loop after an event, in a few words; empty where the event doesn't show it."""
    if isinstance(event, RunStarted):
        return "thinking"
    if isinstance(event, ToolCalled):
        return f"step {event.step}, {safe_line(event.tool)}" if event.step is not None else safe_line(event.tool)
    if isinstance(event, StepTaken):
        return f"step {event.index} failed ({event.error_code})" if event.error_code else f"step {event.index} taken"
    if isinstance(event, RunFinished):
        return f"{event.outcome}; judging"
    if isinstance(event, RunJudged):
        return f"{event.verdict}; learning" if event.purpose == "learning" else ""
    if isinstance(event, MemoriesExtracted):
        return f"{count(len(event.heads), 'candidate')} drawn"
    return "memory brought up to date" if isinstance(event, MemoriesConsolidated) else ""


def task_line(result: TaskResult) -> str:
    """Return the line of a finished task."""
    parts = [
        result.verdict or NOT_JUDGED if result.error_code is None else f"{result.outcome} ({result.error_code})",
        count(result.iterations, "step"),
        *([f"{result.tokens:,} tokens"] if result.tokens is not None else []),
        *([f"${result.cost_usd:.4f}"] if result.cost_usd else []),
        *([count(len(result.added), "new item")] if result.added else []),
        *(["was done already"] if result.how == "known" else []),
    ]
    return f"{safe_line(result.task)}: {', '.join(parts)}" + (f". {safe_line(result.reason)}" if result.reason else "")


UNJUDGED = 1
"""Exit code where runs are left without a verdict or a lesson, because the judge or the extractor gave none."""

UNDONE = 2
"""Exit code where tasks are left undone, the same as of a loop that stops at a task."""


def warn_of_what_is_left(results: Sequence[TaskResult], place: str, given: dict[str, Any]) -> int:
    """Warn of tasks without a run, a verdict or a lesson, which the same command takes up; return the exit code."""
    undone = sum(result.undone for result in results)
    unjudged, undrawn = (sum(len(getattr(each, name)) for each in results) for name in ("unjudged", "undrawn"))
    if undone:
        warn(f"{count(undone, 'task')} of {len(results)} left undone, see above; the same command runs these")
    if unjudged:
        left = f"{count(unjudged, 'run')} left without a verdict, and nothing was learned from that"
        warn(f"{left}; the same command goes on, or: {judge_command(place, given)}")
    if undrawn:
        left = f"{count(undrawn, 'run')} left to learn from, because the extracting model gave no answer"
        warn(f"{left}; the same command goes on, or: rbank-es learn {place} --due")
    return UNDONE if undone else UNJUDGED if unjudged or undrawn else 0


def judge_command(place: str, given: dict[str, Any]) -> str:
    """Return the command that judges the runs without a verdict as this one would have."""
    from rbank_es.judging.judges import needs_of

    judge, model = given["judge"], given["judge_lm"] or given["lm"]
    asks = judge is None or "model" in needs_of(judge)
    source = [("--ont", path) for path in given["paths"]] or [("--endpoint", given["endpoint"])]
    options = [("--judge", judge), ("--judge-lm", model if asks else None), *source]
    named = " ".join(f"{flag} {shlex.quote(value)}" for flag, value in options if value is not None)
    declared = "" if given["whole"] is None else " --whole" if given["whole"] else " --not-whole"
    skipping = " --skip-unreadable" if skips_unreadable() else ""
    return f"rbank-es judge run {shlex.quote(place)} --unjudged {named}{declared}{skipping}"
