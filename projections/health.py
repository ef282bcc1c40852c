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

`bank_health` is one row of counts at the position of the view, each of what stands there:

    active, items                      active items; items ever, in whatever state
    candidates, added, repeated        as above; repeated are skip and merge
    uses, wins, losses                 uses that count, and those in runs judged a success or a failure
    wins_last, decided_last            of the last 20 uses, those won, and those in decided runs
    wins_before, decided_before        the same of the 20 before those
    for_agents, never_used             active items that agents may be given; those of them without a use
    active_uses, top_items, top_uses   uses of those; the tenth of them that is used most, at least one; its uses
    judged, undecided, overruled       runs with a verdict for learning; those left undecided; those whose verdict
                                       overruled another one, because who confirms a verdict overrules nothing
    judged_twice, disagreed            runs that two judges or more decided about in their latest verdicts; those on
                                       which these differ
    recalls, recalls_not_sent          runs of which it is known whether their requests had what was recalled; those
                                       whose requests had not all of it
    on_one_verdict                     active items that no longer had support if one run were undecided
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

JUDGMENTS = Table(  # every judgment for learning, whether or not it stands
    name="learning_judgments",
    columns="run TEXT NOT NULL, judge TEXT NOT NULL, verdict TEXT NOT NULL",
    key=("from_seq",),
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


HEALTH_COUNTS = (
    "active", "items", "candidates", "added", "repeated", "uses", "wins", "losses", "wins_last", "decided_last",
    "wins_before", "decided_before", "for_agents", "never_used", "active_uses", "top_items", "top_uses", "judged",
    "undecided", "overruled", "judged_twice", "disagreed", "recalls", "recalls_not_sent", "on_one_verdict",
)  # fmt: skip
"""The columns of `bank_health`, in order."""


def record_moment(event: Event) -> tuple[Insert, ...]:
    """Record a moment at which the memory may have changed, and a judgment; one for scoring changes nothing."""
    moment = Insert("moments", (event.at, _KINDS[type(event)], event.id, event.seq))
    if not isinstance(event, RunJudged | JudgmentOverruled):
        return (moment,)
    if event.purpose != "learning":
        return ()
    return (moment, Insert("learning_judgments", (event.run, event.judge, event.verdict, event.seq)))


# One row a run, made before it is joined: joined itself, the table is searched through all verdicts that a run ever
# had, which took minutes where one run had 34,000.
_LATEST = """
latest AS MATERIALIZED (
    SELECT run, verdict, overruled, judged_seq FROM verdicts WHERE purpose = 'learning' AND to_seq IS NULL
)
"""

_JUDGED_USES = """
    SELECT u.from_seq AS seq, u.item, u.run, v.verdict = 'success' AS won
    FROM counted_uses u LEFT JOIN latest v ON v.run = u.run AND v.verdict <> 'undecided'
"""

# One pass over all parts in order, with running sums, because joining the parts by position would look each moment up
# in a list without an index. `last` and `before` belong to the latest use, and so to all rows up to the next.
_HEALTH_OVER_TIME = f"""
WITH {_LATEST.strip()},
judged AS ({_JUDGED_USES}),
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
SELECT seq, at AS recorded_at, size, candidates, added, skipped,
    round(1.0 * repeated / nullif(candidates, 0), 4) AS duplicate_rate,
    round(1.0 * added / nullif(candidates, 0), 4) AS novelty_rate,
    round(win_rate_last, 4) AS win_rate_last,
    CASE WHEN uses >= {2 * WIN_RATE_USES} THEN round(win_rate_before, 4) END AS win_rate_before,
    CASE WHEN uses >= {2 * WIN_RATE_USES} THEN round(win_rate_last - win_rate_before, 4) END AS win_rate_drift,
    uses
FROM spread WHERE at IS NOT NULL ORDER BY seq
"""

# The items that rest on one run: without its verdict, no extraction of their own words would stand. `grounds` are those
# extractions, those of the originals for a copy, `held` the verdicts that hold in each, by run; the rule is `stands` in
# `rbank_es.law.validity`. An original that isn't known is a ground that no verdict takes.
_FRAGILE = """
own AS (
    SELECT s.item, c.extraction, c.originals
    FROM item_states s
    JOIN item_support p ON p.item = s.item AND p.to_seq IS NULL
    JOIN candidates c ON c.text = p.text AND c.item = s.item
    WHERE s.state = 'active' AND NOT s.vouched AND s.to_seq IS NULL
),
sources AS (
    SELECT item, extraction FROM own WHERE originals = '[]'
    UNION SELECT o.item, j.value FROM own o, json_each(o.originals) j
),
grounds AS (
    SELECT g.item, g.extraction, e.kind, e.relied, count(*) OVER (PARTITION BY g.item) AS landings
    FROM sources g LEFT JOIN extractions e ON e.extraction = g.extraction AND e.to_seq IS NULL
    WHERE coalesce(e.stands, 1)
),
named AS (
    SELECT g.item, g.extraction, g.kind, g.landings, json_extract(j.value, '$[0]') AS run,
        json_extract(j.value, '$[1]') AS verdict
    FROM grounds g JOIN json_each(g.relied) j
),
held AS (
    SELECT n.item, n.extraction, n.kind, n.landings, n.run, coalesce(v.verdict <> 'undecided', 0) AS judged,
        sum(n.verdict = 'success') AS won, sum(n.verdict = 'failure') AS lost
    FROM named n LEFT JOIN latest v ON v.run = n.run
    WHERE v.run IS NULL OR v.verdict = n.verdict
    GROUP BY n.item, n.extraction, n.run
),
summed AS (SELECT *, sum(won) OVER ground AS all_won, sum(lost) OVER ground AS all_lost FROM held
    WINDOW ground AS (PARTITION BY item, extraction)),
alone AS (
    SELECT item FROM summed
    WHERE judged AND CASE kind
        WHEN 'contrastive' THEN all_won = won OR all_lost = lost
        WHEN 'pattern' THEN all_won - won < 2
        ELSE 1
    END
    GROUP BY item, run HAVING count(*) = max(landings)
),
fragile AS (SELECT count(DISTINCT item) AS on_one_verdict FROM alone)
"""

_BANK_HEALTH = f"""
WITH {_LATEST.strip()},
aged AS (
    SELECT won, row_number() OVER (ORDER BY seq DESC, item DESC, run DESC) AS nth FROM ({_JUDGED_USES})
),
won AS (
    SELECT count(*) AS uses, total(won) AS wins, count(won) - total(won) AS losses,
        total(won) FILTER (WHERE nth <= {WIN_RATE_USES}) AS wins_last,
        count(won) FILTER (WHERE nth <= {WIN_RATE_USES}) AS decided_last,
        total(won) FILTER (WHERE nth > {WIN_RATE_USES} AND nth <= {2 * WIN_RATE_USES}) AS wins_before,
        count(won) FILTER (WHERE nth > {WIN_RATE_USES} AND nth <= {2 * WIN_RATE_USES}) AS decided_before
    FROM aged
),
stock AS (SELECT count(*) AS items, total(state = 'active') AS active FROM item_states WHERE to_seq IS NULL),
decided AS (
    SELECT count(*) AS candidates, total(action = 'add') AS added, total(action IN ('skip', 'merge')) AS repeated
    FROM decisions WHERE NOT undone AND to_seq IS NULL
),
ranked AS (
    SELECT coalesce(u.uses, 0) AS uses, (count(*) OVER () + 9) / 10 AS tenth,
        row_number() OVER (ORDER BY u.uses DESC, s.item) AS nth
    FROM item_states s JOIN candidates c ON c.text = s.text
    LEFT JOIN (SELECT item, count(*) AS uses FROM counted_uses GROUP BY item) u ON u.item = s.item
    WHERE s.state = 'active' AND s.to_seq IS NULL AND c.src NOT IN ('principle', 'episode')
),
spread AS (
    SELECT count(*) AS for_agents, total(uses = 0) AS never_used, total(uses) AS active_uses,
        coalesce(max(tenth), 0) AS top_items, total(uses) FILTER (WHERE nth <= tenth) AS top_uses
    FROM ranked
),
standing AS (
    SELECT count(*) AS judged, total(verdict = 'undecided') AS undecided FROM latest
),
corrected AS (
    SELECT count(DISTINCT j.run) AS overruled FROM learning_judgments j
    JOIN latest v ON v.run = j.run
    WHERE v.overruled AND j.verdict <> v.verdict AND j.from_seq < v.judged_seq
),
opinions AS (
    SELECT run, verdict, row_number() OVER (PARTITION BY run, judge ORDER BY from_seq DESC) AS age
    FROM learning_judgments
),
compared AS (
    SELECT count(*) AS judged_twice, total(verdicts > 1) AS disagreed FROM (
        SELECT count(DISTINCT verdict) AS verdicts FROM opinions WHERE age = 1 AND verdict <> 'undecided'
        GROUP BY run HAVING count(*) > 1
    )
),
delivered AS (
    SELECT count(recall_sent) AS recalls, total(recall_sent = 0) AS recalls_not_sent FROM run_ends WHERE to_seq IS NULL
),
{_FRAGILE.strip()}
SELECT {", ".join(f"CAST({name} AS INTEGER) AS {name}" for name in HEALTH_COUNTS)}
FROM stock, decided, won, spread, standing, corrected, compared, delivered, fragile
"""

_ITEMS_BY_SOURCE = """
SELECT c.src, s.state, count(*) AS items FROM item_states s JOIN candidates c ON c.text = s.text
WHERE s.to_seq IS NULL GROUP BY c.src, s.state
"""

HEALTH = Projection(
    name="health",
    version=2,
    title="Size, novelty, win rate and the firmness of what the bank knows, now and over time",
    handlers=dict.fromkeys(_KINDS, record_moment),
    tables=(MOMENTS, JUDGMENTS),
    views={"health_over_time": _HEALTH_OVER_TIME, "bank_health": _BANK_HEALTH, "items_by_source": _ITEMS_BY_SOURCE},
)
