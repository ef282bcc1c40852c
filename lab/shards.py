"""Shards of an experiment: processes, on one machine or on many, that share a folder and no lock.

    claims/NAME.GENERATION    who is at a trial, or at the common bank
    work/NAME.GENERATION/     where its owner works: the bank of the trial, and those cut off from it
    banks/, cut/              as of every experiment

A trial is done under a claim, in a folder of its generation, and published by renaming its bank to its place. A folder
that isn't empty is never replaced, so the first that is done is the one that counts; a later one goes under `cut`. Who
takes over goes on from what the generation before recorded, which stays where it is: its owner may only stand still.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.events.run_events import Trial
from rbank_es.lab.experiment_definition import BASE, Experiment
from rbank_es.lab.experiment_plan import trials
from rbank_es.lab.trial import OnTaskEnd, TrialOutcome, is_finished
from rbank_es.lab.trial_claims import Claim, Claims
from rbank_es.lab.trial_place import WORK, TrialPlace, base_place, directory, opened
from rbank_es.limits import experiment_limits

if TYPE_CHECKING:
    from rbank_es.loop.closed_loop import TaskResult

_THERE = (errno.ENOTEMPTY, errno.EEXIST)


class Superseded(Exception):
    """Another process took over the trial while this one stood still."""


class Shard(NamedTuple):
    """Number `number` of `of` processes that share an experiment, from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard that a text such as 3/40 names. Raises `BadInput`."""
        found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        number, of = (int(found[1]), int(found[2])) if found is not None else (0, 0)
        if not 1 <= number <= of <= experiment_limits.EXPERIMENT_TRIALS:
            raise BadInput(f"a shard is written NUMBER/OF, such as 3/40, not {text[: limits.GIVEN_WORD_CHARS]!r}")
        return cls(number, of)

    def order(self, planned: Sequence[Trial]) -> list[Trial]:
        """Return all trials: first those of this shard, then those of the others, which may have died."""
        return [each for step in range(self.of) for each in planned[(self.number - 1 + step) % self.of :: self.of]]


class ShardFolder:
    """The folder of an experiment, shared by processes that have no lock in common."""

    def __init__(self, folder: Path, lease_s: float = experiment_limits.CLAIM_LEASE_S) -> None:
        self.folder, self.claims = folder, Claims(folder, lease_s)

    def make_base(self, make: Callable[[Path], None], sleep: Callable[[float], None]) -> None:
        """Have one process make the common bank, with `make` at a place of its own, and wait until it is published."""
        final = base_place(self.folder)
        while directory(final.parent, final) is None:
            claim = self.claims.take(BASE)
            if claim is None:
                sleep(min(experiment_limits.CLAIM_WAIT_S, self.claims.lease_s / 2))
                continue
            own = self.folder / WORK / f"{BASE}.{claim.generation}" / BASE
            with claim.renewed():
                make(own)
                _renamed(own, final)

    def run(
        self, trial: Trial, run: Callable[[TrialPlace, OnTaskEnd], TrialOutcome], on_task: OnTaskEnd
    ) -> TrialOutcome | None:
        """Run a trial at a place of its own and publish it; None where another process is at it, or was first."""
        final = TrialPlace(self.folder, trial)
        if final.found_bank is not None or (claim := self.claims.take(final.stem)) is None:
            return None
        own = TrialPlace(self.folder, trial, claim.generation)
        with claim.renewed():
            if final.found_bank is not None:  # between the look and the claim
                return None
            try:
                outcome = run(own, partial(_checked, claim, on_task))
            except Superseded:
                # Its bank is moved only once nobody forks from it any more.
                if final.found_bank is not None:
                    self._set_aside(own, final)
                return None
            return self._published(own, final, outcome)

    def _published(self, own: TrialPlace, final: TrialPlace, outcome: TrialOutcome) -> TrialOutcome | None:
        for cut in own.cuts:
            _cut(cut, final)
        if not _renamed(own.bank, final.bank):
            self._set_aside(own, final)
            return None
        _remove_empty(own)
        return msgspec.structs.replace(outcome, place=str(final.bank.relative_to(self.folder)), cuts=len(final.earlier))

    def _set_aside(self, own: TrialPlace, final: TrialPlace) -> None:
        for bank in (*own.cuts, own.bank):
            if directory(bank) is not None:
                _cut(bank, final)
        _remove_empty(own)


def _checked(claim: Claim, on_task: OnTaskEnd, trial: Trial, result: TaskResult) -> None:
    """Report a task that counts, then stop the trial where another process took it over."""
    on_task(trial, result)
    if claim.is_superseded:
        raise Superseded


def _renamed(own: Path, final: Path) -> bool:
    """Rename a folder to its place, and have that on the disk; return False where another one is there."""
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        own.rename(final)
    except OSError as error:
        if error.errno in _THERE:
            return False
        raise
    made = os.open(final.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(made)
    finally:
        os.close(made)
    return True


def _cut(bank: Path, final: TrialPlace) -> None:
    while not _renamed(bank, final.next_cut):
        pass  # another process took the number in between


def _remove_empty(own: TrialPlace) -> None:
    # What is left in it is somebody's: a folder that isn't empty stays.
    for path in (own.bank.parent, own.bank.parent.parent, own.next_cut.parent, own.next_cut.parent.parent, own.home):
        with suppress(OSError):
            path.rmdir()


# ---------------------------------------------------------------- how far it is


class TrialStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far a trial is.

    state        finished; unfinished: its bank is there, without an end; held: a process is at it; stale: a process
                 was, and hasn't renewed its claim for a lease; missing: nobody began it
    generation   how many processes have claimed it; 0 in an experiment without shards
    owner        machine and process of the last claim
    cuts, left   banks under `cut`; those of generations that were neither published nor moved there
    """

    condition: str
    order: int
    repetition: int
    state: Literal["finished", "unfinished", "held", "stale", "missing"]
    generation: int
    owner: str | None
    cuts: int
    left: int


def status_of(folder: Path, experiment: Experiment) -> tuple[TrialStatus, ...]:
    """Return how far each trial is. Raises `BadInput` for something else in the place of a folder."""
    claims = Claims(folder)
    return tuple(_status(TrialPlace(folder, trial), claims) for trial in trials(experiment))


def _status(place: TrialPlace, claims: Claims) -> TrialStatus:
    bank, last = opened(place.found_bank), claims.last(place.stem)
    state: Literal["finished", "unfinished", "held", "stale", "missing"]
    if bank is not None:
        with bank:
            state = "finished" if is_finished(bank) else "unfinished"
    else:
        state = "missing" if last.state == "none" else last.state
    return TrialStatus(
        condition=place.trial.condition,
        order=place.trial.order,
        repetition=place.trial.repetition,
        state=state,
        generation=last.generation,
        owner=last.owner or None,
        cuts=len(place.cuts),
        left=len(place.left),
    )
