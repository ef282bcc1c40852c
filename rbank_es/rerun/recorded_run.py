"""A recorded run: its events, the stages after it, and the check that they suffice to re-execute it.

The stages are those of the loop: verdict, score, lesson. Each was made from the bank as it was just before, so each is
repeated at that point, whatever was recorded in between. The lesson of several rollouts is one stage of the best one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

import msgspec

from rbank_es.bank.ontology_registrations import registered_digest
from rbank_es.errors import BadInput, CannotRerun, JudgeFailed, NotInBank
from rbank_es.events import (
    ContextBuilt,
    Erased,
    Event,
    LmCalled,
    MemoriesConsolidated,
    MemoriesExtracted,
    RunFinished,
    RunJudged,
    RunStarted,
    type_of,
)
from rbank_es.events.codec import texts_of
from rbank_es.judging.gold_judge import JUDGE as GOLD
from rbank_es.judging.verdict import NOBODY
from rbank_es.log.run_reader import read_run, run_starts
from rbank_es.loop.rollouts import Rollout
from rbank_es.loop.run_stages import PostRun
from rbank_es.loop.settings import LoopSettings
from rbank_es.loop.task_history import History
from rbank_es.policies.admission import PROPOSED_BY

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.loop.resources import LoopResources
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.tasks import Task


SURROUNDINGS = frozenset(
    {"interrupted", "not_recorded", "sandbox_failed", "no_dspy", "wrong_dspy", "no_deno", "wrong_deno", "cold",
     "no_cache", "wrong_part", "broken"}
)  # fmt: skip
"""Error codes of failures from outside the run: an interruption, the disk, the sandbox's own parts."""


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with its events, texts resolved.

    `position` is that of the bank just before the run. `events` are those of the run itself, to its end; `stages` those
    that judged, scored and learned from it. `ontology_digest` is the one registered before the run.
    """

    position: int
    started: RunStarted
    ended: RunFinished
    events: tuple[Event, ...]
    stages: tuple[Stage, ...] = ()
    settings: LoopSettings
    ontology_digest: str | None = None
    erased_since: bool = False
    """Whether texts were erased from the bank after the run, so that what it read may be missing now."""

    @property
    def run(self) -> str:
        """Id of the run."""
        return self.started.run

    @property
    def whole(self) -> tuple[Event, ...]:
        """The events of the run and of the stages after it."""
        return self.events + tuple(event for stage in self.stages for event in stage.events)


def runs_of(bank: Bank, point: str | int | None = None) -> tuple[str, ...]:
    """Return the ids of the runs of a bank up to a point, in the order in which they began."""
    return tuple(each.run for each in run_starts(bank.log, bank.resolve(point)))


def recorded_run(bank: Bank, run: str, point: str | int | None = None) -> RecordedRun:
    """Return a run as recorded up to a point. Raises `NotInBank`, and `CannotRerun` if its events are not enough."""
    upto = bank.resolve(point)
    events = read_run(bank.log, run, upto, resolve=True).execution
    if not events:
        raise NotInBank(run, upto)
    started, ended = _checked(run, events)
    settings = _settings(started)
    stages = tuple(stages_of(bank, started, settings, ended.seq, upto))
    for stage in stages:
        _refuse_erased(run, stage.events)
    return RecordedRun(
        position=started.seq - 1,
        started=started,
        ended=ended,
        events=events,
        stages=stages,
        settings=settings,
        ontology_digest=registered_digest(bank, started.ontology, started.seq),
        erased_since=any(True for _ in bank.log.read(after=started.seq, upto=upto, types={"content_erased"})),
    )


def _checked(run: str, events: tuple[Event, ...]) -> tuple[RunStarted, RunFinished]:
    """Return the first event and the last. Raises `CannotRerun` if anything is missing that a rerun can't replace."""
    started, ended = events[0], events[-1]
    _refuse_erased(run, events)
    if started.origin is not None:
        raise CannotRerun(
            run, f"it ran in bank {started.origin}, among the items that were there; rerun it in that bank"
        )
    # The loop always records the text of a context; imports have its size at most.
    has_context = any(isinstance(event, ContextBuilt) and event.texts for event in events)
    if not isinstance(started, RunStarted) or started.settings is None or not has_context:
        reason = "its context, and the requests and responses of its model, are not in its events: it was imported, or "
        raise CannotRerun(run, reason + "made by something else than this loop")
    if not isinstance(ended, RunFinished):
        raise CannotRerun(run, "it never ended: it is still running, or was killed")
    # The endpoint's data may have changed, so a difference would prove nothing.
    if started.endpoint is not None:
        raise CannotRerun(run, f"it asked the endpoint {started.endpoint}, and a rerun uses no network")
    if ended.error_code in SURROUNDINGS:
        raise CannotRerun(
            run, f"it failed for a reason outside the run ({ended.error_code}), which is not in its events"
        )
    return started, ended


