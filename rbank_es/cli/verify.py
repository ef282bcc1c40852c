"""`verify`: check that the log is unchanged and undamaged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from rbank_es import limits
from rbank_es.bank.noted_heads import NotedHeads, parse_heads
from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.arguments import read_text_file, whole_bank
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Progress, echo, echo_fields, echo_heading, echo_section, format_time, warn
from rbank_es.errors import BadInput, CheckFailed, LogCorruption
from rbank_es.events.readable_text import count, safe_line
from rbank_es.log import Head
from rbank_es.system.redacted_locator import shown_locator

if TYPE_CHECKING:
    from rbank_es.answers.check import BankCheck
    from rbank_es.bank.bank_access import OpenBank
    from rbank_es.bank.strict_check import SlipCheck

_HEAD = re.compile(r"\d+:")
"""The beginning of a head; a file of such a name can be given as `./12:heads`."""


@command(
    "verify",
    "rbank-es verify notes --retrievals",
    "rbank-es verify notes --head 120:9f86d081884c7d65...",
    "rbank-es verify notes --head heads.txt",
    "rbank-es verify trial --parent notes",
)
@click.argument("bank")
@click.option("--retrievals", is_flag=True, help="Also repeat every recorded retrieval, as of its position.")
@click.option("--decisions", is_flag=True, help="Also make every decision again, by today's verdicts.")
@click.option("--strict", is_flag=True, help="Also list what has no subject: judgments of unknown runs, and the like.")
@click.option(
    "--head", "heads", metavar="N:HEX|FILE", multiple=True,
    help="A head noted earlier, or a file of such, one a line; may be given repeatedly.",
)  # fmt: skip
@click.option("--parent", metavar="BANK", help="Also prove what this bank shares with one that it was forked from.")
def verify(
    bank: str,
    retrievals: bool,
    decisions: bool,
    strict: bool,
    heads: tuple[str, ...],
    parent: str | None,
    as_json: bool,
) -> None:
    """Check every byte of a bank's log: checksums, positions, and the chain of digests.

    Also reports a correction that is due: verdicts and acts whose consequences nobody has recorded yet; and policies in
    force that this release doesn't know.

    A head (POSITION:DIGEST, printed here and by append) that you noted somewhere safe proves that nothing up to there
    was changed, truncated or reordered since; rbank-es head BANK >> FILE notes one. In a file, lines about other banks
    and comments (#) are left out. What is in the bank's directory and not of the bank is listed.

    A fork verifies by itself. With --parent, the heads of both at the position of the fork are compared, too; the other
    bank may as well be a fork of this one.

    Exit code 1: a noted head, a retrieval or a decision does not hold, or --strict finds something. 3: damage, or
    something there that could be taken for a part of the log.
    """
    with opened_reader(whole_bank(bank)) as reader, Progress("verifying") as progress:
        reader.progress = progress
        noted = [_noted(text, reader.bank) for text in heads]
        every = [str(head) for each in noted for head in each.heads]
        asked = {"retrievals": retrievals, "decisions": decisions, "strict": strict, "parent": parent}
        found: BankCheck = reader.ask("check", noted=every, **asked)
    print_answer(found, "check", lambda: _print(found, parent), as_json)
    if others := sum(each.others for each in noted):
        warn(f"left out {count(others, 'noted head')} of other banks")
    if any(each.harmful for each in found.foreign):
        raise click.exceptions.Exit(LogCorruption.exit_code)
    if not found.ok:
        raise click.exceptions.Exit(CheckFailed.exit_code)


def _noted(text: str, bank: OpenBank) -> NotedHeads:
    """Return the heads that an argument names: the head itself, or a file of them."""
    if _HEAD.match(text):
        return NotedHeads((Head.parse(text),), 0)
    try:
        found = parse_heads(read_text_file(text), bank.id, bank.log.ancestors())
    except BadInput as error:
        raise BadInput(f"{text}: {error}") from None
    # A check that checks nothing must not look like one that holds.
    if not found.heads and not found.others:
        raise BadInput(f"{text}: no head is noted there; to note one: rbank-es head BANK >> FILE")
    if not found.heads:
        raise BadInput(f"{text}: no head of this bank is noted there, only {count(found.others, 'line')} about others")
    return found


def _print(found: BankCheck, parent: str | None) -> None:
    echo(f"the log of {found.bank} is sound: every byte was checked")
    sizes = {
        "events": found.events,
        **found.parts,
        "texts stored apart": found.texts_apart,
        "texts erased": found.texts_erased,
    }
    echo_fields(sizes | {"noted heads that hold": len(found.noted) or None, "head": found.head})
    if found.torn:
        size = count(found.torn.size_bytes, "byte")
        echo(f"an append was interrupted: its {size} at the end are ignored, and the next append cuts them off")
    for cut in found.cuts:
        size = f"{count(cut.size_bytes, 'byte')} behind position {cut.after_seq:,}"
        echo(f"{format_time(cut.cut_at)}: of an interrupted append, {size} were cut off into {safe_line(cut.kept)}")
    recorded = {cut.kept for cut in found.cuts}
    for kept, size_bytes in found.kept.items():
        whose = "that were cut off" if kept in recorded else "of which the log has no record"
        echo(f"{kept} keeps {count(size_bytes, 'byte')} {whose}; any erasure removes it")
    if found.erasing:
        echo("an erasure is incomplete: the next append or erase completes it")
    if found.cleared:
        echo("writers had been stopped after a failed sync; the log is sound and open to them again")
    foreign = [[each.name, each.kind, each.note] for each in found.foreign]
    echo_section("in the bank's directory, and not of the bank", ["name", "is", "note"], foreign, flexible=["note"])
    if check := found.retrievals:
        echo_heading("retrievals")
        counts = {
            "found the same again": check.checked,
            "unverifiable (texts erased, or another policy was in force)": check.unverifiable or None,
        }
        echo_fields(counts | {"made in other banks, not repeated": check.elsewhere or None})
    _print_canonical(found)
    if found.unknown_policies:
        these = ", ".join(safe_line(f"{each.kind} {each.label}") for each in found.unknown_policies)
        echo(f"in force, and unknown to this release: {these}; what they decided is kept, and they decide nothing more")
    if found.slips is not None:
        _print_slips(found.slips)
    if found.shared is not None:
        _, _, digest = found.shared.head.partition(":")
        where = f"position {found.shared.head_seq:,}, where both have the head {digest}"
        echo(f"the same as {shown_locator(str(parent))} up to {where}")


def _print_canonical(found: BankCheck) -> None:
    check = found.canonical
    if check.refolded:
        echo(f"{count(check.decided, 'decision')} made again by today's verdicts")
    if not check.canonical:
        differ = [count(check.decisions, "decision")] if check.decisions else []
        differ += [f"what is forgotten of {count(check.forgotten, 'item')}"] if check.forgotten else []
        more = " or more" if len(check.causes) == limits.CORRECTION_CAUSES else ""
        since = f", since {count(len(check.causes), 'verdict or act')}{more}" if check.causes else ""
        # Where the log leaves nothing open, or not all of it, only making every decision again finds the difference.
        how = " --decisions" if check.refolded else ""
        change = " and ".join(differ)
        echo(f"a correction is due: it would change {change}{since}; rbank-es correct {found.bank}{how} makes it")


def _print_slips(check: SlipCheck) -> None:
    if not check.slips:
        echo("every judgment, use, act, policy and correction has its subject")
        return
    rows = [[f"{slip.seq:,}", slip.kind, slip.name] for slip in check.slips]
    echo_section("without a subject", ["at", "what", "name"], rows, flexible=["name"])
    left_out = sum(check.counts.values()) - len(check.slips)
    if left_out:
        echo(f"and {left_out:,} more")
