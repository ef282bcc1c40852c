"""The projection `usage`: the runs in which each item was used, and those of them that were judged a success.

A use is a pair of item and run: the item was in the run's context, or was read there in full; a quotation is none. The
attribution policy in force says which of the two ways counts, for all runs up to the position of the view; an item of a
context that is in `recall_unsent` of the run's latest end was in no request of the agent, and counts for nothing there.
A win is a use that counts and whose run's standing learning verdict is success, a loss one where it is failure;
undecided is neither. They are joins, not counters, because a verdict may be overruled later, or come before the use,
and because the policy may change.

    uses          every use, with the position of the first way in which the run was given the item
    counted_uses  those that count
    item_usage    uses that count, wins and losses by item
    item_exposures  every way in which a run was given an item: injected, or read in full
    judged_runs   runs that were decided about for learning, each with its ontology or endpoint, the family and
                  level of its task, the quarter of the bank's runs in which it began (1 to 4), and whether it was won
"""

from __future__ import annotations

from rbank_es.events import ContextBuilt, MemoriesRead, given_items
from rbank_es.projections.projection import Insert, Projection, Table

EXPOSURES = Table(  # `way` is injected or read; a row for each way, at its first time
    name="exposures", columns="item TEXT NOT NULL, run TEXT NOT NULL, way TEXT NOT NULL", key=("item", "run", "way")
)


def record_injected(event: ContextBuilt) -> list[Insert]:
    """Record a use of each item in the context."""
    return [Insert("exposures", (item, event.run, "injected", event.seq)) for item in given_items(event)]


def record_read(event: MemoriesRead) -> list[Insert]:
    """Record a use of each item that was read in full."""
    return [Insert("exposures", (item, event.run, "read", event.seq)) for item in given_items(event)]


# As `rbank_es.law.counted_uses`: a setting that is not known counts either way.
_COUNTED_AT = """u.way = coalesce((
    SELECT json_extract(settings, '$.counted') FROM {main}policy_choices
    WHERE kind = 'attribution' AND {holds} AND json_extract(settings, '$.counted') IN ('injected', 'read')
), u.way) AND (u.way = 'read' OR NOT EXISTS (
    SELECT 1 FROM {main}run_ends n, json_each(n.recall_unsent) t WHERE n.run = u.run AND {holds} AND t.value = u.item
))"""


def counted_at(holds: str, main: str = "") -> str:
    """Return the condition on `exposures u` under which a use counts: by the attribution policy, and sent if injected.

    `holds` is that on rows that hold then, `main` the prefix of tables.
    """
    return _COUNTED_AT.format(holds=holds, main=main)


COUNTED = counted_at("to_seq IS NULL")
"""The condition of now."""

_USES = "SELECT item, run, min(from_seq) AS from_seq FROM exposures GROUP BY item, run"

_EXPOSED = "SELECT item, run, way, from_seq AS seq FROM exposures"

_COUNTED = f"SELECT item, run, min(from_seq) AS from_seq FROM exposures u WHERE {COUNTED} GROUP BY item, run"


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
FROM counted_uses u LEFT JOIN verdicts v ON v.run = u.run AND v.purpose = 'learning' AND v.to_seq IS NULL
    AND v.verdict <> 'undecided'
GROUP BY u.item
"""

_JUDGED_RUNS = """
SELECT r.run, r.ontology, r.endpoint, r.family, r.level, r.quarter, v.verdict = 'success' AS won
FROM (
    SELECT run, ontology, endpoint, family, level,
        (row_number() OVER (ORDER BY from_seq) - 1) * 4 / count(*) OVER () + 1 AS quarter
    FROM run_starts
) r JOIN verdicts v ON v.run = r.run AND v.purpose = 'learning' AND v.to_seq IS NULL AND v.verdict <> 'undecided'
"""

USAGE = Projection(
    name="usage",
    version=1,
    title="Uses, wins and losses of items",
    handlers={ContextBuilt: record_injected, MemoriesRead: record_read},
    tables=(EXPOSURES,),
    views={
        "uses": _USES,
        "item_exposures": _EXPOSED,
        "counted_uses": _COUNTED,
        "item_usage": _ITEM_USAGE,
        "judged_runs": _JUDGED_RUNS,
    },
)
