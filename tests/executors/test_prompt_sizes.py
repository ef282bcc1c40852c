"""The first prompts of runs with the short manual: how much shorter they are than those with the whole one were."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import pytest

from tests.sandbox.sandboxes import require_dspy

require_dspy()
import dspy  # noqa: E402

from rbank_es.bank import Bank  # noqa: E402
from rbank_es.data import lights  # noqa: E402
from rbank_es.events.run_events import ToolManual  # noqa: E402
from rbank_es.loop.closed_loop import run_closed_loop  # noqa: E402
from rbank_es.loop.settings import LoopSettings  # noqa: E402
from rbank_es.loop.tasks import load_tasks  # noqa: E402
from rbank_es.models.model_choice import LmChoice  # noqa: E402
from rbank_es.sandbox.session import EXECUTION_INSTRUCTIONS  # noqa: E402
from tests.executors.runs import Turns  # noqa: E402
from tests.loop.loops import source  # noqa: E402

TASKS = {task.id: task for task in load_tasks(lights().tasks)}
FIRST, SECOND = "lights-L1-1", "lights-L5-1"

WHOLE_CHARS = {"rlm": 15_221, "react": 12_820, "scratchpad": 12_994}
"""Characters of a first prompt beside the question, as measured at commit 78d1c37f, with the manual of every tool.

With the question of lights-L1-1 those were 3,960, 3,409 and 3,450 tokens of Qwen2.5-Coder's vocabulary (3.8 characters
a token). The prompts after that, measured in the same way: 1,550, 1,526 and 1,565 tokens (3.65 a token).
"""

SHARE_MOST = 0.58


@cache
def first_prompt(executor: str, task: str, manual: ToolManual = "short") -> str:
    """The first prompt of a run over the shipped ontology, in a new bank."""
    interpreters: Any = partial(dspy.LocalInterpreter)  # type: ignore[attr-defined]
    interpreters.execution_instructions = EXECUTION_INSTRUCTIONS
    turns = Turns(["no fields"] * 4)
    lm = LmChoice(model="test/turns")
    given = LoopSettings(lm=lm, executor=executor, iterations=3, judge="none", extract=False, tool_manual=manual)
    with Bank.create("memory:") as bank:
        run_closed_loop([TASKS[task]], bank, given, source(), interpreters=interpreters, model_for=turns.model_for)
    return turns.prompt(0)


def test_the_first_prompt_with_native_tools_is_no_longer_than_that() -> None:
    """Its tools are schemas, which take more characters than lines do."""
    assert len(first_prompt("tools", FIRST)) <= SHARE_MOST * (WHOLE_CHARS["react"] + len(TASKS[FIRST].question))
    assert len(first_prompt("tools", FIRST, "all")) > 2 * len(first_prompt("tools", FIRST))


MOST_CHARS = {"rlm": 6_000, "react": 6_000, "scratchpad": 6_000, "tools": 6_000}
"""Characters of the first prompt of lights-L1-1, which are at most 1,700 tokens of Qwen2.5-Coder's, of `tools` 1,900.

Measured with the template of a real server: 1,563, 1,539, 1,578 and, with the JSON around its tools, 1,840 tokens for
5,676, 5,584, 5,748 and 5,860 characters.
"""


@pytest.mark.slow
@pytest.mark.parametrize("executor", MOST_CHARS)
def test_a_first_prompt_has_at_most_so_many_tokens(executor: str) -> None:
    assert len(first_prompt(executor, FIRST)) <= MOST_CHARS[executor]


@pytest.mark.slow
@pytest.mark.parametrize("executor", WHOLE_CHARS)
def test_the_whole_manual_is_the_difference_of_a_setting(executor: str) -> None:
    """What `tools` returns on request, each prompt then holds: 7,000 characters more."""
    short, whole = first_prompt(executor, FIRST), first_prompt(executor, FIRST, "all")
    assert 6_500 < len(whole) - len(short) < 8_000
    assert "- `g_props(" in whole and "- `g_props(" not in short
    assert "tools(name" in short and "tools(name" not in whole


@pytest.mark.parametrize("executor", WHOLE_CHARS)
def test_a_prompt_begins_with_what_all_runs_of_a_source_share(executor: str) -> None:
    """So that a provider's cache serves it: two tasks differ behind the instructions and the context alone."""
    first, second = first_prompt(executor, FIRST), first_prompt(executor, SECOND)
    same = first.partition(TASKS[FIRST].question)[0]
    assert second.startswith(same) and len(same) > 0.9 * len(first)
