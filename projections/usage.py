"""The projection `usage`: the runs in which each item was used, and those of them that were judged a success.

A use is a pair of item and run: the item was in the run's context, or was read there in full; a quotation is none. A
win is a use whose run's standing learning verdict is success. Wins are a join, not a counter, because a verdict may be
overruled later, or come before the use.
"""

from __future__ import annotations

from rbank_es.events import ContextBuilt, JudgmentOverruled, MemoriesRead, RunJudged
from rbank_es.projections.projection import Insert, Projection, Put, Table

USES = Table(name="uses", columns="item TEXT NOT NULL, run TEXT NOT NULL", key=("item", "run"))
VERDICTS = Table(
    name="verdicts",
    columns="""
        run TEXT NOT NULL, purpose TEXT NOT NULL, verdict TEXT NOT NULL, judge TEXT NOT NULL,
        judge_version TEXT NOT NULL, kind TEXT NOT NULL, confidence REAL, overruled INTEGER NOT NULL,
        judgment TEXT NOT NULL
    """,
    key=("run", "purpose", "from_seq"),
    current=2,
)


def record_injected(event: ContextBuilt) -> list[Insert]:
    """Record a use of each item in the context."""
    return [Insert("uses", (item, event.run, event.seq)) for item in event.items]


def record_read(event: MemoriesRead) -> list[Insert]:
    """Record a use of each item that was read in full."""
    return [Insert("uses", (item, event.run, event.seq)) for item in event.ids] if event.how == "get" else []


def record_verdict(event: RunJudged | JudgmentOverruled) -> tuple[Put]:
    """Record the verdict that is in force from here on."""
    facts = (event.run, event.purpose, event.verdict, event.judge, event.judge_version, event.kind, event.confidence)
    row = (*facts, isinstance(event, JudgmentOverruled), event.id, event.seq)
    return (Put("verdicts", row),)


_ITEM_USAGE = """
SELECT u.item,
    (SELECT c.title FROM item_births b JOIN candidates c ON c.text = b.text WHERE b.item = u.item) AS title,
    count(*) AS uses,
    count(v.run) AS wins,
    round(1.0 * count(v.run) / count(*), 4) AS win_rate,
    min(u.from_seq) AS first_used_seq,
    max(u.from_seq) AS last_used_seq
FROM uses u LEFT JOIN verdicts v ON v.run = u.run AND v.purpose = 'learning' AND v.to_seq IS NULL
    AND v.verdict = 'success'
GROUP BY u.item
"""

USAGE = Projection(
    name="usage",
    version=1,
    title="Uses and wins of items, and the standing verdicts on runs",
    handlers={
        ContextBuilt: record_injected,
        MemoriesRead: record_read,
        RunJudged: record_verdict,
        JudgmentOverruled: record_verdict,
    },
    tables=(USES, VERDICTS),
    views={"item_usage": _ITEM_USAGE},
)
