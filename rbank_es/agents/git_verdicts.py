"""Verdicts from what became of commits: a run whose commit was reverted failed, until the revert is reverted.

The judge is `git`, of the kind `outcome`. It changes nothing where a person judged, where the run failed anyway, and
where the history doesn't tell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rbank_es.agents.git_history import CommitHistory, Fate
from rbank_es.agents.git_process import read_history
from rbank_es.bank import Bank
from rbank_es.bank.correction_effect import Correction
from rbank_es.bank.run_judgments import JUDGMENT_TYPES
from rbank_es.events import Event, RunFinished, RunJudged
from rbank_es.events.run_events import VerdictValue
from rbank_es.law import LiveState, State
from rbank_es.law.bank_state import StandingVerdict
from rbank_es.limits import git_limits

JUDGE = "git"
_HASH = re.compile(rf"[0-9a-f]{{{git_limits.GIT_HASH_CHARS},64}}")
_REVERTED = ("reverted",)
_LOST: tuple[Fate, ...] = ("reverted", "reset")


class CommitVerdict(Struct, frozen=True, kw_only=True):
    """A run with commits that were reverted, or landed again: the verdict that it is given, or why it is given none.

    `fate` is `reverted`, `reset` (thrown away) or `present` (landed again). `by` is the commit that did it.
    """

    run: str
    commit: str
    fate: Fate
    by: str
    verdict: VerdictValue | None
    because: str = ""


class CommitVerdicts(Struct, frozen=True, kw_only=True):
    """What the history of a repository says of runs: `looked_at` have commits, of those in `rows` it says more."""

    repository: str
    looked_at: int
    rows: tuple[CommitVerdict, ...]
    correction: Correction


class _Given(NamedTuple):
    """The failure that this judge gave a run last, the commits because of which it did, and the verdict before."""

    seq: int
    commits: tuple[str, ...]
    before: VerdictValue | None


def learn_from_git(bank: Bank, repository: str | Path, *, dry_run: bool = False) -> CommitVerdicts:
    """Give verdicts on the runs of a bank whose commits were reverted in a repository, and correct what follows.

    A run whose commit landed again is given the verdict that it had before. Doing it twice is doing it once.
    Raises as `read_history` does.
    """
    history = read_history(repository)
    made = commits_of(bank)
    verdicts, given = _judged_before(bank)
    rows = tuple(
        row
        for run, commits in made.items()
        if (row := _row(run, commits, history, verdicts.get((run, "learning")), given.get(run))) is not None
    )
    judged = {row.run: row.verdict for row in rows if row.verdict is not None}

    def act(_: State) -> list[Event]:
        return [_judgment(row, made[row.run], history) for row in rows if row.verdict is not None]

    correction = bank.corrector.correct(act, runs=list(judged), dry_run=dry_run)
    return CommitVerdicts(
        repository=str(repository), looked_at=len(made), rows=rows, correction=replace(correction, verdicts=judged)
    )


def commits_of(bank: Bank) -> dict[str, tuple[str, ...]]:
    """Return the commits that runs made, as their importer noted them, by run."""
    found: dict[str, tuple[str, ...]] = {}
    for event in bank.log.read(types=("run_finished",), resolve=("run_finished",)):
        if isinstance(event, RunFinished) and (commits := _noted(event.extra)):
            found[event.run] = commits
    return found


def _noted(extra: object) -> tuple[str, ...]:
    """Return the hashes that a JSON text has under `commits`."""
    try:
        told = msgspec.json.decode(extra) if isinstance(extra, str) else None
    except msgspec.MsgspecError:
        return ()
    named = told.get("commits") if isinstance(told, dict) else None
    hashes = (
        [each for each in named if isinstance(each, str) and _HASH.fullmatch(each)] if isinstance(named, list) else []
    )
    return tuple(dict.fromkeys(hashes))[: git_limits.GIT_RUN_COMMITS]


def _judged_before(bank: Bank) -> tuple[Mapping[tuple[str, str], StandingVerdict], dict[str, _Given]]:
    """Return the verdicts that stand, by run and purpose, and what this judge gave each run last."""
    # One fold, of what decides verdicts alone: a fold for each run would read the log as often.
    live, found = LiveState(), dict[str, _Given]()
    for event in bank.log.read(types=JUDGMENT_TYPES | {"policy_set"}, resolve=("run_judged",)):
        if isinstance(event, RunJudged) and (event.judge, event.kind, event.evidence) == (JUDGE, "outcome", _REVERTED):
            before = live.state.verdicts.get((event.run, "learning"))
            found[event.run] = _Given(event.seq, _noted(event.extra), before.verdict if before else None)
        live.advance((event,))
    return live.state.verdicts, found


def _row(
    run: str, commits: Sequence[str], history: CommitHistory, standing: StandingVerdict | None, given: _Given | None
) -> CommitVerdict | None:
    """Return what the history says of a run; None if it says nothing that isn't known."""
    verdict = standing.verdict if standing else None
    lost = [each for commit in commits if (each := history.fate(commit, commits)).fate in _LOST]
    if lost:
        if verdict == "failure":
            return None
        human = standing is not None and standing.kind == "human"
        return CommitVerdict(
            run=run,
            commit=lost[0].commit,
            fate=lost[0].fate,
            by=lost[0].by,
            verdict=None if human else "failure",
            because="a person judged it" if human else "",
        )
    if given is None or standing is None or standing.seq != given.seq or verdict != "failure":
        return None
    landed = [history.fate(commit, commits) for commit in given.commits]
    if not landed or any(each.fate != "present" for each in landed):
        return None
    known = given.before not in (None, "undecided")
    return CommitVerdict(
        run=run,
        commit=landed[0].commit,
        fate="present",
        by=landed[0].by,
        verdict=given.before if known else None,
        because="" if known else "nobody had decided it before; a person can, with rbank-es overrule",
    )


def _judgment(row: CommitVerdict, commits: Sequence[str], history: CommitHistory) -> RunJudged:
    lost = row.fate in _LOST
    told = {
        "reverted": f"its commit {row.commit} was reverted by {row.by}",
        "reset": f"its commit {row.commit} was thrown away: HEAD was reset to {row.by}",
        "present": f"its commit {row.commit} landed again with {row.by}: the verdict before stands",
    }
    gone = [each.commit for commit in commits if (each := history.fate(commit, commits)).fate in _LOST]
    return RunJudged(
        run=row.run,
        purpose="learning",
        verdict=row.verdict or "undecided",
        judge=JUDGE,
        judge_version="1",
        kind="outcome",
        evidence=_REVERTED if lost else ("reapplied",),
        reason=told[row.fate],
        extra=json.dumps({"commits": gone or [row.commit]}),
    )
