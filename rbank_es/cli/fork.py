"""`fork`: make a bank that begins as another one, up to a point, and goes on by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rbank_es.cli.shared.arguments import bring_up, lasting, open_at, whole_bank
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import echo, echo_fields, echo_json, format_size
from rbank_es.events.readable_text import count, safe_line

if TYPE_CHECKING:
    from rbank_es.log import Storage


@command("fork", "rbank-es fork notes trial", "rbank-es fork notes@120 ./banks/trial --by mo")
@click.argument("bank", metavar="BANK[@POINT]")
@click.argument("new", metavar="NEW")
@click.option("--by", metavar="NAME", help="Who forks it, for the record.")
def fork(bank: str, new: str, by: str | None, as_json: bool) -> None:
    """Make the bank NEW, which begins as BANK up to a point and then goes its own way.

    NEW has an id of its own, and records first which bank it was forked from, where, and the head digest there. Neither
    bank's writers change the other. Closed segments are shared on disk where the file system can; an erasure in one
    bank leaves the other as it is, and names it.

    A POINT inside a group of events is refused, because a group is whole or not there at all.
    """
    place = lasting(whole_bank(new))
    parent, point = open_at(bank)
    with parent, parent.fork(place, point, by=by) as made:
        upto = made.log.ancestors()[-1].upto
        facts: dict[str, Any] = {
            "bank": made.name,
            "id": made.id,
            "path": made.place,
            "parent": {"bank": parent.name, "id": parent.id, "head": str(parent.head(upto))},
            "head": str(made.head()),
        }
        stored = made.log.storage()
        bring_up(made)
    if as_json:
        shared = {"parts": stored.parts, "shared_parts": stored.shared_parts}
        echo_json(facts | shared | {"bytes": stored.size_bytes, "shared_bytes": stored.shared_bytes})
        return
    echo(f"forked {safe_line(parent.name)} at position {upto:,} into {safe_line(made.place)}")
    echo_fields({"id": made.id, "parent's head": facts["parent"]["head"], "on disk": _stored(stored)})


def _stored(stored: Storage) -> str:
    """Return which part of a fork's bytes it shares with its parent, and which it has for itself."""
    own = format_size(stored.size_bytes - stored.shared_bytes)
    if not stored.shared_parts:
        return f"nothing is shared: {own} of its own"
    shared = f"{count(stored.shared_parts, 'segment')} shared with other banks ({format_size(stored.shared_bytes)})"
    return f"{shared}, {own} of its own"
