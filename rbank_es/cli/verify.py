"""`verify`: check that the log is unchanged and undamaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_whole
from rbank_es.cli.shared.output import Progress, count, echo, echo_fields, echo_heading, echo_json
from rbank_es.log import Head

if TYPE_CHECKING:
    from rbank_es.bank import Verified


@command("verify", "rbank-es verify notes --retrievals", "rbank-es verify notes --head 120:9f86d081884c7d65...")
@click.argument("bank")
@click.option("--retrievals", is_flag=True, help="Also repeat every recorded retrieval, as of its position.")
@click.option("--head", "heads", metavar="N:HEX", multiple=True, help="A head noted earlier; may be given repeatedly.")
def verify(bank: str, retrievals: bool, heads: tuple[str, ...], as_json: bool) -> None:
    """Check every byte of a bank's log: checksums, positions, and the chain of digests.

    A head (POSITION:DIGEST, printed here and by append) that you noted somewhere safe proves that nothing up to there
    was changed, truncated or reordered since. Exit code 1: a noted head or a retrieval does not hold. 3: damage.
    """
    # Parse before opening: a mistyped head must not cost the reading of the whole log.
    noted = [Head.parse(text) for text in heads]
    with open_whole(bank) as opened, Progress("verifying") as progress:
        seen = opened.verify(noted=noted, retrievals=retrievals, progress=progress)
        name = opened.name
    if as_json:
        echo_json({"bank": name, "ok": True} | msgspec.to_builtins(seen) | {"head": str(seen.log.head)})
    else:
        _print(name, seen)


def _print(name: str, seen: Verified) -> None:
    log = seen.log
    echo(f"the log of {name} is sound: every byte was checked")
    sizes = {"events": log.events, **log.parts, "texts stored apart": log.texts, "texts erased": log.erased}
    echo_fields(sizes | {"noted heads that hold": len(log.noted) or None, "head": str(log.head)})
    if log.torn:
        size = count(log.torn.size_bytes, "byte")
        echo(f"an append was interrupted: its {size} at the end are ignored, and the next append removes them")
    if log.erasing:
        echo("an erasure is incomplete: the next append or erase completes it")
    if log.cleared:
        echo("writers had been stopped after a failed sync; the log is sound and open to them again")
    if check := seen.retrievals:
        echo_heading("retrievals")
        echo_fields({"found the same again": check.checked, "unverifiable (texts erased)": check.unverifiable or None})
