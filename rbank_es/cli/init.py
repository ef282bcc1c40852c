"""`init`: create a bank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rbank_es.cli.shared.arguments import lasting, read_text_file, whole_bank
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import echo, echo_fields, echo_json

if TYPE_CHECKING:
    from rbank_es.events import PolicyChoice


@command("init", "rbank-es init notes", "rbank-es init ./banks/notes --policy policies.toml")
@click.argument("bank")
@click.option("--policy", metavar="FILE", help="Policies as TOML or JSON; default: the built-in ones.")
def init(bank: str, policy: str | None, as_json: bool) -> None:
    """Create a bank: a directory with a log, in which its creation and the policies in force are recorded first.

    Policies decide which items are retrieved, how new items are consolidated with old ones, and which are forgotten.
    Each is recorded whole, with its version, so that changing one later is an event like any other.
    """
    from rbank_es.bank import Bank

    place = lasting(whole_bank(bank))
    chosen = _policies(policy) if policy else None
    with Bank.create(place, policies=chosen) as made:
        in_force = {choice.kind: f"{choice.name}-{choice.version}" for choice in made.state().policies.values()}
        facts = {"bank": made.name, "id": made.id, "path": made.place, "head": str(made.head())}
    if as_json:
        echo_json(facts | {"policies": in_force})
        return
    echo(f"made bank {facts['bank']} at {facts['path']}")
    echo_fields({"policies": ", ".join(f"{kind} {name}" for kind, name in in_force.items()), "head": facts["head"]})


def _policies(path: str) -> tuple[PolicyChoice, ...]:
    from rbank_es.policies import load_policies

    return load_policies(read_text_file(path))
