"""The answer `bank`: what it is, what there was at the position, and the marks of the time slider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.events import (
    BankCreated,
    ContentErased,
    DecisionUndone,
    Event,
    JudgmentOverruled,
    MemoriesAdmitted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    PolicySet,
    type_of,
)
from rbank_es.events.event import text_of
from rbank_es.limits import page_limits
from rbank_es.page.answers.page_question import PageQuestion, cut
from rbank_es.projections.view import View

NOTABLE = frozenset(
    type_of(each)
    for each in (
        JudgmentOverruled,
        MemoriesRetracted,
        MemoriesForgotten,
        MemoriesRestored,
        MemoriesAdmitted,
        DecisionUndone,
        ContentErased,
        PolicySet,
    )
)
"""The types of events that change what a reader believed: the slider names them."""

STOPS = NOTABLE | {"run_finished", "run_judged", "memories_consolidated"}
"""The types of events at which the buttons beside the slider stop."""

FLAGS = {
    "return_chars": limits.FLAG_RETURN_CHARS,
    "items_injected": limits.FLAG_ITEMS_INJECTED,
    "context_chars": limits.FLAG_CONTEXT_CHARS,
    "l2_chars": limits.CONTEXT_L2_CHARS,
}
"""What is flagged as leakage, over these limits."""

# Events that are searched first for the stop before a position; each further step takes four times as many.
_NEARBY_EVENTS = 256


def bank_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return the bank's name, counts and policies at the position, and the marks of its whole log."""
    bank, view, at = asked.bank, asked.view, asked.position
    with bank.as_of(asked.head) as newest:
        marks = time_marks(bank, newest)
    runs = view.pick("runs", ("verdict", "scripted", "simulated"))
    verdicts = Counter(verdict for verdict, _, _ in runs)
    return {
        **bank_facts(bank, marks["head"], asked.argument),
        "at_time": second(bank.time_at(at)),
        **stops_around(bank, at, marks["head"]),
        "counts": {
            "events": at,
            "runs": len(runs),
            "items": Counter(state for (state,) in view.pick("items", ("state",))),
            "judged": verdicts["success"] + verdicts["failure"],
            "successes": verdicts["success"],
        },
        **marks,
        "flags": FLAGS,
        "simulated": sum(simulated for _, _, simulated in runs),
        "scripted": sum(scripted for _, scripted, _ in runs),
        "policies": [
            {name: row[name] for name in ("kind", "name", "version")}
            for row in sorted(view.rows("policies"), key=lambda row: row["kind"])
        ],
    }


def bank_facts(bank: Bank, head: int, argument: str) -> dict[str, Any]:
    """Return the bank's name, `argument` (as commands name it), id and purpose, what it was forked from, and the digest
    of a head."""
    # An empty bank has no position 1.
    first = next(bank.events(point=min(1, head)), None)
    purpose = bank.text(first.purpose) if isinstance(first, BankCreated) else None
    return {
        **{"name": bank.name, "argument": argument, "id": bank.id, "head_digest": bank.head(head).digest},
        "purpose": cut(purpose, page_limits.DASHBOARD_PURPOSE_CHARS) or "",
        "forked_from": forked_from(bank, head),
    }


def forked_from(bank: Bank, position: int) -> str:
    """Return which bank a bank was forked from, and where, as of a position; empty where it was not yet forked."""
    parents = [each for each in bank.log.ancestors() if each.upto < position]
    return f"{parents[-1].bank} at position {parents[-1].upto:,}" if parents else ""


def second(at: str) -> str:
    """Return a stored time cut to the second, as `2026-01-31T12:00:00Z`; empty for none."""
    return f"{at[:19]}Z" if at else ""


def stops_around(bank: Bank, at: int, head: int) -> dict[str, Any]:
    """Return the event at a position, and the positions of the nearest stops before and behind it, None without one."""
    event = next(bank.events(after=at - 1, point=at), None) if at else None
    behind = next((each.seq for each in bank.events(after=at, point=head, types=STOPS)), None)
    return {
        "event": None if event is None else {"type": type_of(event), "run": getattr(event, "run", None)},
        **{"before": _stop_before(bank, at), "after": behind},
    }


def _stop_before(bank: Bank, at: int) -> int | None:
    upto, width = at - 1, _NEARBY_EVENTS
    while upto > 0:
        found = [event.seq for event in bank.events(after=max(upto - width, 0), point=upto, types=STOPS)]
        if found:
            return found[-1]
        upto, width = upto - width, 4 * width
    return None


# ---------------------------------------------------------------- the marks of the slider


def time_marks(bank: Bank, newest: View) -> dict[str, Any]:
    """Return the head, the notable events, and the number of events of each kind by bin, of the whole log."""
    head = newest.position
    notable = [event for event in bank.events(point=head, types=NOTABLE)]
    runs = newest.pick("runs", ("started_seq", "finished_seq", "judged_seq"))
    starts, ends, verdicts = zip(*runs, strict=True) if runs else ((), (), ())
    kinds = {"starts": starts, "ends": ends, "verdicts": verdicts, "memory": newest.memory_changes(0)}
    kinds["notable"] = [event.seq for event in notable]
    return {
        "head": head,
        "notable": [notable_mark(event) for event in notable[-page_limits.NOTABLE_EVENTS :]],
        "kinds": {name: binned((seq for seq in found if seq), head) for name, found in kinds.items()},
    }


def binned(positions: Iterable[int], head: int) -> list[int]:
    """Return how many positions of a log of `head` events fall into each of `page_limits.TIME_BINS` equal bins."""
    counts = [0] * page_limits.TIME_BINS
    for seq in positions:
        counts[(seq - 1) * page_limits.TIME_BINS // head] += 1
    return counts


def notable_mark(event: Event) -> dict[str, Any]:
    """Return a notable event for the slider: position, type, time, and what it did in a few words."""
    return {
        **{"seq": event.seq, "type": type_of(event), "time": event.at},
        "text": cut(_words(event), page_limits.LIST_TEXT_CHARS),
    }


def _words(event: Event) -> str:
    match event:
        case JudgmentOverruled():
            what, why = f"{event.run}: {event.verdict}, by {event.by}", event.why or event.reason
        case MemoriesRetracted(how="tainted"):
            what, why = f"{_counted(event.extractions, 'extraction')} set aside", event.why
        case MemoriesRetracted() | MemoriesRestored():
            what, why = f"{_counted(event.ids)} {event.how}", event.why
        case MemoriesForgotten() | MemoriesAdmitted():
            what, why = _counted(event.ids), event.why
        case DecisionUndone():
            what, why = "a decision holds again" if event.lifted else "a decision is taken back", event.why
        case ContentErased():
            what, why = _counted(event.units, "text"), event.reason
        case PolicySet():
            what, why = ", ".join(f"{each.kind} {each.name}-{each.version}" for each in event.policies), event.why
        case _:
            what, why = "", ""
    words = text_of(why)
    return f"{what}: {words}" if words else what


def _counted(things: tuple[object, ...], noun: str = "item") -> str:
    return f"{len(things):,} {noun}{'' if len(things) == 1 else 's'}"
