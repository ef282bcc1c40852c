"""The cost of recording a run: the executor `rlm` beside a bare dspy.RLM with the same model, tool, sandbox and code.

The two take turns, many times, in one sandbox session that is never restarted. The result is the difference within each
round, because whatever slows the machine slows both.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy

from benchmarks.measure import NONE, Goal, Row, Samples, duration, interleave, interval, timed
from benchmarks.sandboxes import kept
from benchmarks.scripted import ANSWER, CONTEXT, LATENCY_S, QUESTION, STEPS, Scripted, count_words
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.context.assembly import Context
from rbank_es.context.base_instructions import base_instructions
from rbank_es.events import RunStarted
from rbank_es.executors.agent_step import AgentTask
from rbank_es.executors.executor import Recorder, RunLimits
from rbank_es.executors.rlm import Rlm
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.run_models import Lms
from rbank_es.tools.memory.query_extractor import QueryPattern
from rbank_es.tools.shared.handle_store import Store
from rbank_es.tools.shared.tool_family import Reply, ToolSession
from rbank_es.tools.shared.toolbox import Toolbox

GOAL_PERCENT = 5


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield a row with a model that answers at once, and one with a latency; both have the goal."""
    # It says in each run that our sandbox refuses its sub-agents.
    logging.getLogger("dspy.predict.rlm").setLevel(logging.ERROR)
    with kept(1) as interpreter:
        for latency_s, rounds in ((0.0, sizes.recording_rounds), (LATENCY_S, sizes.latency_rounds)):
            with (
                Bank.create(place / f"synced-{latency_s}") as bank,
                Bank.create(place / f"unsynced-{latency_s}", unsafe_no_sync=True) as unsynced,
            ):
                yield _row(bank, unsynced, interpreter, latency_s, rounds)


def _row(bank: Bank, unsynced: Bank, interpreter: Any, latency_s: float, rounds: int) -> Row:
    engine, numbers = Scripted(latency_s), itertools.count(1)

    def asked() -> str:
        # The log holds a text once only, so each run has a question of its own, and so prompts of its own.
        return f"{QUESTION} ({next(numbers)})"

    contestants = {
        "ours": timed(lambda: _ours(bank, engine, interpreter, asked())),
        "bare": timed(lambda: _bare(engine, interpreter, asked())),
    }
    if not latency_s:
        contestants["unsynced"] = timed(lambda: _ours(unsynced, engine, interpreter, asked()))
    samples = interleave(contestants, rounds)
    over = samples.differences("ours", "bare")
    middle, low, high = interval(over)
    bare_s = samples.median("bare")
    told = "answers at once" if not latency_s else f"takes {latency_s * 1e3:.0f} ms for each of {STEPS} answers"
    best_s = min(samples.seconds["ours"]) - min(samples.seconds["bare"])
    return Row(
        "recording",
        f"a run of {STEPS} steps, {rounds} pairs; the model {told}",
        f"{duration(samples.median('ours'))}; recording {middle * 1e3:.1f} ms a run "
        f"({low * 1e3:.1f} to {high * 1e3:.1f}; of the fastest {best_s * 1e3:.1f})",
        peer=f"dspy.RLM alone {duration(bare_s)}",
        floor=_unsynced(samples) if not latency_s else NONE,
        goal=Goal("≤", GOAL_PERCENT, "% over the peer"),
        value=100 * middle / bare_s,
    )


def _unsynced(samples: Samples) -> str:
    over_ms = 1e3 * interval(samples.differences("unsynced", "bare")).median
    return f"recording without sync {over_ms:.1f} ms a run"


def _bare(engine: Scripted, interpreter: Any, question: str) -> None:
    lm = dspy.LM("test/scripted", engine=engine, cache=False, num_retries=0)
    with dspy.context(lm=lm):
        made = dspy.RLM(AgentTask, tools=[count_words], interpreter_factory=interpreter)(
            context=CONTEXT, question=question
        )
    assert made.answer == ANSWER, made.answer


def _ours(bank: Bank, engine: Scripted, interpreter: Any, question: str) -> None:
    run = bank.log.new_id()
    context = Context(mode="auto", layers=(base_instructions(),))
    bank.append([RunStarted(run=run, task=question, executor="rlm"), context.event(run)])
    session = ToolSession(bank, run, Store(bank, run), QueryPattern())
    tools = Toolbox(session, {"count_words": _counted}, clock=_clock)
    recorder = Recorder(bank, run, tools)
    with Lms(bank, run, {"agent": LmChoice(model="test/scripted")}, model_for=lambda *_: engine) as lms:
        result = Rlm(interpreter).execute(question, CONTEXT, tools, recorder, lms, RunLimits(iterations=20))
    assert result.answer == ANSWER, result


_clock: Callable[[], float] = time.perf_counter


def _counted(text: str) -> Reply:
    return Reply(count_words(text))


_counted.__doc__ = count_words.__doc__
