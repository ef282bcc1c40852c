"""The answer `doubts`: the verdicts that a person should check first, as `review --verdicts` lists them."""

from __future__ import annotations

from typing import Any

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.doubt_report import doubt_facts
from rbank_es.bank.verdict_review import DoubtfulVerdict
from rbank_es.limits import page_limits
from rbank_es.page.answers.page_question import PageQuestion, cut
from rbank_es.projections.view import View
from rbank_es.system.command_lines import whole_command


def doubts_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return the first doubtful verdicts at the position, with the command that lists all."""
    bank, view, argument = asked.bank, asked.view, asked.argument
    found = bank.doubtful_verdicts(view.position)
    options = f"--verdicts {min(len(found), limits.REVIEW_VERDICTS)}"
    return {
        "total": len(found),
        "command": whole_command("review", [argument], options),
        "rows": [_row(argument, bank, view, each) for each in found[: page_limits.DOUBTS_SHOWN]],
    }


def _row(argument: str, bank: Bank, view: View, each: DoubtfulVerdict) -> dict[str, Any]:
    facts = doubt_facts(argument, bank, view, each)
    same = ("run", "verdict", "judge", "kind", "seq", "loss", "takes_out", "minutes")
    return {
        **{name: facts[name] for name in same},
        **{name: cut(facts[name]) for name in ("task", "answer", "reason")},
        "probability": facts["doubt"]["probability"],
        "because": [cut(reason) for reason in facts["because"]],
        "items": [{"id": id, "title": cut(title)} for id, title in facts["titles"].items()],
        "total_items": len(each.stake.items),
        **{name: f"rbank-es {facts[name]}" for name in ("confirm", "overrule")},
    }
