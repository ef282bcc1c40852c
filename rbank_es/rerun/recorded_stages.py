"""What a loop does after a run has ended, in stages: its verdict, its score, and what is learnt of it.

Each stage is made out of the bank as it stood just before, so each is done again there: it came out the same, whatever
was recorded between. What several rollouts taught together is one stage, and belongs to the best of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from rbank_es.errors import JudgeFailed
from rbank_es.events import Event, LmCalled, MemoriesConsolidated, MemoriesExtracted, RunJudged, RunStarted
from rbank_es.extraction.proposals import EXTRACTOR as PROPOSALS
from rbank_es.judging.gold import JUDGE as GOLD
from rbank_es.loop.history import History, rollout_of
from rbank_es.loop.post_run import Learning
from rbank_es.loop.rollouts import Rollout
from rbank_es.loop.single_run import is_agents_own

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.loop.run_context import Equipment
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.tasks import Task

What = Literal["verdict", "score", "lesson"]

_TYPES: Mapping[What, frozenset[str]] = {
    "verdict": frozenset({"lm_called", "run_judged"}),
    "score": frozenset({"run_judged"}),
    "lesson": frozenset({"lm_called", "memories_extracted", "memories_consolidated"}),
}


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage as it was recorded; of one that was cut off and begun again, the attempt that counts.

    `runs` are the ids of the runs that it is about, `position` is that of the bank just before it, `events` are its
    own, texts in place. `complete` is False where nothing came of it: it was cut off, or no answer of the model could
    be used.
    """

    what: What
    runs: tuple[str, ...]
    position: int
    events: tuple[Event, ...]
    complete: bool

    @property
    def by_gold(self) -> bool:
        """Whether the right answer decided, which is not in the bank."""
        return any(isinstance(event, RunJudged) and event.judge == GOLD for event in self.events)


def stages_of(bank: Bank, started: RunStarted, settings: LoopSettings, after: int, upto: int) -> Iterator[Stage]:
    """The stages that follow a run which ended at the position `after`, in the order in which the loop takes them."""
    wanted: list[tuple[What, tuple[str, ...]]] = []
    if settings.judge != "none":
        wanted.append(("verdict", (started.run,)))
    wanted.append(("score", (started.run,)))
    if settings.extract:
        wanted.append(("lesson", _group_of(bank, started, upto)))
    for what, runs in wanted:
        events, complete = _attempt([*events_of(bank, what, runs, after, upto)])
        if events:
            yield Stage(what=what, runs=runs, position=events[0].seq - 1, events=events, complete=complete)


def _group_of(bank: Bank, started: RunStarted, upto: int) -> tuple[str, ...]:
    """The runs that were made to be compared with a run, and itself."""
    if started.rollout_group is None:
        return (started.run,)
    starts = bank.events(point=upto, types={"run_started"})
    return tuple(each.run for each in starts if getattr(each, "rollout_group", None) == started.rollout_group)  # type: ignore[attr-defined]


def events_of(bank: Bank, what: What, runs: Iterable[str], after: int, upto: int) -> Iterator[Event]:
    """The events of one stage of these runs, with those of attempts that were cut off, texts in place.

    Verdicts and scores end with the first, for later ones are others'; so are extractions that name no extractor, and
    those that people made of a run by hand.
    """
    about, extractions = frozenset(runs), set[str]()
    for event in bank.log.read(after=after, upto=upto, types=_TYPES[what]):
        if isinstance(event, MemoriesConsolidated):
            is_one = event.extraction in extractions
        else:
            is_one = _is_of(event, what, about)
        if is_one:
            extractions |= {event.id} if isinstance(event, MemoriesExtracted) else set()
            yield from bank.log.read(after=event.seq - 1, upto=event.seq, resolve=_TYPES[what])
        if is_one and isinstance(event, RunJudged):
            return


def _is_of(event: Event, what: What, runs: frozenset[str]) -> bool:
    if isinstance(event, LmCalled):
        return event.run in runs and event.role == ("judge" if what == "verdict" else "extractor")
    if isinstance(event, RunJudged):
        by_loop = event.kind != "human" if what == "verdict" else event.judge == GOLD
        return event.run in runs and event.purpose == ("learning" if what == "verdict" else "scoring") and by_loop
    if not isinstance(event, MemoriesExtracted) or event.extractor is None or runs.isdisjoint(event.runs):
        return False
    return event.kind != "manual" or event.extractor == PROPOSALS


def _attempt(events: list[Event]) -> tuple[tuple[Event, ...], bool]:
    """The attempt that counts, and whether it came to something: the last that did, else the last."""
    asked = [isinstance(event, LmCalled) for event in events]
    ends = [at for at in range(len(events)) if not asked[at] and all(asked[at + 1 : at + 2])]
    begin = ends[-2] + 1 if len(ends) > 1 else 0
    end = ends[-1] + 1 if ends else len(events)
    return tuple(events[_asked_anew(events, begin, end) : end]), bool(ends)


def _asked_anew(events: list[Event], begin: int, end: int) -> int:
    """Where the question was asked for the last time with which the first attempt began: what is before was cut off."""
    first = next((event for event in events[begin:end] if isinstance(event, LmCalled)), None)
    again = [
        at
        for at, event in enumerate(events[begin:end], begin)
        if first is not None
        and isinstance(event, LmCalled)
        and event.attempt in (None, 1)
        and event.request_key == first.request_key
    ]
    return again[-1] if again else begin


# ---------------------------------------------------------------- done again


def do_again(stage: Stage, again: Equipment, task: Task, started: RunStarted) -> None:
    """Take a stage as the loop does; what comes of it is in the bank's events. Raises `LoopStopped` as the loop."""
    learning, index = Learning(again), started.rollout_index or 0
    with suppress(JudgeFailed):
        if stage.what == "verdict":
            learning.judge(task, started.run, index, again.bank)
        elif stage.what == "score":
            learning.score(task, started.run, index, again.bank)
        else:
            learning.learn(task, rollouts_of(again.bank, stage.runs))


def rollouts_of(bank: Bank, runs: Iterable[str]) -> list[Rollout]:
    """Those of some runs that a loop learns from, as the bank is, in the order of their rollouts; the last of each."""
    history = History(bank).catch_up()
    by_index: dict[int, Rollout] = {}
    for ran in (history.runs[run] for run in runs if run in history.runs):
        end, judged = ran.finished, ran.judged
        if end is not None and judged is not None and is_agents_own(end.outcome, end.error_code):
            by_index[ran.index or 0] = rollout_of(bank, ran)
    return [by_index[index] for index in sorted(by_index)]