def _refuse_erased(run: str, events: tuple[Event, ...]) -> None:
    for event in events:
        if holds_erased(event):
            reason = f"texts of it were erased ({type_of(event)} at position {event.seq:,})"
            raise CannotRerun(run, reason)


def holds_erased(event: Event) -> bool:
    """Return whether a text of an event was erased."""
    return any(map(_is_erased, (getattr(event, name) for name in texts_of(type(event)))))


def _is_erased(value: object) -> bool:
    return isinstance(value, Erased) or (isinstance(value, tuple) and any(isinstance(part, Erased) for part in value))


def _settings(started: RunStarted) -> LoopSettings:
    from rbank_es.loop.settings import LoopSettings

    try:
        return LoopSettings.from_recorded(str(started.settings))
    except BadInput as error:
        raise CannotRerun(started.run, str(error)) from error


What = Literal["verdict", "score", "lesson"]

_TYPES: Mapping[What, frozenset[str]] = {
    "verdict": frozenset({"lm_called", "run_judged"}),
    "score": frozenset({"run_judged"}),
    "lesson": frozenset({"lm_called", "memories_extracted", "memories_consolidated"}),
}


_OF_RUN = frozenset({"lm_called", "run_judged"})


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage after a run as recorded; if it was cut off and repeated, the try that counts.

    `runs` are the ids of its runs, `position` is that of the bank just before it, `events` are its own, texts resolved.
    `complete` is False without an outcome: it was cut off, or the model gave no usable answer.
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
    """Yield the stages after a run that ended at the position `after`, in the loop's order."""
    wanted: list[tuple[What, tuple[str, ...]]] = []
    if settings.judge != NOBODY:
        wanted.append(("verdict", (started.run,)))
    wanted.append(("score", (started.run,)))
    if settings.extract:
        wanted.append(("lesson", _group_of(bank, started, upto)))
    for what, runs in wanted:
        events, complete = _counting_try([*events_of(bank, what, runs, after, upto)])
        if events:
            yield Stage(what=what, runs=runs, position=events[0].seq - 1, events=events, complete=complete)


def _group_of(bank: Bank, started: RunStarted, upto: int) -> tuple[str, ...]:
    """Return the rollouts of the group of a run, itself included."""
    if started.rollout_group is None:
        return (started.run,)
    return tuple(each.run for each in run_starts(bank.log, upto) if each.rollout_group == started.rollout_group)


