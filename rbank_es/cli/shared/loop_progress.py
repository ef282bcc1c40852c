"""The progress of a loop: where it is, what it waits for and what it has spent, as a person sees it."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rbank_es.cli.shared.ontology_options import skips_unreadable
from rbank_es.cli.shared.output import truncate, warn
from rbank_es.errors import RBankError
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

if TYPE_CHECKING:
    from rbank_es.loop.closed_loop import TaskResult
    from rbank_es.loop.tasks import Task

NOT_JUDGED = "not judged"
"""The word for a run without a verdict."""

REDRAW_S = 1.0
"""Seconds between two drawings of the line: it shows whole seconds."""

MODEL = "the model's answer"


class RunAtWork:
    """A run on its way: its name and place, what it waits for and since when, and the time of its step so far."""

    def __init__(self, now: float, name: str = "") -> None:
        self.name, self.at, self.waits = name, "retrieving", ""
        self.runs_code, self.scripted = True, False
        self.since = self.step_began = now
        self.model_s = 0.0
        self._steps, self._failed = 0, 0

    def take(self, event: Event, now: float) -> None:
        """Take an event of this run; `now` is in seconds."""
        if isinstance(event, RunStarted):
            self.runs_code, self.scripted = _runs_code(event.executor), event.scripted
            self.name, self._steps = _name(event), event.iterations_max or 0
        elif isinstance(event, StepTaken):
            self.step_began, self.model_s = now, 0.0
            self._failed += event.error_code is not None
        elif isinstance(event, LmCalled):
            self.model_s += event.duration_s or 0.0
        at, waits = self._after(event)
        self.at, self.waits, self.since = at or self.at, self.waits if waits is None else waits, now

    def _after(self, event: Event) -> tuple[str, str | None]:
        """Return where the run is after an event, and what it waits for; empty and None where that doesn't show it."""
        if isinstance(event, RunStarted):
            return self._step(1), MODEL
        if isinstance(event, LmCalled) and event.role == "agent":
            return "", MODEL if event.error_code else "the sandbox" if self.runs_code else "a tool"
        if isinstance(event, ToolCalled):
            tool = safe_line(event.tool)
            at = tool if event.step is None else f"{self._step(event.step)}, {tool}"
            return at, "the sandbox" if self.runs_code else MODEL
        if isinstance(event, StepTaken):
            return self._step(event.index + 1), MODEL
        return after_steps(event)

    def _step(self, index: int) -> str:
        if self._steps and index > self._steps:
            return "after the last step"
        failed = f", {self._failed} failed" if self._failed else ""
        return f"step {index}{f' of {self._steps}' if self._steps else ''}{failed}"


def after_steps(event: Event) -> tuple[str, str | None]:
    """Return the same for an event behind the last step of a run."""
    if isinstance(event, RunFinished):
        return f"{event.outcome}; judging", MODEL
    if isinstance(event, RunJudged) and event.purpose == "learning":
        return f"{event.verdict}; learning", MODEL
    if isinstance(event, MemoriesExtracted):
        return f"{count(len(event.heads), 'candidate')} drawn", ""
    return ("memory brought up to date", "") if isinstance(event, MemoriesConsolidated) else ("", None)


def _name(event: RunStarted) -> str:
    """Return what tells a run from others at work: the condition of an experiment, the task, the rollout."""
    condition = event.trial.condition if event.trial is not None else None
    rollout = f"rollout {event.rollout_index}" if event.rollout_index is not None else None
    return ", ".join(safe_line(each) for each in (condition, event.task_id, rollout) if each)


