"""What a loop makes of a run that has ended: the verdict for learning, and what is learnt of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from rbank_es.errors import JudgeFailed
from rbank_es.events import Event, LmCalled, MemoriesConsolidated, MemoriesExtracted, RunJudged
from rbank_es.judging.gold import JUDGE as GOLD
from rbank_es.loop.learning import Learning
from rbank_es.loop.rollouts import Rollout

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.loop.equipment import Equipment
    from rbank_es.loop.tasks import Task
    from rbank_es.rerun.recording import Recording

_TYPES = frozenset({"lm_called", "run_judged", "memories_extracted", "memories_consolidated"})


def aftermath_of(bank: Bank, run: str, after: int, upto: int, *, alone: bool) -> Iterator[Event]:
    """The events with which a loop judged a run, and learnt from it if it was `alone`, texts in place.

    What several rollouts taught together is none of one run's; nor are scores, and verdicts that came later.
    """
    roles = ("judge", "extractor") if alone else ("judge",)
    extractions: set[str] = set()
    is_judged = False
    for event in bank.log.read(after=after, upto=upto, types=_TYPES):
        if isinstance(event, LmCalled):
            is_one = event.run == run and event.role in roles
        elif isinstance(event, RunJudged):
            is_one = event.run == run and event.purpose == "learning" and not is_judged
            is_judged = is_judged or is_one
        elif isinstance(event, MemoriesExtracted):
            is_one = alone and run in event.runs
            extractions |= {event.id} if is_one else set()
        else:
            is_one = isinstance(event, MemoriesConsolidated) and event.extraction in extractions
        if is_one:
            yield from bank.log.read(after=event.seq - 1, upto=event.seq, resolve=_TYPES)


def learn_again(again: Equipment, task: Task, recording: Recording) -> None:
    """Judge and learn as the loop did, as far as it did. What comes of it is in the bank's events.

    Raises `LoopStopped` as the loop does.
    """
    learning, started = Learning(again), recording.started
    verdict = next((event for event in recording.aftermath if isinstance(event, RunJudged)), None)
    with suppress(JudgeFailed):
        if verdict is not None and verdict.judge == GOLD:
            # The right answer is not recorded with the run, so its verdict stands.
            again.bank.append(_new(verdict))
        elif verdict is not None or _asked(recording, "judge"):
            learning.judge(task, started.run, started.rollout_index or 0, again.bank)
        learnt = any(isinstance(event, MemoriesExtracted) for event in recording.aftermath)
        if learnt or _asked(recording, "extractor"):
            learning.learn(task, [_rollout(recording, verdict)])


def _asked(recording: Recording, role: str) -> bool:
    return any(isinstance(event, LmCalled) and event.role == role for event in recording.aftermath)


def _new(event: RunJudged) -> RunJudged:
    """The same, as it was before it was appended."""
    return msgspec.structs.replace(event, seq=0, at="", id="", more=0, dur=0, crc="", salt="")


def _rollout(recording: Recording, verdict: RunJudged | None) -> Rollout:
    end = recording.ended
    return Rollout(
        index=recording.started.rollout_index or 0,
        run=recording.run,
        outcome=end.outcome,
        success=verdict.success if verdict is not None else None,
        iterations=end.iterations or 0,
        answer=str(end.answer or ""),
        sparql=str(end.sparql or ""),
    )
