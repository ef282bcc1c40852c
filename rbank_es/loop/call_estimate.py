"""Estimates of the model calls of a task, before any is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.executors.executor import executor_class
from rbank_es.judging.judges import needs_of
from rbank_es.loop.settings import extraction_policy
from rbank_es.models.scripted_model import CHARS_A_TOKEN
from rbank_es.policies import governing

if TYPE_CHECKING:
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.sparql.data_source import Source

STEP_TOKENS = 520
ANSWER_TOKENS = 350
"""Tokens that a step adds to the next prompt, and tokens of an agent's answer: fitted to the counts of a provider in
12 recorded runs of `rlm` with 85 steps over two ontologies; a test fits them again."""

VERDICT_CHARS = 3_500
LESSON_CHARS = 4_000
"""Characters of a judge's prompt without principles and cases, and of an extractor's beside its trajectory. Both
hold the question, the answer and the query of a short task; a test measures them."""


class CallEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated calls of one role for one task; `tokens_most` counts prompts and answers of the most calls."""

    role: str
    model: str
    least: int
    most: int
    tokens_most: int


def manual_chars(settings: LoopSettings, source: Source) -> int:
    """Return the characters of the tools' manual in an agent's prompt."""
    from rbank_es.tools.shared.tool_family import ToolPolicy
    from rbank_es.tools.shared.toolbox import build_tools

    with Bank.create("memory:") as bank:
        box = build_tools(
            bank, run="dry", source=source, policy=ToolPolicy(mode=settings.mode, manual=settings.tool_manual)
        )
        return len(box.manual_text())


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
        # Twice, because principles and past cases each take so much.
        chars = VERDICT_CHARS + 2 * limits.JUDGE_MEMORY_CHARS
        made.append(calls("judge", 0, runs * limits.JUDGE_TRIES, _tokens(chars)))
    if settings.extract:
        policy = extraction_policy(bank, settings)
        # Two at most: one for the contrast of rollouts, one for what the successes share.
        extractions = 1 if runs == 1 or policy.extract_from == "best" else 2
        chars = policy.trajectory_chars + LESSON_CHARS
        made.append(calls("extractor", 0, extractions * policy.tries, _tokens(chars)))
    return tuple(made)


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_A_TOKEN)
