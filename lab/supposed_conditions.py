"""Conditions by supposition: what the bank of one trial would be under the policies of another condition.

Conditions that differ in how items are consolidated, forgotten or found can be compared twice: live, each with runs of
its own, and over one log, where the runs are the same and only the policies differ. The second needs no model and has
no noise, and it is of the first order: how the runs would have gone with other items is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events.run_events import Trial
from rbank_es.lab.definition import Condition, Experiment
from rbank_es.lab.plan import trials
from rbank_es.lab.trial import is_finished, tables_of
from rbank_es.lab.trial_place import TrialPlace, opened
from rbank_es.law import active
from rbank_es.system.progress import OnProgress, reported

REDECIDED = frozenset({"consolidation", "forgetting", "retrieval"})
"""Kinds of policies that can be put in the place of recorded ones without a model."""


class SupposedCondition(msgspec.Struct, frozen=True, kw_only=True):
    """The bank of a trial of the condition `basis`, as it would be under the policies of another condition.

    `items_basis` are the active items that it has, `items_supposed` those that it would have, `items_live` those of
    the live trial of the other condition (None if that isn't finished). `decided` decisions were made again, of which
    `differing` differ; about `asking` candidates the policy would have asked a model, and decided without.
    `retrievals` of the `retrieved` ones that it recorded would find something else; of `unknown` that can't be told.
    """

    basis: str
    condition: str
    order: int
    repetition: int
    items_basis: int
    items_supposed: int
    items_live: int | None
    decided: int
    differing: int
    asking: int
    retrieved: int
    retrievals: int
    unknown: int


def supposed_conditions(
    experiment: Experiment, folder: Path, basis: str, progress: OnProgress | None = None
) -> tuple[SupposedCondition, ...]:
    """Return each finished trial of the condition `basis` as it would be under each comparable condition.

    Raises `BadInput` for an unknown condition, and where none is comparable or no trial of it is finished.
    """
    own = experiment.named(basis)
    others = [each for each in experiment.condition if each.name != basis and _comparable(own, each)]
    if not others:
        raise BadInput(
            f"no condition of {experiment.name} differs from {basis} in its policies of consolidation, forgetting or "
            "retrieval alone: nothing can be supposed"
        )
    recorded = [each for each in trials(experiment) if each.condition == basis]
    found = tuple(each for trial in reported(recorded, progress) for each in _of_trial(folder, trial, others))
    if not found:
        raise BadInput(f"no trial of {basis} is finished in {folder}")
    return found


def _comparable(one: Condition, other: Condition) -> bool:
    """Return whether two conditions differ only in policies that can be put in the place of recorded ones."""
    plain = {"name": "", "about": "", "policies": {}}
    if msgspec.structs.replace(one, **plain) != msgspec.structs.replace(other, **plain):
        return False
    changed = {a.kind for a, b in zip(one.choices(), other.choices(), strict=True) if a != b}
    return bool(changed) and changed <= REDECIDED


def _of_trial(folder: Path, trial: Trial, others: list[Condition]) -> Iterator[SupposedCondition]:
    bank = _finished(TrialPlace(folder, trial))
    if bank is None:
        return
    with bank:
        started = next(bank.events(types={"experiment_started"}))
        there = len(active(bank.state()))
        for other in others:
            changes = {kind: table for kind, table in tables_of(other.choices()).items() if kind in REDECIDED}
            # From the trial's beginning on: its seeds stay as its own policies took them up.
            supposed = bank.whatif(policies=changes, since=started.seq)
            born = len(supposed.came)
            gone = len(supposed.left)
            yield SupposedCondition(
                basis=trial.condition,
                condition=other.name,
                order=trial.order,
                repetition=trial.repetition,
                items_basis=there,
                items_supposed=there + born - gone,
                items_live=_live_items(TrialPlace(folder, msgspec.structs.replace(trial, condition=other.name))),
                decided=supposed.decided,
                differing=len(supposed.decisions),
                asking=supposed.needs.proposals,
                retrieved=supposed.retrieved,
                retrievals=len(supposed.retrievals),
                unknown=supposed.unknowable.retrievals,
            )


def _finished(place: TrialPlace) -> Bank | None:
    bank = opened(place.found_bank)
    if bank is None or is_finished(bank):
        return bank
    bank.close()
    return None


def _live_items(place: TrialPlace) -> int | None:
    bank = _finished(place)
    if bank is None:
        return None
    with bank:
        return len(active(bank.state()))
