"""`head`: print the head of a bank as one line, to be noted where the bank's owner can't change it."""

from __future__ import annotations

import click

from rbank_es.bank.noted_heads import head_line
from rbank_es.cli.shared.arguments import open_at
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import echo, echo_json
from rbank_es.events.readable_text import safe_line


@command("head", "rbank-es head notes >> heads.txt", "rbank-es head notes@HEAD~100 --json")
@click.argument("bank", metavar="BANK[@POINT]")
def head(bank: str, as_json: bool) -> None:
    """Print the bank's id, its head (POSITION:DIGEST), the time and its name, as one line.

    A head noted somewhere safe proves later that nothing up to there was changed, dropped or reordered:
    rbank-es verify BANK --head FILE. One file may hold the heads of many banks.
    """
    opened, point = open_at(bank)
    with opened:
        line = head_line(opened, point)
    if as_json:
        of, seen, at, name = line.split(" ", 3)
        echo_json({"bank": name, "id": of, "head": seen, "noted": at})
    else:
        echo(safe_line(line))
