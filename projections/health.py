"""Health: how the bank's size, the novelty of what it takes in, and the worth of what it holds change over time.

One row per event that changed the memory. Everything in a row is as of its position, save that wins go by the
verdicts that stand at the point from which one looks: an overruled verdict corrects the past as well.

    size            active items
    candidates      decided about so far, of which `added` and `skipped`
    duplicate_rate  skip and merge per candidate so far;  novelty_rate  add per candidate so far
    win_rate_last   wins per use among the last 20 uses;  win_rate_before  among the 20 before those
    win_rate_drift  the first less the second, once there are 40 uses
"""

from __future__ import annotations

from rbank_es.events import (
    DecisionUndone,
    Event,
    MemoriesConsolidated,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
)
from rbank_es.projections.engine import Insert, Projection, Table

WINDOW = 20
"""Uses in one window of the win rate. The design asks for "the last N uses" and leaves N open. 20 is chosen here: with
one use a run it looks back over a few days of work, and one verdict more or less moves the rate by 5 points."""

MOMENTS = Table(name="moments", columns={"at": "TEXT NOT NULL"}, key=("from_seq",))


def changed(event: Event) -> tuple[Insert]:
    """A moment at which the memory changed."""
    return (Insert("moments", (event.at, event.seq)),)


_HEALTH_OVER_TIME = f"""
WITH sized AS (
    SELECT from_seq AS seq, 1 AS size FROM item_states WHERE state = 'active'
    UNION ALL
    SELECT to_seq, -1 FROM item_states WHERE state = 'active' AND to_seq IS NOT NULL
),
happened AS (
    SELECT from_seq AS seq, 0 AS size, 0 AS candidates, 0 AS added, 0 AS skipped, 0 AS repeated, 0 AS uses FROM moments
    UNION ALL
    SELECT seq, sum(size), 0, 0, 0, 0, 0 FROM sized GROUP BY seq
    UNION ALL
    SELECT from_seq, 0, count(*), sum(action = 'add'), sum(action = 'skip'), sum(action IN ('skip', 'merge')), 0
    FROM decisions WHERE nth = 0 GROUP BY from_seq
    UNION ALL
    SELECT from_seq, 0, 0, 0, 0, 0, count(*) FROM uses GROUP BY from_seq
),
summed AS (
    SELECT seq,
        sum(sum(size)) OVER before AS size,
        sum(sum(candidates)) OVER before AS candidates,
        sum(sum(added)) OVER before AS added,
        sum(sum(skipped)) OVER before AS skipped,
        sum(sum(repeated)) OVER before AS repeated,
        sum(sum(uses)) OVER before AS uses
    FROM happened GROUP BY seq
    WINDOW before AS (ORDER BY seq)
),
judged AS (
    SELECT u.from_seq AS seq, u.item, u.run, v.run IS NOT NULL AS won
    FROM uses u LEFT JOIN verdicts v ON v.run = u.run AND v.purpose = 'learning' AND v.to_seq IS NULL AND v.success
),
rated AS (
    SELECT row_number() OVER (ORDER BY seq, item, run) AS nth,
        avg(won) OVER (ORDER BY seq, item, run ROWS {WINDOW - 1} PRECEDING) AS last,
        avg(won) OVER (ORDER BY seq, item, run ROWS BETWEEN {2 * WINDOW - 1} PRECEDING AND {WINDOW} PRECEDING) AS before
    FROM judged
)
SELECT m.from_seq AS seq, m.at, s.size, s.candidates, s.added, s.skipped,
    round(1.0 * s.repeated / nullif(s.candidates, 0), 4) AS duplicate_rate,
    round(1.0 * s.added / nullif(s.candidates, 0), 4) AS novelty_rate,
    round(r.last, 4) AS win_rate_last,
    CASE WHEN s.uses >= {2 * WINDOW} THEN round(r.before, 4) END AS win_rate_before,
    CASE WHEN s.uses >= {2 * WINDOW} THEN round(r.last - r.before, 4) END AS win_rate_drift,
    s.uses
FROM moments m JOIN summed s ON s.seq = m.from_seq LEFT JOIN rated r ON r.nth = s.uses
ORDER BY m.from_seq
"""

HEALTH = Projection(
    name="health",
    version=1,
    title="Size, novelty and win rate over time",
    handlers={
        MemoriesConsolidated: changed,
        MemoriesForgotten: changed,
        MemoriesRetracted: changed,
        MemoriesRestored: changed,
        DecisionUndone: changed,
    },
    tables=(MOMENTS,),
    views={"health_over_time": _HEALTH_OVER_TIME},
)
