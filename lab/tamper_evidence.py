"""Beginnings of trials: the event that anchors the definition of an experiment in its logs, and trials in each other.

A trial begins once. Its `experiment_started` is one event in two logs, that of the common bank and its own. It holds
the whole definition as it was then, the digest of the environment, the head of the common bank before it, and how often
the trial had begun before. So whoever changes something later must change every log that was written since:

    definition, environment   differ from those that the trials recorded
    a trial run again         the common bank has its first beginning too, and the new one says that it isn't the first
    a trial removed           the common bank has its beginning
    a common bank removed,    lacks beginnings of trials, or a head that a later trial noted
    replaced or cut back

What remains: the trial that began last can be removed together with what the common bank recorded since. Only a digest
of the report that was noted before shows that.

In an experiment of shards, whose environment says so, no log is shared by the processes, so the common bank is only
read. A trial then says how many folders of earlier generations were gone; one removed with its claims leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, PositionConflict, RBankError
from rbank_es.events import ExperimentStarted
from rbank_es.events.derived_ids import derived_id
from rbank_es.events.run_events import Trial
from rbank_es.lab.experiment_definition import Experiment, parse_experiment
from rbank_es.lab.trial_place import BANKS, ENVIRONMENT, TrialPlace, base_place, directory, opened, read_part
from rbank_es.limits import experiment_limits
from rbank_es.log import Head

BEGINNING = "experiment_started"

SHARDS = "shards"
"""The fact of an environment that shards run the experiment."""

SAID_LATER = ("contrasts", "interactions", "metrics", "rubrics", "title", "question")
"""Parts of a definition that change no run: they may be changed later, and a report then says so."""


def fork_point(base: Bank) -> int:
    """Return the position of the common bank up to which trials are forked: before the first of them began."""
    # Before the events are read, because another trial may begin while they are.
    position = base.position
    first = next(base.events(types={BEGINNING}), None)
    return position if first is None else first.seq - 1


def begin(
    folder: Path, base: Bank, bank: Bank, started: ExperimentStarted, experiment: Experiment, *,
    removed: int | None = None,
) -> None:  # fmt: skip
    """Record the beginning of a trial in the common bank, then in its own; once, however often this is called.

    In an experiment of shards the common bank is only read, and `removed` earlier generations are gone.
    Raises `BadInput` where the folder of the experiment has no environment.
    """
    id, environment = _beginning_id(bank.id), read_part(folder, ENVIRONMENT, experiment_limits.EXPERIMENT_BYTES)
    facts = {"definition": experiment.digest, "environment": sha256(environment).hexdigest()}
    whole = msgspec.structs.replace(started, id=id, config=experiment.to_toml(), **facts)
    if removed is not None:
        bank.append(msgspec.structs.replace(whole, common=str(base.head()), earlier=removed))
        return
    while True:
        position, known = base.position, [each for each in _beginnings(base) if each.trial == started.trial]
        # An interruption between the two records: the common bank has it, and the trial has not.
        own = next((each for each in known if each.id == id), None)
        noted = (own.common, own.earlier) if own is not None else (str(base.head(position)), len(known))
        whole = msgspec.structs.replace(whole, common=noted[0], earlier=noted[1])
        try:
            if own is None:
                base.append(whole, expected=position)
            bank.append(whole)
            return
        except PositionConflict:
            # Another trial began in between.
            continue


def _beginning_id(bank: str) -> str:
    return derived_id(bank.encode(), BEGINNING)


def _beginnings(bank: Bank) -> list[ExperimentStarted]:
    return [event for event in bank.events(types={BEGINNING}) if isinstance(event, ExperimentStarted)]


# ---------------------------------------------------------------- the definition


def recorded_definition(bank: Bank, started: ExperimentStarted, where: str) -> Experiment:
    """Return the definition that a trial recorded at its beginning. Raises `BadInput` where it recorded none."""
    text = bank.text(started.config)
    if text is None or started.definition is None:
        raise BadInput(f"{where} names no definition of the experiment: it was not run by it, or the words were erased")
    recorded = parse_experiment(text.encode(), f"the definition in {where}")
    if recorded.digest != started.definition:
        raise BadInput(f"{where}: the definition that it recorded is not the one that it names: the log was forged")
    return recorded


def changed_parts(recorded: Experiment, now: Experiment) -> tuple[str, ...]:
    """Return the names of the parts in which a definition differs from the recorded one, in their order."""
    return tuple(name for name in Experiment.__struct_fields__ if getattr(recorded, name) != getattr(now, name))


def require_same_runs(recorded: Experiment, now: Experiment, where: str) -> None:
    """Raise `BadInput` where a definition was changed, after the runs, in what they depend on."""
    parts = [name for name in changed_parts(recorded, now) if name not in SAID_LATER]
    if parts:
        raise BadInput(
            f"the definition was changed after {where} began, in {', '.join(parts)}: restore it, or run it in another "
            "folder"
        )


# ---------------------------------------------------------------- what doesn't fit


class Fault(NamedTuple):
    """Something about the beginning of a trial that doesn't fit: its place in the folder, and what it is, in words."""

    place: str
    said: str