class LoopDisplay:
    """Display of a loop on standard error: where it is, what it waits for, and what it has spent.

    On a terminal, one line that is redrawn every second, and a line for each finished task. Elsewhere, a line for each
    step and each task that a model answered: scripts answer at once. With `verbose`, every event gets a line.
    Thread-safe. A context manager: leaving it wipes the redrawn line.
    """

    def __init__(self, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr
        self._draws = self._stream is not None and self._stream.isatty()
        self._verbose, self._clock = verbose, clock
        # Reentrant, because an interruption may end a run while its thread draws.
        self._mutex = threading.RLock()
        self._left = threading.Event()
        self._drawn = False
        self._place = ""
        self._runs = dict[str, RunAtWork]()
        self._last = RunAtWork(clock())
        self._calls, self._tokens, self._cost_usd = 0, 0, 0.0
        self._tokens_out, self._model_s = 0, 0.0
        self.ends: list[RunFinished] = []
        """The ends of runs, in order."""

    # ---------------------------------------------------------------- reports

    def task(self, task: Task, number: int, total: int) -> None:
        """Show that a task begins."""
        self._runs, self._last = {}, RunAtWork(self._clock(), safe_line(task.id))
        self.place(f"task {number} of {total}")

    def place(self, words: str) -> None:
        """Show how far the whole is."""
        self._place = words
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
        if self._draws or self._verbose or not result.scripted:
            self._print(task_line(result))

    def wipe(self) -> None:
        """Wipe the redrawn line, so that the caller can print; the next event draws it again."""
        with self._mutex:
            self._wipe()
            if self._stream is not None:
                self._stream.flush()

    def redraw(self) -> None:
        """Draw the line again with the seconds waited by now, unless it is wiped."""
        with self._mutex:
            if self._drawn:
                self._draw()

    # ---------------------------------------------------------------- drawing

    def _note(self, event: Event) -> None:
        run, now = getattr(event, "run", None), self._clock()
        if run is not None:
            self._last = self._runs.setdefault(run, RunAtWork(now, self._last.name))
        if isinstance(event, LmCalled):
            self._calls += 1
            self._tokens += (event.tokens_in or 0) + (event.tokens_out or 0)
            self._cost_usd += event.cost_usd or 0.0
            # Without those that tell no tokens, because their time would lower the rate.
            if event.tokens_out and event.duration_s:
                self._tokens_out, self._model_s = self._tokens_out + event.tokens_out, self._model_s + event.duration_s
        if isinstance(event, StepTaken) and not (self._draws or self._verbose or self._last.scripted):
            self._print(self._step_line(event, now))
        if isinstance(event, RunFinished):
            self.ends.append(event)
        self._last.take(event, now)

    def _step_line(self, event: StepTaken, now: float) -> str:
        """Return the line of a step that was just taken."""
        run, fault = self._last, f" failed ({event.error_code})" if event.error_code else ""
        took = f"{now - run.step_began:,.0f} s, the model {run.model_s:,.0f} s"
        return f"{run.name}: step {event.index}{fault}, {took} ({self._spent})"

    @property
    def _spent(self) -> str:
        cost = f", ${self._cost_usd:.4f}" if self._cost_usd else ""
        rate = f", {self._tokens_out / self._model_s:,.3g} a second" if self._model_s >= 1 else ""
        return f"{count(self._calls, 'call')}, {self._tokens:,} tokens{cost}{rate}"

    def _line(self) -> str:
        waited_s = int(self._clock() - self._last.since)
        waits = ", ".join([self._last.waits] * bool(self._last.waits) + [f"{waited_s:,} s"] * (waited_s >= 1))
        where = ", ".join(filter(None, (self._place, self._last.name)))
        return f"{where}: {self._last.at}{waits and '; '}{waits} ({self._spent})"

    def _draw(self) -> None:
        if not self._draws:
            return
        with self._mutex:
            import shutil

            self._stream.write(f"\r\x1b[2K{truncate(safe_line(self._line()), shutil.get_terminal_size().columns - 1)}")
            self._stream.flush()
            self._drawn = True

    def _tick(self) -> None:
        while not self._left.wait(REDRAW_S):
            self.redraw()

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
        if self._draws:
            threading.Thread(target=self._tick, name="progress", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self.wipe()


def _runs_code(executor: str | None) -> bool:
    from rbank_es.executors.executor import executor_class

    try:
        return executor is None or executor_class(executor).runs_code
    except RBankError:
        return True


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
