"""A function of one's own that judges the answer of a run, as agents of frameworks are given one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from rbank_es.bank.agent_run import AgentRun
from rbank_es.events.run_events import VerdictValue

Told: TypeAlias = bool | VerdictValue | tuple[bool | VerdictValue, str] | None
"""A verdict, or a verdict and its reason; None where the function can't tell."""

AnswerJudge: TypeAlias = Callable[[str, Any], Told]
"""A function of a run's task and its answer. It says what happened, so its verdict is an outcome."""


def judge_answer(run: AgentRun, judge: AnswerJudge | None, answer: object) -> None:
    """Record the verdict of `judge` on a run that has ended, by the function's name.

    Raises as the function; `BadInput` for what is no verdict.
    """
    told = judge(run.task, answer) if judge is not None else None
    if told is None:
        return
    verdict, reason = told if isinstance(told, tuple) else (told, "")
    run.judge(verdict, by=getattr(judge, "__name__", type(judge).__name__), reason=reason)
