"""`run --dry-run`: what each agent would be told, and how much would be asked of which model. Nothing is written."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.cli.output import Cell, heading, paragraph, say, say_json, styled, table
from rbank_es.cli.texts import block, count, line
from rbank_es.lms.scripting import CHARS_A_TOKEN

if TYPE_CHECKING:
    from rbank_es.context.build import Context
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.tasks import Task
    from rbank_es.sparql.source import Source

FRAME_CHARS = 2_500
"""What stands in a prompt around context, question and tools: seen in prompts of all three executors."""

STEP_CHARS = 1_200
"""What an average step adds to the next prompt, and what an average answer of the agent has: seen in recorded runs."""

VERDICT_CHARS = 3_000
"""A prompt of the judge, without principles and cases."""


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one role for one task: at least, at most, and the tokens of all of them at most, roughly."""

    role: str
    model: str
    least: int
    most: int
    tokens_most: int


def rehearse(
    tasks: Sequence[Task], settings: LoopSettings, source: Source, bank: Bank | None, *, as_json: bool
) -> None:
    """Print the context of each task, and the calls that it would take."""
    contexts = [_context(task, settings, source, bank) for task in tasks]
    manual_chars = _manual_chars(settings, source)
    calls = [
        estimated(len(built.text) + len(task.question) + manual_chars, settings)
        for task, built in zip(tasks, contexts, strict=True)
    ]
    if as_json:
        told = [
            {"task": task.id, "question": task.question, "context": built.text, "budget": built.rows(), "calls": each}
            for task, built, each in zip(tasks, contexts, calls, strict=True)
        ]
        say_json({"written": False, "settings": settings.facts(), "config_digest": settings.digest, "tasks": told})
        return
    for task, built, each in zip(tasks, contexts, calls, strict=True):
        _tell(task, built, each)
    _tell_all(calls, len(tasks))


def _context(task: Task, settings: LoopSettings, source: Source, bank: Bank | None) -> Context:
    from rbank_es.context.build import build_context

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
    )


def _manual_chars(settings: LoopSettings, source: Source) -> int:
    """Characters of what an agent is told of its tools."""
    from rbank_es.tools.desk import ToolPolicy
    from rbank_es.tools.toolbox import build_tools

    with tempfile.TemporaryDirectory(prefix="rbank-dry-") as folder, Bank.create(Path(folder) / "dry") as bank:
        box = build_tools(bank, run="dry", source=source, policy=ToolPolicy(mode=settings.mode))
        return sum(len(tool.usage) + len(tool.doc) for tool in box.manual())


def estimated(prompt_chars: int, settings: LoopSettings) -> tuple[Calls, ...]:
    """The calls of one task by role. `prompt_chars` are those of context, question and manual together."""
    runs, steps = settings.rollouts, settings.iterations
    first = prompt_chars + FRAME_CHARS
    whole = sum(first + number * 2 * STEP_CHARS for number in range(steps + 1))
    choices = settings.choices

    def calls(role: Any, least: int, most: int, chars: int) -> Calls:
        name = choices.get(role, settings.lm).name
        return Calls(role=role, model=name, least=least, most=most, tokens_most=-(-chars // CHARS_A_TOKEN))

    made = [calls("agent", runs, runs * (steps + 1), runs * whole)]
    if settings.executor != "react":
        made.append(calls("sub", 0, runs * settings.subcalls, runs * settings.subcalls * STEP_CHARS))
    if settings.judge == "lm":
        most = runs * limits.JUDGE_TRIES
        made.append(calls("judge", 0, most, most * (VERDICT_CHARS + 2 * limits.JUDGE_MEMORY_CHARS)))
    if settings.extract:
        extractions = 1 if runs == 1 else 2
        most = extractions * limits.EXTRACTION_TRIES
        made.append(calls("extractor", 0, most, most * (limits.EXTRACTION_TRAJECTORY_CHARS + FRAME_CHARS)))
    return tuple(made)


def _tell(task: Task, built: Context, calls: Sequence[Calls]) -> None:
    heading(f"task {line(task.id)}: {line(task.question)}")
    say(block(built.text))
    say(styled(f"\n{count(len(built.text), 'character')} of context", "dim"))
    rows: list[list[Cell]] = [[one.role, one.model, one.least, one.most, one.tokens_most] for one in calls]
    table(["role", "model", "calls at least", "at most", "tokens at most"], rows)


def _tell_all(calls: Sequence[Sequence[Calls]], tasks: int) -> None:
    least = sum(one.least for each in calls for one in each)
    most = sum(one.most for each in calls for one in each)
    tokens = sum(one.tokens_most for each in calls for one in each)
    say()
    paragraph(
        f"{count(tasks, 'task')}: {least:,} to {most:,} calls, at most some {tokens:,} tokens, counted as "
        f"{CHARS_A_TOKEN} characters each. Failed calls are tried again up to {limits.LM_RETRIES} times. Later tasks "
        "may get more context, from what the ones before teach. Nothing was asked and nothing was written."
    )
