"""Places in the folder of an experiment: the files beside its banks, and the bank of each trial.

A folder may come from anybody. Nothing in it is followed: a link, a pipe or a device in a planned place is refused,
before anything is read there and before anything is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, BankNotFound
from rbank_es.events.run_events import Trial
from rbank_es.lab.experiment_definition import BASE
from rbank_es.system.files import kind_of, read_regular

DEFINITION, SUITE, ENVIRONMENT = "experiment.toml", "suite.json", "environment.json"
"""The files of an experiment's folder beside its banks."""

BANKS, CUT, RATINGS = "banks", "cut", "ratings"
"""Its folders: of the banks, of those that were cut off inside a task, and the bank of ratings by rubric."""

CLAIMS, WORK = "claims", "work"
"""The folders of shards: who is at a trial, and where each works; see `shards.py`."""


class TrialPlace(NamedTuple):
    """The place of a trial's bank in the folder of an experiment, and the banks that it was cut off from.

    `generation` is that of a claim, in an experiment of shards: the bank lies in the folder where its owner works.
    """

    folder: Path
    trial: Trial
    generation: int | None = None

    @property
    def name(self) -> str:
        """The name of the bank's folder."""
        return f"o{self.trial.order}-r{self.trial.repetition}"

    @property
    def stem(self) -> str:
        """The name of the trial's claims, and of the folders of its generations."""
        return f"{self.trial.condition}-{self.name}"

    @property
    def home(self) -> Path:
        """The folder in which the banks of the trial are."""
        return self.folder if self.generation is None else self.folder / WORK / f"{self.stem}.{self.generation}"

    @property
    def bank(self) -> Path:
        """The bank."""
        return self.home / BANKS / self.trial.condition / self.name

    @property
    def found_bank(self) -> Path | None:
        """The bank, if its folder is there. Raises `BadInput` for a link or a file in its place."""
        # The folder of an experiment itself may be a link, as people make them to a shared disk.
        above = () if self.generation is None else (self.home,)
        return directory(*above, self.home / BANKS, self.bank.parent, self.bank)

    @property
    def left(self) -> list[Path]:
        """The banks of earlier generations, or of all, oldest first: they stay, because an owner may only stand still.

        Raises as `found_bank`.
        """
        work = directory(self.folder / WORK)
        named = re.compile(re.escape(self.stem) + "[.]([1-9][0-9]{0,5})")
        found = (named.fullmatch(name) for name in (entries(work) if work is not None else ()))
        before = sorted(int(match[1]) for match in found if match is not None)
        places = [TrialPlace(self.folder, self.trial, each) for each in before if each < (self.generation or each + 1)]
        return [bank for each in places for bank in (*each.cuts, each.found_bank) if bank is not None]

    @property
    def earlier(self) -> list[Path]:
        """The banks from which a new one may go on, oldest first. Raises as `found_bank`."""
        return [*self.left, *self.cuts]

    @property
    def removed(self) -> int:
        """The number of earlier generations whose folder is gone."""
        homes = (TrialPlace(self.folder, self.trial, each).home for each in range(1, self.generation or 1))
        return sum(directory(home) is None for home in homes)

    @property
    def cuts(self) -> list[Path]:
        """The banks that were cut off, oldest first; what has another name is none of them. Raises `BadInput`."""
        numbers = self._cut_numbers()
        return [self._cut(number) for number in sorted(numbers) if directory(self._cut(number)) is not None]

    @property
    def next_cut(self) -> Path:
        """The place of the next one."""
        return self._cut(max(self._cut_numbers(), default=0) + 1)

    def _cut_numbers(self) -> set[int]:
        folder = directory(self.home / CUT, self.home / CUT / self.trial.condition)
        # No leading zero: `_cut` must give back the very name that was found.
        named = re.compile(re.escape(self.name) + "-cut([1-9][0-9]{0,5})")
        found = (named.fullmatch(name) for name in (entries(folder) if folder is not None else ()))
        return {int(match[1]) for match in found if match is not None}

    def _cut(self, number: int) -> Path:
        return self.home / CUT / self.trial.condition / f"{self.name}-cut{number}"


def base_place(folder: Path) -> Path:
    """Return the place of the bank from which all trials of an experiment are forked."""
    return folder / BANKS / BASE


def experiment_of(bank: Path) -> Path | None:
    """Return the folder of the experiment in which a bank lies, by its place alone; None for any other bank."""
    # The common bank lies directly in `banks`, that of a trial in the folder of its condition.
    inside = (place.parent for place in bank.absolute().parents[:2] if place.name in (BANKS, CUT))
    return next((folder for folder in inside if kind_of(folder / DEFINITION) == "a file"), None)


def require_own_places(folder: Path, trials: Iterable[Trial]) -> None:
    """Raise `BadInput` where a link or a file is in the place of a folder that an experiment writes into."""
    directory(folder / BANKS, base_place(folder))
    for trial in trials:
        place = TrialPlace(folder, trial)
        # Looking them up raises.
        _ = place.found_bank, place.earlier


def directory(*paths: Path) -> Path | None:
    """Return the last of some folders within each other; None where one is missing.

    Raises `BadInput` where something else is in the place of one.
    """
    for path in paths:
        kind = kind_of(path)
        if kind is None:
            return None
        if kind != "a directory":
            raise BadInput(f"{path} is {kind}, where a folder must be: nothing there was read or written")
    return paths[-1]


def opened(place: Path | None) -> Bank | None:
    """Return the bank in a folder; None where there is no folder, or no bank in it."""
    try:
        return Bank.open(place) if place is not None else None
    except BankNotFound:
        return None


def made_directory(*paths: Path) -> None:
    """Make the folders that are missing, of some within each other. Raises as `directory`, and OSError."""
    for path in paths:
        if directory(path) is None:
            path.mkdir()


def entries(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none of anything but a folder."""
    return sorted(path.name for path in folder.iterdir()) if kind_of(folder) == "a directory" else []


def read_part(folder: Path, name: str, most_bytes: int) -> bytes:
    """Return the bytes of a regular file in a folder. Raises `BadInput` for anything else in its place."""
    try:
        return read_regular(folder / name, most_bytes)
    except OSError as refused:
        raise BadInput(f"{folder / name} can't be read: {refused.strerror or refused}") from None
