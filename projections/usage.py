"""The projection `usage`: the runs in which each item was used, and those of them that were judged a success.

A use is a pair of item and run: the item was in the run's context, or was read there in full; a quotation is none. A
win is a use whose run's standing learning verdict is success, a loss one where it is failure; undecided is neither.
They are joins, not counters, because a verdict may be overruled later, or come before the use.
"""

from __future__ import annotations

from rbank_es.events import ContextBuilt, MemoriesRead
from rbank_es.projections.projection import Insert, Projection, Table

USES = Table(name="uses", columns="item TEXT NOT NULL, run TEXT NOT NULL", key=("item", "run"))


def record_injected(event: ContextBuilt) -> list[Insert]:
    """Record a use of each item in the context."""
    return [Insert("uses", (item, event.run, event.seq)) for item in event.items]


def record_read(event: MemoriesRead) -> list[Insert]:
    """Record a use of each item that was read in full."""
    return [Insert("uses", (item, event.run, event.seq)) for item in event.ids] if event.how == "get" else []


# The rate is of wins and losses: a run that nobody decided about says nothing of the item.
_ITEM_USAGE = """
SELECT u.item,
    (SELECT c.title FROM item_states s JOIN candidates c ON c.text = s.text
     WHERE s.item = u.item AND s.to_seq IS NULL) AS title,
    count(*) AS uses,
    count(nullif(v.verdict, 'failure')) AS wins,
    count(nullif(v.verdict, 'success')) AS losses,
    round(avg(v.verdict = 'success'), 4) AS win_rate,
    min(u.from_seq) AS first_used_seq,
    max(u.from_seq) AS last_used_seq
FROM uses u LEFT JOIN verdicts v ON v.run = u.run AND v.purpose = 'learning' AND v.to_seq IS NULL
    AND v.verdict <> 'undecided'
GROUP BY u.item
"""

USAGE = Projection(
    name="usage",
    version=1,
    title="Uses, wins and losses of items",
    handlers={ContextBuilt: record_injected, MemoriesRead: record_read},
    tables=(USES,),
    views={"item_usage": _ITEM_USAGE},
)
