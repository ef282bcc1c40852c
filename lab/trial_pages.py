"""Pages of trials: a page in one file of the bank of each, as `dashboard` writes it; the report links to them.

They are copies for people: no number of the report comes from them, and `experiment check` doesn't read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from rbank_es.bank import Bank
from rbank_es.errors import BankNotFound, CannotWrite
from rbank_es.lab.experiment_folder import TrialRead
from rbank_es.lab.trial_place import directory, made_directory
from rbank_es.limits import experiment_limits
from rbank_es.log import Head
from rbank_es.page.exported_page import ExportOptions, exported_page, page_data
from rbank_es.system.command_lines import whole_command
from rbank_es.system.files import write_replacing
from rbank_es.system.progress import OnProgress, reported

PAGES = "pages"
"""The folder of the pages, in the folder of the experiment."""


def page_place(trial: TrialRead) -> str:
    """Return the place of a trial's page in the folder of the experiment."""
    _, condition, name = trial.place.split("/")
    return f"{PAGES}/{condition}/{name}.html"


def run_address(trial: TrialRead, run: str) -> str:
    """Return the address of a run in the page of its trial, as seen from the report."""
    return f"{quote(page_place(trial))}#/run/{quote(run, safe='')}"


def page_command(trial: TrialRead) -> str:
    """Return the command that writes a trial's page, to be started in the folder of the experiment."""
    _, condition, name = trial.place.split("/")
    return whole_command("dashboard", [_argument(trial)], f"-o {condition}-{name}.html")


def _argument(trial: TrialRead) -> str:
    return f"./{trial.place}"


def paged(trials: Sequence[TrialRead]) -> list[TrialRead]:
    """Return the trials of which a report has pages: the first repetition of each order and condition first, as long
    as their banks have at most `experiment_limits.REPORT_PAGE_EVENTS` events together."""
    left, found = experiment_limits.REPORT_PAGE_EVENTS, []
    for trial in sorted((each for each in trials if each.head), key=lambda each: (each.repetition, each.order)):
        events = Head.parse(trial.head).seq
        if events <= left:
            found.append(trial)
            left -= events
    return found


def write_trial_pages(trials: Sequence[TrialRead], folder: Path, progress: OnProgress | None = None) -> list[Path]:
    """Write the pages of these trials into the folder of their experiment, and return their places.

    `progress` is called after each. Raises `BadInput` for anything but a folder in the place of one, `CannotWrite`
    where the system refuses, and as `Bank.open`.
    """
    written = []
    for trial in reported(trials, progress):
        goal = folder / page_place(trial)
        content = _page(trial, folder)
        try:
            made_directory(folder / PAGES, goal.parent)
            write_replacing(goal, [content])
        except OSError as refused:
            raise CannotWrite(str(goal), refused) from refused
        written.append(goal)
    return written


def _page(trial: TrialRead, folder: Path) -> bytes:
    bank_place = folder / trial.place
    # Each folder on the way, because none of them may be a link.
    if directory(bank_place.parent.parent, bank_place.parent, bank_place) is None:
        raise BankNotFound(str(bank_place))
    with Bank.open(bank_place) as bank, bank.as_of() as view:
        options = ExportOptions(argument=_argument(trial), stops=experiment_limits.REPORT_PAGE_STOPS)
        return exported_page(page_data(bank, view, options))
