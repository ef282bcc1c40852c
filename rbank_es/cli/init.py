"""`init`: make a bank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.banks import lasting, whole_bank
from rbank_es.cli.shared.input_bytes import read_bounded, utf8
from rbank_es.cli.shared.output import fields, say, say_json

if TYPE_CHECKING:
    from rbank_es.events import PolicyChoice


@command("init", "rbank-es init notes", "rbank-es init ./banks/notes --policy policies.toml")
@click.argument("bank")
@click.option("--policy", metavar="FILE", help="Policies as TOML or JSON; the defaults, unless given.")
def init(bank: str, policy: str | None, as_json: bool) -> None:
    """Make a bank: a directory with an empty log, in which its birth and the policies in force are recorded first.

    A policy decides what is retrieved, how new items are consolidated with old ones, and what is forgotten. It is
    recorded whole, with its version, so that changing one later is an event like any other.
    """
    from rbank_es.bank import Bank

    place = lasting(whole_bank(bank))
    chosen = _policies(policy) if policy else None
    with Bank.create(place, policies=chosen) as made:
        in_force = {choice.kind: f"{choice.name}-{choice.version}" for choice in made.state().policies.values()}
        facts = {"bank": made.name, "id": made.id, "path": made.place, "head": str(made.head())}
    if as_json:
        say_json(facts | {"policies": in_force})
        return
    say(f"made bank {facts['bank']} at {facts['path']}")
    fields({"policies": ", ".join(f"{kind} {name}" for kind, name in in_force.items()), "head": facts["head"]})


def _policies(path: str) -> tuple[PolicyChoice, ...]:
    from rbank_es.policies import load_policies

    return load_policies(utf8(read_bounded(path), path))
