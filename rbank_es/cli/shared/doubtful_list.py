"""The list of the verdicts to check first: why each is doubtful, what rests on it, and the commands that settle it."""

from __future__ import annotations

from typing import Any

from rbank_es.bank import Bank
from rbank_es.bank.doubt_report import NAMED, RUN_TEXTS, doubt_facts
from rbank_es.bank.verdict_review import DoubtfulVerdict, within
from rbank_es.cli.shared.arguments import view_at
from rbank_es.cli.shared.correction_report import NEXT
from rbank_es.cli.shared.output import (
    Progress,
    count,
    echo,
    echo_command,
    echo_fields,
    echo_heading,
    echo_json,
    safe_line,
    truncate,
    warn,
)

SHOWN_CHARS = 300
"""Characters that are shown of each text; JSON has all."""

KINDS = {"lm": "a model", "check": "a check", "gold": "the right answer"}


def list_doubtful(given: str, bank: Bank, most: int, minutes: float | None, *, as_json: bool) -> None:
    """Print the first `most` doubtful verdicts of a bank (`given` on the command line), or those that fit into so many
    minutes."""
    with Progress("verdicts") as progress:
        found = bank.doubtful_verdicts(progress=progress)
    with view_at(bank) as view:
        listed = [doubt_facts(given, bank, view, each) for each in found[:most]]
        position = view.position
    if minutes is not None:
        listed = [listed[at] for at in within((each["minutes"] for each in listed), minutes)]
    if as_json:
        echo_json({"bank": bank.name, "position": position, "doubtful": len(found), "verdicts": listed})
        return
    doubtful = {each.run: each for each in found}
    for number, facts in enumerate(listed, 1):
        _print(number, facts, doubtful[facts["run"]])
    _print_end(len(found), listed, minutes)


def _print(number: int, facts: dict[str, Any], each: DoubtfulVerdict) -> None:
    by = f"{each.judge} ({KINDS.get(each.kind, each.kind)})"
    echo_heading(f"{number}. {safe_line(each.run)}: {each.verdict}, says {safe_line(by)} at position {each.seq:,}")
    shown = {name: truncate(safe_line(facts[name] or ""), SHOWN_CHARS) for name in (*RUN_TEXTS, "reason")}
    echo_fields(
        {
            **shown,
            "doubt": f"{each.doubt.probability:.0%} likely to be wrong: {safe_line('; '.join(facts['because']))}",
            "takes out": facts["takes_out"],
            "items": _items(each.stake.items, facts["titles"]),
            "given to": _named(each.stake.runs),
            "to check": f"about {facts['minutes']:g} min",
        }
    )
    echo("right? confirm it; wrong? overrule it:")
    echo_command(facts["confirm"], NEXT)
    echo_command(facts["overrule"], NEXT)


def _items(ids: tuple[str, ...], titles: dict[str, str | None]) -> str:
    """Return the first items, one a line, each with its title."""
    lines = [f"{safe_line(id)}  {safe_line(title or '[erased]')}" for id, title in titles.items()]
    return "\n".join([*lines, *([f"and {len(ids) - NAMED:,} more"] if len(ids) > NAMED else [])])


def _named(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(map(safe_line, names[:NAMED])) + more


def _print_end(found: int, listed: list[dict[str, Any]], minutes: float | None) -> None:
    if not found:
        warn("no item rests on a single verdict that a person hasn't given; there is nothing to check")
    elif not listed:
        warn(f"no verdict can be checked in {minutes:g} minutes; give more")
    else:
        spent = sum(each["minutes"] for each in listed)
        echo(f"\n{len(listed):,} of {count(found, 'verdict')} on which items rest alone, about {spent:.0f} min")
        echo("overrule --dry-run shows all that would follow, and records nothing")