def events_of(bank: Bank, what: What, runs: Iterable[str], after: int, upto: int) -> Iterator[Event]:
    """Yield the events of one stage of some runs, those of tries that were cut off included, texts resolved.

    Verdicts and scores end with the first one, because later ones are not the loop's. Nor are extractions that name no
    extractor, or that people made by hand.
    """
    about, extractions = frozenset(runs), set[str]()
    # By run where an event has one: an extraction names its runs, and a consolidation none.
    read = [bank.log.read(after=after, upto=upto, types=_TYPES[what] & _OF_RUN, run=run) for run in about]
    if rest := _TYPES[what] - _OF_RUN:
        read.append(bank.log.read(after=after, upto=upto, types=rest))
    for event in merge(*read, key=attrgetter("seq")):
        if isinstance(event, MemoriesConsolidated):
            # A consolidation names no run, only the extraction that it decides on.
            is_one = event.extraction in extractions
        else:
            is_one = _is_of(event, what, about)
        if is_one:
            extractions |= {event.id} if isinstance(event, MemoriesExtracted) else set()
            # Read again with its texts, because few of the events read belong to the stage.
            yield from bank.log.read(after=event.seq - 1, upto=event.seq, resolve=_TYPES[what])
        if is_one and isinstance(event, RunJudged):
            return


def _is_of(event: Event, what: What, runs: frozenset[str]) -> bool:
    if isinstance(event, LmCalled):
        return event.run in runs and event.role == ("judge" if what == "verdict" else "extractor")
    if isinstance(event, RunJudged):
        by_loop = event.kind not in ("human", "outcome") if what == "verdict" else event.judge == GOLD
        return event.run in runs and event.purpose == ("learning" if what == "verdict" else "scoring") and by_loop
    if not isinstance(event, MemoriesExtracted) or event.extractor is None or runs.isdisjoint(event.runs):
        return False
    # What an agent proposed by a tool is recorded as made by hand, and is the loop's nonetheless.
    return event.kind != "manual" or event.extractor in PROPOSED_BY


def _counting_try(events: list[Event]) -> tuple[tuple[Event, ...], bool]:
    """Return the events of the last try with an outcome, else of the last, and whether it has one."""
    asked = [isinstance(event, LmCalled) for event in events]
    # A stage ends with an event that is no call and is followed by a call or by nothing.
    ends = [at for at in range(len(events)) if not asked[at] and all(asked[at + 1 : at + 2])]
    begin = ends[-2] + 1 if len(ends) > 1 else 0
    end = ends[-1] + 1 if ends else len(events)
    return tuple(events[_last_beginning(events, begin, end) : end]), bool(ends)


def _last_beginning(events: list[Event], begin: int, end: int) -> int:
    """Return where the first request was sent for the last time: the calls before it belong to tries cut off."""
    first = next((event for event in events[begin:end] if isinstance(event, LmCalled)), None)
    again = [
        at
        for at, event in enumerate(events[begin:end], begin)
        if first is not None
        and isinstance(event, LmCalled)
        # A retry has the same key, and belongs to the try that it goes on with.
        and event.attempt in (None, 1)
        and event.request_key == first.request_key
    ]
    return again[-1] if again else begin


# ---------------------------------------------------------------- repeated


def repeat_stage(stage: Stage, resources: LoopResources, task: Task, started: RunStarted) -> None:
    """Repeat a stage as the loop does; its outcome is in the bank's events. Raises `LoopStopped` as the loop does."""
    post_run, index = PostRun(resources), started.rollout_index or 0
    # A judge that failed recorded its call and no verdict; so does its repetition.
    with suppress(JudgeFailed):
        if stage.what == "verdict":
            post_run.judge(task, started.run, index, resources.bank)
        elif stage.what == "score":
            post_run.score(task, started.run, index, resources.bank)
        else:
            history = History(resources.bank).catch_up()
            rollouts = rollouts_of(resources.bank, history, stage.runs)
            post_run.learn(task, rollouts, history.with_proposals_kept(stage.runs))


def rollouts_of(bank: Bank, history: History, runs: Iterable[str]) -> list[Rollout]:
    """Return the rollouts among some runs that a loop learns from, in their order; the last run of each."""
    by_index: dict[int, Rollout] = {}
    for ran in (history.runs[run] for run in runs if run in history.runs):
        if ran.is_usable and ran.judged is not None:
            by_index[ran.index or 0] = ran.rollout(bank)
    return [by_index[index] for index in sorted(by_index)]
