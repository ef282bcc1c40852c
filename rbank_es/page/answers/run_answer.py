"""The answer `run`: a run with its verdicts, what it was given and taught, its context, and its events in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from rbank_es.bank.run_judgments import AUTHORITIES, RankedJudgment, judgments_of
from rbank_es.errors import NotInBank
from rbank_es.events import ContextBuilt, JudgmentOverruled
from rbank_es.events.event import Text
from rbank_es.events.run_events import judge_label
from rbank_es.limits import page_limits
from rbank_es.log.run_reader import Gift, RunEvents, read_run
from rbank_es.page.answers.event_answer import beginning, shortened, shown_event
from rbank_es.page.answers.page_question import PageQuestion, cut
from rbank_es.page.answers.runs_answer import TEXTS, run_row

GIVING = ("memories_retrieved", "context_built", "memories_read")


def run_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return the run `id`, with its events behind the position `after`; `next` is where the following ones begin."""
    events, following = events_of(asked, asked.needed("id"))
    return {**run_facts(asked, asked.needed("id")), "events": events, "next": following}


def run_facts(asked: PageQuestion, id: str) -> dict[str, Any]:
    """Return all about a run but its events. Raises `NotInBank`."""
    row = asked.view.run(id)
    if row is None:
        raise NotInBank(id, asked.position, kind="run")
    leakage = asked.view.rows("leakage_by_run", run=id)
    run = read_run(asked.bank.log, id, asked.position, types=GIVING, resolve={"context_built"})
    return {
        "run": _whole(asked, row),
        "verdicts": list(_verdicts(asked, id)),
        "given": _given(asked, run),
        "learnt": _learnt(asked, id),
        "layers": _layers(asked, run.context),
        "leakage": leakage[0] if leakage else None,
        "flags": asked.view.rows("red_flags", run=id),
    }


def _whole(asked: PageQuestion, row: dict[str, Any]) -> dict[str, Any]:
    made = run_row(asked.bank, row)
    return {
        **made,
        **{name: cut(made[name], page_limits.RUN_TEXT_CHARS) for name in TEXTS},
        **{name: cut(row[name], page_limits.RUN_TEXT_CHARS) for name in ("answer", "sparql")},
        **{"finished": row["finished_seq"], "ended": row["finished_at"], "answer_chars": row["answer_chars"]},
        **{name: row[name] for name in ("level", "family", "suite", "mode", "cost_usd", "duration_s")},
        **{name: row[name] for name in ("iterations", "iterations_max", "rollout_group", "rollout_index")},
    }


def events_of(asked: PageQuestion, id: str) -> tuple[list[dict[str, Any]], int | None]:
    """Return the events of a run behind the position `after`, and the position behind which to go on (None: no more).

    At most `page_limits.RUN_EVENTS`, and `page_limits.ANSWER_BYTES` of JSON: one event at least.
    """
    after, size = asked.number("after", 0, 0, page_limits.POSITION_MOST), 0
    shown: list[dict[str, Any]] = []
    for event in asked.bank.events(after=after, point=asked.position, run=id, resolve=True):
        made = shown_event(event, prompts=asked.prompts)
        size += len(msgspec.json.encode(made))
        if shown and (len(shown) == page_limits.RUN_EVENTS or size > page_limits.ANSWER_BYTES):
            return shown, shown[-1]["seq"]
        shown.append(made)
    return shown, None


def _verdicts(asked: PageQuestion, id: str) -> Iterator[dict[str, Any]]:
    judged = judgments_of(asked.bank, id, asked.position)
    for each in judged:
        later = (other.event for other in judged if isinstance(other.event, JudgmentOverruled))
        overruled = next((other.seq for other in later if other.judgment == each.event.id), None)
        yield _verdict(asked, each) | {"overruled_seq": overruled}


def _verdict(asked: PageQuestion, each: RankedJudgment) -> dict[str, Any]:
    event = each.event
    why = event.why if isinstance(event, JudgmentOverruled) else ""
    return {
        **{"seq": event.seq, "time": event.occurred_at or event.at, "purpose": event.purpose, "verdict": event.verdict},
        **{
            "judge": judge_label(event.judge, event.judge_version),
            "kind": event.kind,
            "authority": AUTHORITIES[each.rank],
        },
        **{"confidence": event.confidence, "stands": each.stands},
        "by": event.by if isinstance(event, JudgmentOverruled) else None,
        "reason": _words(asked, event.reason),
        "why": _words(asked, why),
    }


def _words(asked: PageQuestion, text: Text) -> str | None:
    return cut(asked.bank.text(text), page_limits.RUN_TEXT_CHARS)


def _given(asked: PageQuestion, run: RunEvents) -> list[dict[str, Any]]:
    """Return the items that a run was given in full, in order, each with its hit and what became of it since."""
    return [_gift(asked, gift) for gift in run.given]


def _gift(asked: PageQuestion, gift: Gift) -> dict[str, Any]:
    row, history, hit = asked.view.item(gift.item) or {}, asked.view.item_history(gift.item), gift.hit
    then = next((each["state"] for each in reversed(history) if each["from"] <= gift.seq), None)
    return {
        **{"id": gift.item, "title": row.get("title"), "polarity": row.get("polarity")},
        **{"way": gift.way, "seq": gift.seq},
        **{"rank": hit and hit.rank, "score": hit and shortened(hit.score)},
        **{"state_then": then, "state": row.get("state")},
    }


def _learnt(asked: PageQuestion, id: str) -> list[dict[str, Any]]:
    """Return the candidates that were drawn from a run, in order, each with the decision in force."""
    names = ("kind", "extraction", "place", "title", "state", "action", "seq")
    rows = sorted(asked.view.rows("drawn_candidates", run=id), key=lambda row: (row["seq"], row["place"]))
    return [
        {"id": row["item"], **{name: row[name] for name in names}, "stands": bool(row["stands"])}
        | {"undone": bool(row["undone"])}
        for row in rows
    ]


def _layers(asked: PageQuestion, latest: ContextBuilt | None) -> list[dict[str, Any]]:
    """Return the layers of a run's latest context, each with its budget and its text as it was sent."""
    made = list[dict[str, Any]]()
    if latest is None:
        return made
    for number, layer in enumerate(latest.layers):
        text = latest.texts[number] if number < len(latest.texts) else None
        shown = beginning(text, f"texts.{number}", page_limits.EVENT_TEXT_CHARS, hidden=not asked.prompts)
        facts = {"layer": layer.layer, "chars": layer.chars, "budget": layer.budget, "truncated": layer.truncated}
        made.append(facts | {"seq": latest.seq, "text": None if text is None else shown})
    return made
