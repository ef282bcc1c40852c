"""The projection `health`: the bank's size, the novelty of its candidates and the win rate of its items, over time.

It has one row per event that may have changed the memory: decisions, verdicts, ends, returns, corrections. All values
of a row are as of its position, except that wins follow the verdicts in force at the position of the view. So an
overruled verdict corrects the past as well.

    size            active items
    candidates      decided about so far, each once, by the decision in force; those undone are left out
    added, skipped  of these
    duplicate_rate  skip and merge per candidate so far;  novelty_rate  add per candidate so far
    win_rate_last   wins per use in a decided run, among the last 20 uses;  win_rate_before  among the 20 before those
    win_rate_drift  the first less the second, once there are 40 uses
"""

from __future__ import annotations

from rbank_es.events import (
    CorrectionCompleted,
    DecisionUndone,
    Event,
    JudgmentOverruled,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    RunJudged,
)
from rbank_es.limits import WIN_RATE_USES
from rbank_es.projections.projection import Insert, Projection, Table

MOMENTS = Table(
    name="moments", columns="at TEXT NOT NULL, kind TEXT NOT NULL, activity TEXT NOT NULL", key=("from_seq",)
)

_KINDS: dict[type[Event], str] = {
    RunJudged: "judgment",
    JudgmentOverruled: "judgment",
    MemoriesConsolidated: "consolidation",
    MemoriesForgotten: "forgetting",
    MemoriesRetracted: "retraction",
    MemoriesRestored: "restoration",
    MemoriesAdmitted: "admission",
    DecisionUndone: "undoing",
    CorrectionCompleted: "correction",
}
"""What may change the states of items, by what lineage calls it."""


def record_moment(event: Event) -> tuple[Insert, ...]:
    """Record a moment at which the memory may have changed; a judgment for scoring changes nothing."""
    if isinstance(event, RunJudged | JudgmentOverruled) and event.purpose != "learning":
        return ()
    return (Insert("moments", (event.at, _KINDS[type(event)], event.id, event.seq)),)


# One pass over all parts in order, with running sums, because joining the parts by position would look each moment up
# in a list without an index. `last` and `before` belong to the latest use, and so to all rows up to the next.
_HEALTH_OVER_TIME = f"""
WITH judged AS (
    SELECT u.from_seq AS seq, u.item, u.run, v.verdict = 'success' AS won
    FROM uses u LEFT JOIN verdicts v ON v.run = u.run AND v.purpose = 'learning' AND v.to_seq IS NULL
        AND v.verdict <> 'undecided'
),
rated AS (
    SELECT seq, row_number() OVER (ORDER BY seq, item, run) AS nth,
        avg(won) OVER (ORDER BY seq, item, run ROWS {WIN_RATE_USES - 1} PRECEDING) AS last,
        avg(won) OVER (
            ORDER BY seq, item, run ROWS BETWEEN {2 * WIN_RATE_USES - 1} PRECEDING AND {WIN_RATE_USES} PRECEDING
        ) AS before
    FROM judged
),
happened (seq, at, size, candidates, added, skipped, repeated, nth, last, before) AS (
    SELECT from_seq, at, 0, 0, 0, 0, 0, NULL, NULL, NULL FROM moments
    UNION ALL
    SELECT from_seq, NULL, 1, 0, 0, 0, 0, NULL, NULL, NULL FROM item_states WHERE state = 'active'
    UNION ALL
    SELECT to_seq, NULL, -1, 0, 0, 0, 0, NULL, NULL, NULL FROM item_states WHERE state = 'active' AND to_seq IS NOT NULL
    UNION ALL
    SELECT from_seq, NULL, 0, 1, action = 'add', action = 'skip', action IN ('skip', 'merge'), NULL, NULL, NULL
    FROM decisions WHERE NOT undone
    UNION ALL
    SELECT to_seq, NULL, 0, -1, -(action = 'add'), -(action = 'skip'), -(action IN ('skip', 'merge')), NULL, NULL, NULL
    FROM decisions WHERE NOT undone AND to_seq IS NOT NULL
    UNION ALL
    SELECT seq, NULL, 0, 0, 0, 0, 0, max(nth), last, before FROM rated GROUP BY seq
),
summed AS (
    SELECT seq, max(at) AS at,
        sum(sum(size)) OVER sofar AS size,
        sum(sum(candidates)) OVER sofar AS candidates,
        sum(sum(added)) OVER sofar AS added,
        sum(sum(skipped)) OVER sofar AS skipped,
        sum(sum(repeated)) OVER sofar AS repeated,
        coalesce(max(max(nth)) OVER sofar, 0) AS uses,
        max(last) AS last, max(before) AS before
    FROM happened GROUP BY seq
    WINDOW sofar AS (ORDER BY seq)
),
spread AS (
    SELECT *, max(last) OVER (PARTITION BY uses) AS win_rate_last,
        max(before) OVER (PARTITION BY uses) AS win_rate_before
    FROM summed
)
SELECT seq, at, size, candidates, added, skipped,
    round(1.0 * repeated / nullif(candidates, 0), 4) AS duplicate_rate,
    round(1.0 * added / nullif(candidates, 0), 4) AS novelty_rate,
    round(win_rate_last, 4) AS win_rate_last,
    CASE WHEN uses >= {2 * WIN_RATE_USES} THEN round(win_rate_before, 4) END AS win_rate_before,
    CASE WHEN uses >= {2 * WIN_RATE_USES} THEN round(win_rate_last - win_rate_before, 4) END AS win_rate_drift,
    uses
FROM spread WHERE at IS NOT NULL ORDER BY seq
"""

HEALTH = Projection(
    name="health",
    version=1,
    title="Size, novelty and win rate over time",
    handlers=dict.fromkeys(_KINDS, record_moment),
    tables=(MOMENTS,),
    views={"health_over_time": _HEALTH_OVER_TIME},
)
