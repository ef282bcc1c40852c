"""`hook`: answer one event of a coding agent."""

from __future__ import annotations

import click

from rbank_es.cli.shared.command_registry import Command


@click.command("hook", cls=Command, examples=("cat event.json | rbank-es hook",))
@click.option("--bank", metavar="BANK", help="The bank; by default that of the project, else the user's.")
def hook(bank: str | None) -> None:
    """Answer one event that a coding agent gives on standard input: at a prompt, with the lessons that fit.

    Tools, failures and ends are appended to a spool, and so is what was recalled; `learn` and `import` take the spool
    into the bank. Nothing is written to the bank here. The exit code is 0 whatever happens, an answer takes at most
    150 ms, and has at most 2,000 characters. `rbank-es install` has agents run this; `rbank-es doctor --hooks` tells
    what came of it.
    """
    from rbank_es.agents import hook_process

    hook_process.main([] if bank is None else ["--bank", bank])
