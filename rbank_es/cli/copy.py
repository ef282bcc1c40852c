"""`copy`: make the same bank at another place, also of another log engine."""

from __future__ import annotations

from typing import Any

import click

from rbank_es.cli.shared.arguments import bring_up, lasting, open_at, whole_bank
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import echo, echo_fields, echo_json
from rbank_es.events.readable_text import count, safe_line


@command("copy", "rbank-es copy notes ./backup/notes", "rbank-es copy notes@120 ./notes-before")
@click.argument("bank", metavar="BANK[@POINT]")
@click.argument("new", metavar="NEW")
def copy(bank: str, new: str, as_json: bool) -> None:
    """Make NEW, the same bank as BANK: the same id, events, texts and heads, up to a point.

    Either may be kept by any log engine. Every line is checked on its way. Append to one of the two only: both have one
    id, and nothing joins them again. For a bank that goes its own way, use fork.
    """
    place = lasting(whole_bank(new))
    opened, point = open_at(bank)
    with opened, opened.copy(point, place) as made:
        facts: dict[str, Any] = {"bank": made.name, "id": made.id, "path": made.place, "head": str(made.head())}
        events = made.position
        bring_up(made)
    if as_json:
        echo_json(facts | {"events": events})
        return
    echo(f"copied {count(events, 'event')} of {safe_line(opened.name)} to {safe_line(made.place)}")
    echo_fields({"id": facts["id"], "head": facts["head"]})
