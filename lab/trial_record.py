"""The record of a trial in its bank: what it declared when it began, and whether it kept to it until its end.

A bank may be somebody else's, and anybody may have worked on it. So nothing that a trial declares is believed unless
the definition and the suite of the folder say the same: condition, settings, policies, tasks and their order. What a
person did to the bank after the trial began, and results that are not those recorded at its end, are found too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from rbank_es.errors import BadInput
from rbank_es.events import (
    Event,
    ExperimentFinished,
    ExperimentStarted,
    MemoriesRetracted,
    PolicyChoice,
    PolicySet,
    RunJudged,
    RunStarted,
    type_of,
)
from rbank_es.events.run_events import Trial, VerdictValue
from rbank_es.lab.run_rows import TrialRun
from rbank_es.lab.trial_log import ACTS, TrialLog
from rbank_es.loop.curriculum import Curriculum, TaskOutcome, departures
from rbank_es.loop.tasks import Task

TrialState = Literal["finished", "unfinished", "altered", "missing"]
"""Of a trial. `altered`: somebody acted on its bank, or its results are not those recorded at its end."""


class TrialTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a trial, by the definition and the suite of its folder.

    config_digest   of its condition, as `experiment_started` names it
    settings        digest of the loop's settings, as each of its runs names it
    policies        of its bank, one of each kind
    suite, tasks    digest of the suite; ids of its tasks in the order of the trial
    curriculum      by which the order depends on what came of the tasks; with the tasks, in the order of the trial
    """

    trial: Trial
    config_digest: str
    settings: str
    policies: tuple[PolicyChoice, ...]
    suite: str
    tasks: tuple[str, ...]
    curriculum: tuple[Curriculum, tuple[Task, ...]] | None = None


class TrialRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A trial, as its bank has it.

    why           in words, where it is unfinished or altered
    without_run   ids of tasks of which no run ended
    altered_rows  whether its results are not those recorded at its end
    earlier       times that it had begun before, in banks that were removed
    """

    state: TrialState
    why: str = ""
    without_run: tuple[str, ...] = ()
    altered_rows: bool = False
    earlier: int = 0


def record_of(log: TrialLog, rows: Sequence[TrialRun], terms: TrialTerms, where: str) -> TrialRecord:
    """Return the outcome of a trial, given its rows; `where` names its place in messages.

    Raises `BadInput` for the bank of another trial, suite or code, and for one that declared other terms.
    """
    policies: tuple[PolicyChoice, ...] = ()
    started: ExperimentStarted | None = None
    finished: ExperimentFinished | None = None
    acts: list[str] = []
    for event in log.declared:
        match event:
            # Policies set later are no terms, but an act on the bank.
            case PolicySet() if started is None:
                policies = event.policies
            case ExperimentStarted() if started is None:
                started = event
                _require_declared(event, policies, terms, where)
            case ExperimentFinished() if finished is None:
                finished = event
                _require_trial(event.trial, terms.trial, where)
            case RunStarted() if started is not None:
                _require_settings(event, terms, where)
            case _ if started is not None:
                acts += _acts(event)
    ran = {row.task_id for row in rows}
    missing = tuple(task for task in terms.tasks if task not in ran)
    earlier = started.earlier if started is not None else 0
    if started is None or finished is None:
        return TrialRecord(state="unfinished", why="it has no end", without_run=missing, earlier=earlier)
    return msgspec.structs.replace(_ended(rows, finished, terms, missing, acts), earlier=earlier)


def _ended(
    rows: Sequence[TrialRun], finished: ExperimentFinished, terms: TrialTerms, missing: tuple[str, ...], acts: list[str]
) -> TrialRecord:
    altered = results_digest(rows) != finished.result_digest
    # Acts first, because they explain why results changed.
    if acts:
        return TrialRecord(state="altered", why=acts[0], without_run=missing, altered_rows=altered)
    if altered:
        why = f"its results are not those of {finished.result_digest[:12]}, which it recorded at its end"
        return TrialRecord(state="altered", why=why, without_run=missing, altered_rows=True)
    if missing:
        return TrialRecord(state="unfinished", why=f"no run ended of {missing[0]}", without_run=missing)
    departure = _departure(rows, terms)
    return TrialRecord(state="altered", why=departure) if departure else TrialRecord(state="finished")


def _departure(rows: Sequence[TrialRun], terms: TrialTerms) -> str:
    """Return in words where the order of tasks is not that of the trial; empty if it is."""
    order = dict.fromkeys(row.task_id for row in rows)
    if terms.curriculum is None:
        return "" if tuple(order) == terms.tasks else "its tasks were run in another order than that of the trial"
    rule, tasks = terms.curriculum
    verdicts: dict[str, VerdictValue | None] = {row.task_id: row.verdict for row in rows if row.selected}
    outcomes = [TaskOutcome(task, verdicts.get(task)) for task in order]
    first = next(departures(tasks, outcomes, rule), None)
    return "" if first is None else f"it went on with {first[1].task}, where its curriculum had {first[0].id}"


def _acts(event: Event) -> Iterator[str]:
    by_hand = (
        type_of(event) in ACTS
        or (isinstance(event, MemoriesRetracted) and event.how == "rejected")
        or (isinstance(event, RunJudged) and event.kind in ("human", "outcome"))
    )
    if by_hand:
        yield f"somebody acted on its bank: {type_of(event)} at {event.seq:,}"


# ---------------------------------------------------------------- terms


def _require_trial(found: Trial, planned: Trial, where: str) -> None:
    if found != planned:
        raise BadInput(f"{where} is the bank of another trial: {_words(found)}")


def _require_declared(
    started: ExperimentStarted, policies: tuple[PolicyChoice, ...], terms: TrialTerms, where: str
) -> None:
    _require_trial(started.trial, terms.trial, where)
    if started.suite != terms.suite:
        raise BadInput(f"{where} is of the suite {started.suite[:12]}, not of {terms.suite[:12]}")
    if started.config_digest != terms.config_digest or policies != terms.policies:
        raise BadInput(
            f"{where} was run under other settings than the definition has for {terms.trial.condition!r}: one of them "
            "was changed after the trial began; restore the definition, or run it again in another folder"
        )
    if started.tasks != terms.tasks:
        raise BadInput(f"{where} declares other tasks, or another order of them, than the suite and the seed give")


def _require_settings(started: RunStarted, terms: TrialTerms, where: str) -> None:
    # A run that names no settings is no error here: it breaks a quality gate.
    if started.trial == terms.trial and started.config_digest not in (None, terms.settings):
        raise BadInput(
            f"{where}: the run {started.run} names other settings than the definition has for "
            f"{terms.trial.condition!r}: it is of another experiment, or the definition was changed"
        )


def _words(trial: Trial) -> str:
    return f"{trial.experiment}, {trial.condition}, order {trial.order}, repetition {trial.repetition}"


# ---------------------------------------------------------------- results


def results_digest(rows: Iterable[TrialRun]) -> str:
    """Return the SHA-256, in hex, of the rows of a trial, without what depends on a clock, a source or a rating.

    `experiment_finished` records it. So an interrupted trial has the digest of one that was not; a verdict that came
    after the end of a trial changes it. What is None is left out: a fact that a later release adds to rows
    changes no digest of runs that lack it.
    """
    facts = [_kept(row) for row in rows]
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


_OF_THE_MOMENT = frozenset({"duration_s", "anti_patterns", "grounded_share", "rubric"})


def _kept(row: TrialRun) -> dict[str, Any]:
    facts = ((name, getattr(row, name)) for name in row.__struct_fields__)
    return {name: value for name, value in facts if value is not None and name not in _OF_THE_MOMENT}
