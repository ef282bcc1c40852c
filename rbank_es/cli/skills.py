"""`skills`: write lessons to files that coding agents read, and keep them as the bank is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from rbank_es.bank.locator import split_point
from rbank_es.cli.shared.arguments import open_at, open_whole
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.hook_spool import take_spool_in
from rbank_es.cli.shared.output import echo, echo_json, echo_paragraph, safe_block, warn
from rbank_es.errors import BadInput
from rbank_es.events.readable_text import count, format_names, safe_line
from rbank_es.limits import NAMES_LISTED

if TYPE_CHECKING:
    from rbank_es.agents.skill_export import PersonsWords, SkillPlace, SkillsReport

FORMS = ("skill", "agents-md", "plugin")


@command(
    "skills",
    "rbank-es skills notes --into .claude/skills",
    "rbank-es skills notes --into AGENTS.md --format agents-md --domain shop",
    "rbank-es skills notes --sync --dry-run",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--into", metavar="DIR|FILE", help="Where to write; with --sync: only what is there.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    help="skill: SKILL.md folders (default); agents-md: a block of AGENTS.md or of FILE; plugin: an Agent Plugin.",
)
@click.option("--domain", metavar="D", help="Only lessons of this domain.")
@click.option("--sync", is_flag=True, help="Bring every place that was written before to what the bank says now.")
@click.option("--adopt", is_flag=True, help="With --sync: make items of what people wrote into the files.")
@click.option("--by", metavar="NAME", help="With --adopt: who wrote it.")
@click.option("--dry-run", is_flag=True, help="Only show what would change in which file.")
def skills(
    bank: str,
    into: str | None,
    form: str | None,
    domain: str | None,
    sync: bool,
    adopt: bool,
    by: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write the active lessons of a bank to files that coding agents read, and take them back when they fall.

    Lessons are grouped by domain, topic and size; no model is called. Beside the files is a manifest: the bank, its
    head, and the items behind each line. With --sync, what lost its support goes out of every file. What people wrote
    there stays, and is shown; what they removed stays out. What hooks spooled for the bank is taken in before.
    """
    from rbank_es.agents.skill_export import sync_skills, write_skills

    _check(into, form, domain, sync, adopt, by)
    if sync and (named := split_point(bank)[1]) is not None:
        raise BadInput(f"--sync brings files to what the bank says now: leave out @{named}")
    opened, point = (open_whole(bank), None) if sync else open_at(bank)
    with opened:
        if sync:
            if not dry_run:
                take_spool_in(opened)
            report = sync_skills(opened, into, adopt=adopt, by=by, dry_run=dry_run)
        else:
            chosen = {"form": form or "skill", "domain": domain, "dry_run": dry_run}
            report = write_skills(opened, str(into), point=point, **chosen)  # type: ignore[arg-type]
    if as_json:
        echo_json(report)
    else:
        _print(report)
    if any(place.problem for place in report.places):
        click.get_current_context().exit(BadInput.exit_code)


def _check(into: str | None, form: str | None, domain: str | None, sync: bool, adopt: bool, by: str | None) -> None:
    if not sync and into is None:
        raise click.UsageError("name a folder with --into, or bring what was written before up to date with --sync.")
    if sync and (form or domain):
        raise click.UsageError("--format and --domain are those of each place: leave them out with --sync.")
    if adopt and not sync:
        raise click.UsageError("--adopt goes with --sync.")
    if by and not adopt:
        raise click.UsageError("--by goes with --adopt.")


def _print(report: SkillsReport) -> None:
    for place in report.places:
        if place.problem:
            warn(f"{place.place}: {place.problem}")
        else:
            _print_place(place, written=report.written)
    if not report.places:
        echo(f"no skills of {safe_line(report.bank)} were written anywhere; write some with --into")
    if report.due:
        warn("verdicts changed and a correction is due: rbank-es correct makes it, and more lessons may change then")
    if report.written and not report.remembered:
        warn("the place can't be remembered: --sync finds it only where --into names it")


def _print_place(place: SkillPlace, *, written: bool) -> None:
    changes = Counter(file.change for file in place.files)
    named = ", ".join(f"{changes[change]} {change}" for change in ("added", "changed", "removed") if changes[change])
    about = f"{place.form}, {count(place.lessons, 'lesson')}"
    echo(f"{safe_line(place.place)} ({about}): {'' if written else 'would be '}{named or 'as the bank is'}")
    for change, ids in (("came", place.came), ("left", place.left)):
        if ids:
            echo(f"  {change}: {safe_line(format_names(ids, NAMES_LISTED))}")
    if place.left_out:
        echo(f"  no room for {count(place.left_out, 'lesson')} with less support; name a domain with --domain")
    for id in place.taken_out:
        echo(f"  removed by a person, and active in the bank: {safe_line(id)}; rbank-es retract ends it there, too")
    for file in place.files:
        if file.change == "kept":
            echo(f"  {safe_line(file.path)} was changed by a person, and is left as it is")
        if file.difference:
            echo(safe_block(file.difference))
    for words in place.own:
        echo_paragraph("  " + _about(words))


def _about(words: PersonsWords) -> str:
    where = f"{safe_line(words.path)}:{words.line}: a person's words"
    if words.adopted_as:
        return f"{where} are item {safe_line(words.adopted_as)} now"
    why = f" (not adopted: {safe_line(words.because)})" if words.because else ""
    more = "; --adopt makes an item of them" if words.offered and not words.because else ""
    return f"{where} stay{why}{more}: {safe_line(words.words)}"
