"""`uninstall`: take the hook out of the settings of a coding agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rbank_es.cli.install import scope_options
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import echo, echo_json, warn

if TYPE_CHECKING:
    from rbank_es.agents.host_settings import Host


@command("uninstall", "rbank-es uninstall claude-code", "rbank-es uninstall codex --project --yes")
@scope_options
def uninstall(host: Host, project: bool, yes: bool, as_json: bool) -> None:
    """Take `rbank-es hook` out of the settings of a coding agent; show the change first.

    Where nothing else changed since `install`, the file becomes what it was, to the byte; otherwise our hooks alone go.
    The bank and what hooks spooled stay. Codex trusts hooks by their places: where others would move, that is said.
    """
    from rbank_es.agents import hook_install

    root = hook_install.chosen_project(str(Path.cwd()), project=project)
    change = hook_install.planned_uninstall(host, root)
    if not as_json:
        echo(change.difference if change.difference else f"{change.path} has no hooks of ours")
        for note in change.notes:
            warn(note)
    if change.before == change.after:
        changed = False
    elif yes or click.confirm("Do this?", default=False):
        hook_install.apply_change(change)
        changed = True
    else:
        raise click.Abort
    if as_json:
        echo_json({"host": host, "path": str(change.path), "changed": changed, "notes": list(change.notes)})
