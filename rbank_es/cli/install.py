"""`install`: have a coding agent run the hook; show the change first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rbank_es.cli.shared.arguments import lasting, open_or_create
from rbank_es.cli.shared.command_registry import command, decorated
from rbank_es.cli.shared.output import echo, echo_json, warn
from rbank_es.events.readable_text import count
from rbank_es.system.redacted_locator import is_url, shown_locator

if TYPE_CHECKING:
    from rbank_es.agents.hook_install import SettingsChange
    from rbank_es.agents.host_settings import Host

scope_options = decorated(
    click.argument("host", type=click.Choice(["claude-code", "codex"])),
    click.option("--project/--user", help="For the repository that you are in, or for all that you do (the default)."),
    click.option("--yes", is_flag=True, help="Don't ask."),
)


@command("install", "rbank-es install claude-code", "rbank-es install codex --project --yes")
@scope_options
@click.option("--bank", metavar="BANK", help="The bank; by default .rbank/bank in the project, else one of the user.")
def install(host: Host, project: bool, yes: bool, bank: str | None, as_json: bool) -> None:
    """Have a coding agent run `rbank-es hook`; show the change to its settings file, and make the bank.

    Our hooks are appended to the file, and nothing of others is changed; the file as it was is kept beside it. With
    --project, you also say that lessons of the project's bank may enter your prompts: without that, the bank that a
    cloned repository brings is passed over. What can't be parsed is refused with its line. `uninstall` takes it back.
    """
    from rbank_es.agents import hook_install
    from rbank_es.agents.trusted_banks import HookBank

    root = hook_install.chosen_project(str(Path.cwd()), project=project)
    change = hook_install.planned_install(host, root)
    place = lasting(bank) if bank is not None else hook_install.bank_place(root)
    if not as_json:
        _show(change)
    _confirm(yes, change, place)
    if root is not None and bank is None:
        hook_install.prepare_folder(root)
    opened, made = open_or_create(place)
    with opened:
        opened.project()
        # From wherever an agent works, the place must be the same.
        kept = opened.place if is_url(opened.place) else str(Path(opened.place).absolute())
        locator = shown_locator(place) if is_url(opened.place) else kept
        hook_install.trust_bank(HookBank(kept, opened.id, locator, project=root))
        hook_install.apply_change(change)
        facts = {"host": host, "path": str(change.path), "changed": change.before != change.after}
        facts |= {"bank": kept, "created": made, "notes": list(change.notes)}
    if as_json:
        echo_json(facts)
        return
    echo(f"{'made' if made else 'uses'} the bank {facts['bank']}")
    _print_notes(change)
    echo("`rbank-es doctor --hooks` tells whether it runs")


def _confirm(yes: bool, change: SettingsChange, place: str) -> None:
    """Ask before a change; also before the lessons of a bank that is there already enter prompts."""
    if yes:
        return
    if items := _active_items(place):
        warn(f"the bank {place} is there already: its {count(items, 'active item')} would enter your prompts")
    if (change.before != change.after or items) and not click.confirm("Do this?", default=False):
        raise click.Abort


def _active_items(place: str) -> int:
    from rbank_es.bank import Bank
    from rbank_es.errors import BankNotFound

    try:
        with Bank.open(place) as bank, bank.as_of() as view:
            return sum(1 for row in view.pick("items", ("state",)) if row[0] == "active")
    except BankNotFound:
        return 0


def _show(change: SettingsChange) -> None:
    echo(change.difference if change.difference else f"{change.path} has the hooks already")


def _print_notes(change: SettingsChange) -> None:
    for note in change.notes:
        warn(note)
