"""`run --dry-run`: what each agent would be told, and how much would be asked of which model. Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.cli.shared.output import Cell, heading, paragraph, say, say_json, styled, table
from rbank_es.cli.shared.terminal_text import block, count, line
from rbank_es.models.scripted_model import CHARS_A_TOKEN

if TYPE_CHECKING:
    from rbank_es.context.assembly import Context
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.tasks import Task
    from rbank_es.sparql.source import Source

FRAME_CHARS: Mapping[str, int] = {"rlm": 4_300, "react": 2_200, "scratchpad": 2_100}
"""What stands in an agent's first prompt around context, question and manual, by executor; a test measures it."""

STEP_TOKENS = 520
ANSWER_TOKENS = 350
"""What a step adds to the next prompt, and what the agent answers in one: fitted to the tokens that a provider counted
in 12 recorded runs of `rlm` with 85 steps over two ontologies; a test fits them again."""

VERDICT_CHARS = 2_000
LESSON_CHARS = 4_000
"""A prompt of the judge without principles and cases, and one of the extractor around its trajectory; a test makes
some. Both hold the question, the answer and the query, here those of a short task."""


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one role for one task: at least, at most, and roughly the tokens if all are made, answers included."""

    role: str
    model: str
    least: int
    most: int
    tokens_most: int


def rehearse(
    tasks: Sequence[Task], settings: LoopSettings, source: Source, bank: Bank | None, *, again: bool, as_json: bool
) -> None:
    """Print the context of each task, and the calls that it would take: none, where it is done and not run `again`."""
    done = _done(tasks, settings, source, bank) if bank is not None and not again else set()
    contexts = [_context(task, settings, source, bank) for task in tasks]
    manual_chars = _manual_chars(settings, source)
    calls = [
        () if task.id in done else estimated(len(built.text) + len(task.question) + manual_chars, settings)
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


def _done(tasks: Sequence[Task], settings: LoopSettings, source: Source, bank: Bank) -> set[str]:
    """Ids of the tasks for which a loop would ask nothing more."""
    from rbank_es.loop.closed_loop import ClosedLoop
    from rbank_es.loop.run_context import Equipment

    with Equipment(bank, settings, source) as equipment:
        loop = ClosedLoop(equipment)
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
    )


def _manual_chars(settings: LoopSettings, source: Source) -> int:
    """Characters of what an agent is told of its tools."""
    from rbank_es.tools.runtime.tool_session import ToolPolicy
    from rbank_es.tools.runtime.toolbox import build_tools

    with Bank.create("memory:") as bank:
        box = build_tools(bank, run="dry", source=source, policy=ToolPolicy(mode=settings.mode))
        return sum(len(tool.usage) + len(tool.doc) for tool in box.manual())


def estimated(prompt_chars: int, settings: LoopSettings) -> tuple[Calls, ...]:
    """The calls of one task by role. `prompt_chars` are those of context, question and manual together."""
    runs, steps = settings.rollouts, settings.iterations
    first = _tokens(prompt_chars + FRAME_CHARS[settings.executor])
    choices = settings.choices

    def calls(role: Any, least: int, most: int, prompt_tokens: int) -> Calls:
        name, tokens = choices.get(role, settings.lm).name, most * (prompt_tokens + ANSWER_TOKENS)
        return Calls(role=role, model=name, least=least, most=most, tokens_most=tokens)

    # The first prompt holds no step, the last one, which asks for the answer, holds all: half of them on average.
    made = [calls("agent", runs, runs * (steps + 1), first + steps * STEP_TOKENS // 2)]
    if settings.executor != "react":
        # What code will ask a model, and how long that is, nobody can tell before: as long as an answer, here.
        made.append(calls("sub", 0, runs * settings.subcalls, ANSWER_TOKENS))
    if settings.judge == "lm":
        chars = VERDICT_CHARS + 2 * limits.JUDGE_MEMORY_CHARS
        made.append(calls("judge", 0, runs * limits.JUDGE_TRIES, _tokens(chars)))
    if settings.extract:
        extractions = 1 if runs == 1 else 2
        chars = limits.EXTRACTION_TRAJECTORY_CHARS + LESSON_CHARS
        made.append(calls("extractor", 0, extractions * limits.EXTRACTION_TRIES, _tokens(chars)))
    return tuple(made)


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_A_TOKEN)


def _tell(task: Task, built: Context, calls: Sequence[Calls]) -> None:
    heading(f"task {line(task.id)}: {line(task.question)}")
    say(block(built.text))
    say(styled(f"\n{count(len(built.text), 'character')} of context", "dim"))
    if not calls:
        say("done before, under these very settings: nothing is asked; --again runs it anew")
        return
    rows: list[list[Cell]] = [[one.role, one.model, one.least, one.most, one.tokens_most] for one in calls]
    table(["role", "model", "calls at least", "at most", "tokens then"], rows)


def _tell_all(calls: Sequence[Sequence[Calls]], tasks: int) -> None:
    least = sum(one.least for each in calls for one in each)
    most = sum(one.most for each in calls for one in each)
    tokens = sum(one.tokens_most for each in calls for one in each)
    say()
    paragraph(
        f"{count(tasks, 'task')}: {least:,} to {most:,} calls, and if all are made some {tokens:,} tokens, counted as "
        f"{CHARS_A_TOKEN} characters each. Failed calls are tried again up to {limits.LM_RETRIES} times. Later tasks "
        "may get more context, from what the ones before teach. Nothing was asked and nothing was written."
    )
