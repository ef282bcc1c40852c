"""The list of the verdicts to check first: why each is doubtful, what rests on it, and the commands that settle it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es.bank import Bank
from rbank_es.bank.event_texts import text_of
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
from rbank_es.events import JudgmentOverruled, RunJudged
from rbank_es.system.command_lines import command_on

if TYPE_CHECKING:
    from rbank_es.bank.error_model import Doubt, JudgeRecord
    from rbank_es.bank.verdict_review import DoubtfulVerdict, Stake
    from rbank_es.projections.view import View

RUN_TEXTS = ("task", "answer", "sparql", "error")
"""The texts of a run that a person reads to check a verdict, beside the judge's reason."""

NAMED = 6
"""Items, or runs, that are named of each verdict; JSON has all ids."""

SHOWN_CHARS = 300
"""Characters that are shown of each text; JSON has all."""

KINDS = {"lm": "a model", "check": "a check", "gold": "the right answer"}


def list_doubtful(given: str, bank: Bank, most: int, minutes: float | None, *, as_json: bool) -> None:
    """Print the first `most` doubtful verdicts of a bank (`given` on the command line), or those that fit into so many
    minutes."""
    from rbank_es.bank.verdict_review import within

    with Progress("verdicts") as progress:
        found = bank.doubtful_verdicts(progress=progress)
    with view_at(bank) as view:
        listed = [_facts(given, bank, view, each) for each in found[:most]]
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


def _facts(given: str, bank: Bank, view: View, each: DoubtfulVerdict) -> dict[str, Any]:
    """Return a doubtful verdict for programs, with the minutes to check it and the commands that settle it."""
    from rbank_es.bank.verdict_review import OPPOSITE, minutes_to_check

    row = view.run(each.run) or {}
    [judgment] = bank.events(after=each.seq - 1, point=each.seq, resolve=True)
    assert isinstance(judgment, RunJudged | JudgmentOverruled)
    texts = [row.get(name) or "" for name in RUN_TEXTS] + [text_of(judgment.reason)]
    facts: dict[str, Any] = _rounded(msgspec.to_builtins(each))
    named = {id: view.item(id) or {} for id in each.stake.items[:NAMED]}
    return facts | {
        **{name: row.get(name) for name in RUN_TEXTS},
        "reason": texts[-1],
        "titles": {id: item.get("title") for id, item in named.items()},
        "error_of_judge": _rounded(each.doubt.error),
        "weight": each.stake.weight,
        "minutes": round(minutes_to_check(sum(map(len, texts))), 1),
        "confirm": command_on("overrule", [given, each.run], f"--{each.verdict} --reason TEXT"),
        "overrule": command_on("overrule", [given, each.run], f"--{OPPOSITE[each.verdict]} --reason TEXT"),
    }


def _rounded(value: Any) -> Any:
    """Return a value with its fractions rounded to 4 decimals, as shares are."""
    match value:
        case float():
            return round(value, 4)
        case dict():
            return {name: _rounded(each) for name, each in value.items()}
        case list() | tuple():
            return [_rounded(each) for each in value]
    return value


def _print(number: int, facts: dict[str, Any], each: DoubtfulVerdict) -> None:
    by = f"{each.judge} ({KINDS.get(each.kind, each.kind)})"
    echo_heading(f"{number}. {safe_line(each.run)}: {each.verdict}, says {safe_line(by)} at position {each.seq:,}")
    shown = {name: truncate(safe_line(facts[name] or ""), SHOWN_CHARS) for name in (*RUN_TEXTS, "reason")}
    echo_fields(
        {
            **shown,
            "doubt": f"{each.doubt.probability:.0%} likely to be wrong: {safe_line('; '.join(_because(each.doubt)))}",
            "takes out": _consequence(each.stake),
            "items": _items(each.stake.items, facts["titles"]),
            "given to": _named(each.stake.runs),
            "to check": f"about {facts['minutes']:g} min",
        }
    )
    echo("right? confirm it; wrong? overrule it:")
    echo_command(facts["confirm"], NEXT)
    echo_command(facts["overrule"], NEXT)


def _because(doubt: Doubt) -> list[str]:
    """Return the reasons of a probability, in words."""
    record, reasons = doubt.record, [_checked(doubt.record)]
    if (family := doubt.family) is not None:
        reasons.append(f"{family.wrong:,} of {family.checked:,} on tasks like this one ({family.family})")
    if doubt.confidence is not None and record.confidence is not None:
        said, usual = f"{doubt.confidence:.2f}", f"{record.confidence:.2f}"
        reasons += [f"confidence {said}, {usual} on average"] if said != usual else []
    reasons += [f"{each.judge} says {each.verdict} ({each.purpose})" for each in doubt.against]
    reasons += [f"{each.judge} agrees ({each.purpose})" for each in doubt.agreeing]
    return reasons


def _checked(record: JudgeRecord) -> str:
    what = f"{record.verdict} verdicts of {record.judge}"
    if not record.checked:
        return f"none of the {what} was checked here, and {record.prior:.0%} is assumed"
    return f"{record.wrong:,} of {record.checked:,} checked {what} {'was' if record.wrong == 1 else 'were'} wrong"


def _consequence(stake: Stake) -> str:
    if not stake.uses:
        return f"{count(len(stake.items), 'item')}, not used yet"
    return f"{count(len(stake.items), 'item')}, used {count(stake.uses, 'time')} in {count(len(stake.runs), 'run')}"


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
