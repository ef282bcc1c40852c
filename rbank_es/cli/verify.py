"""`verify`: proof that the log is what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.cli.app import command
from rbank_es.cli.banks import open_whole
from rbank_es.cli.output import fields, say, say_json
from rbank_es.cli.progress import Progress
from rbank_es.log import Head

if TYPE_CHECKING:
    from rbank_es.bank import Verified


@command("verify", example="rbank-es verify notes --retrievals\nrbank-es verify notes --head 120:9f86d081884c7d65...")
@click.argument("bank")
@click.option("--retrievals", is_flag=True, help="Also search again for every recorded retrieval, as of then.")
@click.option("--head", "heads", metavar="N:HEX", multiple=True, help="A head noted earlier; may be given repeatedly.")
def verify(bank: str, retrievals: bool, heads: tuple[str, ...], as_json: bool) -> None:
    """Check every byte of a bank's log: checksums, positions, and the chain of digests.

    A head (POSITION:DIGEST, printed here and by append) that you noted somewhere safe proves that nothing up to there
    was changed, cut or reordered since. Exit code 1: a noted head or a retrieval does not hold. 3: damage.
    """
    noted = [Head.parse(text) for text in heads]
    with open_whole(bank) as opened, Progress("verifying") as progress:
        seen = opened.verify(noted=noted, retrievals=retrievals, progress=progress)
        name = opened.name
    if as_json:
        say_json({"bank": name, "ok": True, "head": str(seen.log.head)} | _facts(seen))
    else:
        _print(name, seen)


def _facts(seen: Verified) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(seen)
    return facts


def _print(name: str, seen: Verified) -> None:
    log = seen.log
    say(f"{name} is sound: every byte of its log was checked")
    facts = {
        "events": log.events,
        "segments": log.segments,
        "texts stored apart": log.texts,
        "texts erased": log.erased,
    }
    fields(facts | {"noted heads that hold": len(log.noted) or None, "head": str(log.head)})
