"""`run --dry-run`: the context of each task, and an estimate of the model calls. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.cli.shared.output import (
    Cell,
    echo,
    echo_heading,
    echo_json,
    echo_paragraph,
    echo_table,
    safe_block,
    styled,
)
from rbank_es.events.readable_text import count, safe_line
from rbank_es.loop.call_estimate import CallEstimate, estimate_calls, manual_chars
from rbank_es.loop.settings import task_context
from rbank_es.models.scripted_model import CHARS_A_TOKEN

if TYPE_CHECKING:
    from rbank_es.context.assembly import Context
    from rbank_es.events.run_events import RunBounds
    from rbank_es.loop.loop_spend import LoopBounds
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.tasks import Task
    from rbank_es.sparql.data_source import Source


BOUNDS = {
    "calls": "calls of tools",
    "payload_bytes": "bytes of results kept",
    "log_bytes": "bytes written to the log",
    "code_s": "seconds of code alone",
    "wall_s": "seconds with tools",
    "tokens": "tokens of the agent and its sub-calls",
    "usd": "US dollars of the agent and its sub-calls",
}
"""What the bounds limit, by their names without `step_` and `run_`."""


def print_dry_run(
    tasks: Sequence[Task],
    settings: LoopSettings,
    of_loop: LoopBounds,
    source: Source,
    bank: Bank | None,
    *,
    again: bool,
    as_json: bool,
) -> None:
    """Print the context of each task and an estimate of its calls; finished tasks have none, unless run `again`."""
    done = _done_tasks(tasks, settings, source, bank) if bank is not None and not again else set()
    contexts = [task_context(task, settings, source, bank) for task in tasks]
    manual = manual_chars(settings, source)
    calls = [
        () if task.id in done else estimate_calls(len(built.text) + len(task.question) + manual, settings, bank)
        for task, built in zip(tasks, contexts, strict=True)
    ]
    if as_json:
        facts = [
            {"task": task.id, "question": task.question, "context": built.text, "budget": built.rows(), "calls": each}
            for task, built, each in zip(tasks, contexts, calls, strict=True)
        ]
        said = {"written": False, "settings": settings.facts(), "loop_bounds": of_loop}
        echo_json({**said, "config_digest": settings.digest, "tasks": facts})
        return
    for task, built, each in zip(tasks, contexts, calls, strict=True):
        _print_task(task, built, each)
    _print_totals(calls, len(tasks))
    _print_bounds(settings.bounds, of_loop)


def _done_tasks(tasks: Sequence[Task], settings: LoopSettings, source: Source, bank: Bank) -> set[str]:
    """Return the ids of the tasks that a loop would skip as finished."""
    from rbank_es.loop.closed_loop import ClosedLoop
    from rbank_es.loop.resources import LoopResources

    with LoopResources(bank, settings, source) as resources:
        loop = ClosedLoop(resources)
        return {task.id for task in tasks if loop.is_done(task)}


def _print_task(task: Task, built: Context, calls: Sequence[CallEstimate]) -> None:
    echo_heading(f"task {safe_line(task.id)}: {safe_line(task.question)}")
    echo(safe_block(built.text))
    echo(styled(f"\n{count(len(built.text), 'character')} of context", "dim"))
    if not calls:
        echo("finished before under the same settings: no calls; --again runs it again")
        return
    rows: list[list[Cell]] = [[one.role, one.model, one.least, one.most, one.tokens_most] for one in calls]
    echo_table(["role", "model", "calls at least", "at most", "tokens then"], rows)


def _print_totals(calls: Sequence[Sequence[CallEstimate]], tasks: int) -> None:
    least = sum(one.least for each in calls for one in each)
    most = sum(one.most for each in calls for one in each)
    tokens = sum(one.tokens_most for each in calls for one in each)
    echo()
    echo_paragraph(
        f"{count(tasks, 'task')}: {least:,} to {most:,} calls; if all are made, about {tokens:,} tokens of "
        f"{CHARS_A_TOKEN} characters each. Failed calls are retried up to {limits.LM_RETRIES} times. Later tasks "
        "may get more context, from what earlier ones teach. No model was called and nothing was written."
    )


def _print_bounds(bounds: RunBounds, of_loop: LoopBounds) -> None:
    echo_heading("bounds of a run and of each of its steps")
    rows: list[list[Cell]] = [
        [f"{name}: {words}", *(_bound(bounds, f"{scope}_{name}") for scope in ("step", "run"))]
        for name, words in BOUNDS.items()
    ]
    echo_table(["", "step", "run"], rows)
    echo_paragraph("Past one of them tools refuse, a step is stopped, or the run is asked for its answer.")
    for name in of_loop.__struct_fields__:
        if (most := getattr(of_loop, name)) is not None:
            echo_paragraph(f"Once the loop has spent {most:,g} ({name}), it begins no further task.")


def _bound(bounds: RunBounds, name: str) -> int | float | None:
    number = getattr(bounds, name, None)
    return None if number is UNSET else number
