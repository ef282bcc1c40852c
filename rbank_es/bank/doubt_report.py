"""Doubtful verdicts for people and programs: the reasons, what rests on each, the commands that settle it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.bank.error_model import Doubt, JudgeRecord
from rbank_es.bank.verdict_review import OPPOSITE, DoubtfulVerdict, Stake, minutes_to_check
from rbank_es.events import JudgmentOverruled, RunJudged
from rbank_es.events.event import text_of
from rbank_es.state.proportion import percent
from rbank_es.system.command_lines import command_on

if TYPE_CHECKING:
    from rbank_es.bank.open_bank import OpenBank
    from rbank_es.projections.view import View

RUN_TEXTS = ("task", "answer", "sparql", "error")
"""The texts of a run that a person reads to check a verdict, beside the judge's reason."""


def doubt_facts(argument: str, bank: OpenBank, view: View, each: DoubtfulVerdict) -> dict[str, Any]:
    """Return a doubtful verdict with its texts, the minutes to check it and the commands that settle it.

    `argument` is the bank as the commands name it. Fractions have 4 decimals.
    """
    row = view.run(each.run) or {}
    judgment = bank.event_at(each.seq, resolve=True)
    assert isinstance(judgment, RunJudged | JudgmentOverruled)
    texts = [row.get(name) or "" for name in RUN_TEXTS] + [text_of(judgment.reason)]
    facts: dict[str, Any] = _rounded(msgspec.to_builtins(each))
    named = {id: view.item(id) or {} for id in each.stake.items[: limits.IDS_NAMED]}
    names = [argument, each.run]
    return facts | {
        **{name: row.get(name) for name in RUN_TEXTS},
        "reason": texts[-1],
        "titles": {id: item.get("title") for id, item in named.items()},
        "error_of_judge": _rounded(each.doubt.error),
        "weight": each.stake.weight,
        "minutes": round(minutes_to_check(sum(map(len, texts))), 1),
        "because": _because(each.doubt),
        "takes_out": _consequence(each.stake),
        "confirm": command_on("overrule", names, f"--{each.verdict} --reason TEXT"),
        "overrule": command_on("overrule", names, f"--{OPPOSITE[each.verdict]} --reason TEXT"),
    }


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, 4)
        case dict():
            return {name: _rounded(each) for name, each in value.items()}
        case list() | tuple():
            return [_rounded(each) for each in value]
    return value


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
        return f"none of the {what} was checked here, and {percent(record.prior)} is assumed"
    return f"{record.wrong:,} of {record.checked:,} checked {what} {'was' if record.wrong == 1 else 'were'} wrong"


def _consequence(stake: Stake) -> str:
    items = _counted(len(stake.items), "item")
    if not stake.uses:
        return f"{items}, not used yet"
    return f"{items}, used {_counted(stake.uses, 'time')} in {_counted(len(stake.runs), 'run')}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
