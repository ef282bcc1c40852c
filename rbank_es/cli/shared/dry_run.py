"""`run --dry-run`: the context of each task, and an estimate of the model calls. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.cli.shared.output import (
    Cell,
    count,
    echo,
    echo_heading,
    echo_json,
    echo_paragraph,
    echo_table,
    safe_block,
    safe_line,
    styled,
)
from rbank_es.executors.executor import executor_class
from rbank_es.judging.judges import needs_of
from rbank_es.loop.overrides import extraction_policy
from rbank_es.models.scripted_model import CHARS_A_TOKEN
from rbank_es.policies import governing

if TYPE_CHECKING:
    from rbank_es.context.assembly import Context
    from rbank_es.events.run_events import RunBounds
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.tasks import Task
    from rbank_es.sparql.source import Source


STEP_TOKENS = 520
ANSWER_TOKENS = 350
"""Tokens that a step adds to the next prompt, and tokens of an agent's answer: fitted to the counts of a provider in
12 recorded runs of `rlm` with 85 steps over two ontologies; a test fits them again."""

VERDICT_CHARS = 3_500
LESSON_CHARS = 4_000
"""Characters of a judge's prompt without principles and cases, and of an extractor's beside its trajectory. Both
hold the question, the answer and the query of a short task; a test measures them."""


BOUNDS = {
    "calls": "calls of tools",
    "payload_bytes": "bytes of results kept",
    "log_bytes": "bytes written to the log",
    "code_s": "seconds of code alone",
    "wall_s": "seconds with tools",
}
"""What the bounds limit, by their names without `step_` and `run_`."""


class CallEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated calls of one role for one task; `tokens_most` counts prompts and answers of the most calls."""

    role: str
    model: str
    least: int
    most: int
    tokens_most: int


def print_dry_run(
    tasks: Sequence[Task], settings: LoopSettings, source: Source, bank: Bank | None, *, again: bool, as_json: bool
) -> None:
    """Print the context of each task and an estimate of its calls; finished tasks have none, unless run `again`."""
    done = _done_tasks(tasks, settings, source, bank) if bank is not None and not again else set()
    contexts = [_context(task, settings, source, bank) for task in tasks]
    manual_chars = _manual_chars(settings, source)
    calls = [
        () if task.id in done else estimate_calls(len(built.text) + len(task.question) + manual_chars, settings, bank)
        for task, built in zip(tasks, contexts, strict=True)
    ]
    if as_json:
        facts = [
            {"task": task.id, "question": task.question, "context": built.text, "budget": built.rows(), "calls": each}
            for task, built, each in zip(tasks, contexts, calls, strict=True)
        ]
        echo_json({"written": False, "settings": settings.facts(), "config_digest": settings.digest, "tasks": facts})
        return
    for task, built, each in zip(tasks, contexts, calls, strict=True):
        _print_task(task, built, each)
    _print_totals(calls, len(tasks))
    _print_bounds(settings.bounds)


def _done_tasks(tasks: Sequence[Task], settings: LoopSettings, source: Source, bank: Bank) -> set[str]:
    """Return the ids of the tasks that a loop would skip as finished."""
    from rbank_es.loop.closed_loop import ClosedLoop
    from rbank_es.loop.resources import LoopResources

    with LoopResources(bank, settings, source) as resources:
        loop = ClosedLoop(resources)
        return {task.id for task in tasks if loop.is_done(task)}


def _context(task: Task, settings: LoopSettings, source: Source, bank: Bank | None) -> Context:
    from rbank_es.context.assembly import build_context

    return build_context(
        task.question,
        source,
        bank,
        layers=settings.layers,
        budgets=settings.budgets,
        preset=settings.preset,
        mode=settings.mode,
        curated=settings.constraints,
        guide=settings.guide,
        domain=settings.domain,
        observed=settings.observed,
        task_slice=settings.task_slice,
        memory_graph=settings.memory_graph,
    )


def _manual_chars(settings: LoopSettings, source: Source) -> int:
    from rbank_es.tools.runtime.tool_session import ToolPolicy
    from rbank_es.tools.runtime.toolbox import build_tools

    with Bank.create("memory:") as bank:
        box = build_tools(bank, run="dry", source=source, policy=ToolPolicy(mode=settings.mode))
        return sum(len(tool.usage) + len(tool.doc) for tool in box.manual())


def estimate_calls(prompt_chars: int, settings: LoopSettings, bank: Bank | None = None) -> tuple[CallEstimate, ...]:
    """Return the calls of one task by role, under the bank's policies; without a bank, under those of a new one.

    `prompt_chars` is the sum of context, question and manual.
    """
    runs, steps = settings.rollouts, settings.iterations
    executor = executor_class(settings.executor)
    first = _tokens(prompt_chars + executor.frame_chars)
    choices = settings.choices

    def calls(role: Any, least: int, most: int, prompt_tokens: int) -> CallEstimate:
        name, tokens = choices.get(role, settings.lm).name, most * (prompt_tokens + ANSWER_TOKENS)
        return CallEstimate(role=role, model=name, least=least, most=most, tokens_most=tokens)

    # Half the steps on average: the first prompt holds none of them, the last one, for the answer, all.
    made = [calls("agent", runs, runs * (steps + 1), first + steps * STEP_TOKENS // 2)]
    if executor.runs_code:
        # Sub-calls are as long as an answer, because nothing is known before about what code will ask.
        made.append(calls("sub", 0, runs * settings.subcalls, ANSWER_TOKENS))
    judging = governing("judging", bank.policy_choice("judging") if bank is not None else None)
    if "model" in needs_of(settings.judge or judging.name):
        chars = VERDICT_CHARS + 2 * limits.JUDGE_MEMORY_CHARS
        made.append(calls("judge", 0, runs * limits.JUDGE_TRIES, _tokens(chars)))
    if settings.extract:
        policy = extraction_policy(bank, settings)
        extractions = 1 if runs == 1 or policy.extract_from == "best" else 2
        chars = policy.trajectory_chars + LESSON_CHARS
        made.append(calls("extractor", 0, extractions * policy.tries, _tokens(chars)))
    return tuple(made)


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_A_TOKEN)


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


def _print_bounds(bounds: RunBounds) -> None:
    echo_heading("bounds of a run and of each of its steps")
    rows: list[list[Cell]] = [
        [f"{name}: {words}", *(getattr(bounds, f"{scope}_{name}", None) for scope in ("step", "run"))]
        for name, words in BOUNDS.items()
    ]
    echo_table(["", "step", "run"], rows)
    echo_paragraph("Past one of them tools refuse, a step is stopped, or the run is asked for its answer.")