class _Begun(NamedTuple):
    """A trial's bank, read: its beginning, its id, its ancestors, and the head at which it was forked."""

    place: TrialPlace
    where: str
    started: ExperimentStarted | None
    ids: frozenset[str]
    base: str
    fork: Head | None
    cuts: int


def beginning_faults(folder: Path, planned: Sequence[Trial]) -> Iterator[Fault]:
    """Yield what doesn't fit between the common bank of an experiment and its trials; damaged logs are left out."""
    sharded = is_sharded(folder)
    begun = [each for trial in planned if (each := _begun(TrialPlace(folder, trial))) is not None]
    where = f"{BANKS}/{base_place(folder).name}"
    try:
        base = opened(directory(folder / BANKS, base_place(folder)))
    except (RBankError, OSError):
        return  # the check of the logs themselves names it
    if base is None:
        if begun:
            yield Fault(where, "it is missing, and with it what it says of the beginnings of trials")
        return
    with base:
        yield from _of_base(base, where, begun)
        known = _beginnings(base)
        for each in begun:
            own = None if sharded else [event for event in known if event.trial == each.place.trial]
            yield from _of_trial(each, own)
        there = {each.place.trial for each in begun}
        for trial in dict.fromkeys(event.trial for event in known if event.trial not in there):
            name = TrialPlace(folder, trial).bank.relative_to(folder)
            yield Fault(str(name), "the common bank recorded that it began, and it is not there: it was removed")


def _begun(place: TrialPlace) -> _Begun | None:
    where = str(place.bank.relative_to(place.folder))
    try:
        bank = opened(place.found_bank)
        if bank is None:
            return None
        with bank:
            started = next(iter(_beginnings(bank)), None)
            ancestors = bank.log.ancestors()
            fork = bank.head(ancestors[0].upto) if ancestors else None
            # A bank that took the place of one that was cut off has its beginning from that.
            ids = frozenset(_beginning_id(each) for each in (bank.id, *(each.bank for each in ancestors[1:])))
            base = ancestors[0].bank if ancestors else ""
            return _Begun(place, where, started, ids, base, fork, len(ancestors) - 1)
    except (RBankError, OSError):
        return None


def _of_base(base: Bank, where: str, begun: Sequence[_Begun]) -> Iterator[Fault]:
    if any(each.base != base.id for each in begun):
        yield Fault(where, "the trials are no forks of it: another bank was put in its place")
        return
    noted = {each.fork: each.where for each in begun if each.fork is not None}
    for each in begun:
        if each.started is not None and each.started.common is not None:
            noted.setdefault(Head.parse(each.started.common), each.where)
    for head, trial in noted.items():
        if head.seq > base.position or base.head(head.seq) != head:
            yield Fault(
                where, f"it is not the bank that {trial} was forked from: its history up to {head.seq:,} differs"
            )
            return


def is_sharded(folder: Path) -> bool:
    """Return whether the environment of an experiment says that shards run it. Raises `BadInput`."""
    # By the environment, because each trial recorded its digest.
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = msgspec.json.decode(read_part(folder, ENVIRONMENT, experiment_limits.EXPERIMENT_BYTES))
        return isinstance(found, dict) and found.get(SHARDS) is True
    return False


def _of_trial(each: _Begun, known: Sequence[ExperimentStarted] | None) -> Iterator[Fault]:
    """Yield what doesn't fit of a trial; `known` are its beginnings in the common bank, None where it has none."""
    started = each.started
    if started is None:
        return
    own = next((event for event in known or () if event.id == started.id), None)
    if known is not None and own is None:
        yield Fault(each.where, "the common bank has no record that it began")
    elif own is not None and (own.definition, own.config_digest) != (started.definition, started.config_digest):
        yield Fault(each.where, "the common bank recorded another beginning of it")
    elif started.id not in each.ids:
        yield Fault(each.where, "its beginning is that of another bank: it was copied from there")
    again = max(started.earlier, len(known or ()) - 1)
    if again > 0:
        yield Fault(each.where, f"it was run again: it had begun {again:,} times before, in a bank that was removed")
    if (lost := each.cuts - len(each.place.earlier)) > 0:
        yield Fault(each.where, f"{lost:,} of the banks that were cut off from it are not under cut")
