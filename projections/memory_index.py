"""The projection `memory_index`: every item with its states over time, and the full-text index of the active items.

Candidates and decisions are kept as the events have them. Births, support and states depend on earlier rows, so they
are settled in SQL: an item is born once; only decisions about a candidate that was extracted before, under the item's
own id, count; only an item that was born can end.

The full-text index holds exactly the active items. Documents of ended or later items would change the document
frequencies and average lengths in BM25, and so the scores of all others.
"""

from __future__ import annotations

from collections.abc import Iterator

from rbank_es.events import (
    DecisionUndone,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
)
from rbank_es.events.items import ItemText
from rbank_es.projections.projection import Insert, Projection, Table, json_of

FTS_COLUMNS = ("title", "desc", "content", "tags")
"""The columns of the full-text index, in the order of a retrieval policy's weights."""

TOKENIZER = "porter unicode61"

CANDIDATES = Table(
    name="candidates",
    number="text",
    columns="""
        extraction TEXT NOT NULL, place INTEGER NOT NULL, item TEXT NOT NULL, title TEXT NOT NULL, desc TEXT NOT NULL,
        content TEXT NOT NULL, tags TEXT NOT NULL, tags_json TEXT NOT NULL, src TEXT NOT NULL, polarity TEXT NOT NULL,
        role TEXT, scope TEXT NOT NULL, domain TEXT, erased INTEGER NOT NULL
    """,
    key=("extraction", "place"),
    bulky=True,
)
DECISIONS = Table(  # one row per target; `nth` 0 is the decision itself
    name="decisions",
    columns="""
        number INTEGER NOT NULL, nth INTEGER NOT NULL, extraction TEXT NOT NULL, place INTEGER NOT NULL,
        action TEXT NOT NULL, item TEXT NOT NULL, target TEXT
    """,
    key=("from_seq", "number", "nth"),
)
TURNS = Table(  # states that other events than consolidations give to items, known or not
    name="item_turns",
    columns="number INTEGER NOT NULL, item TEXT NOT NULL, state TEXT NOT NULL",
    key=("from_seq", "number"),
)
BIRTHS = Table(
    name="item_births",
    columns="item TEXT NOT NULL, text INTEGER NOT NULL",
    key=("item",),
)
SUPPORT = Table(
    name="item_support",
    columns="item TEXT NOT NULL, text INTEGER NOT NULL",
    key=("item", "text"),
)
STATES = Table(
    name="item_states",
    columns="item TEXT NOT NULL, state TEXT NOT NULL",
    key=("item", "from_seq"),
)

_NO_TEXT = ItemText(title="")


def record_extraction(event: MemoriesExtracted) -> Iterator[Insert]:
    """Record the candidates of an extraction, in order; a surplus of heads or of texts is dropped."""
    for place, (head, given) in enumerate(zip(event.heads, event.candidates, strict=False)):
        words = given if isinstance(given, ItemText) else _NO_TEXT
        yield Insert(
            "candidates",
            (
                event.id,
                place,
                head.id,
                words.title,
                words.desc,
                words.content,
                "\n".join(words.tags),
                json_of(words.tags),
                head.src,
                head.polarity,
                head.role,
                head.scope,
                head.domain,
                int(words is not given),
                event.seq,
            ),
        )


def record_decisions(event: MemoriesConsolidated) -> Iterator[Insert]:
    """Record the decisions of a consolidation, each with its targets."""
    for number, decision in enumerate(event.decisions):
        facts = (event.extraction, decision.candidate, decision.action, decision.item)
        for nth, target in enumerate(decision.targets or (None,)):
            yield Insert("decisions", (number, nth, *facts, target, event.seq))


def _turns(seq: int, turns: list[tuple[str, str]]) -> list[Insert]:
    return [Insert("item_turns", (number, item, state, seq)) for number, (item, state) in enumerate(turns)]


def record_forgotten(event: MemoriesForgotten) -> list[Insert]:
    """Record items that a policy ended."""
    return _turns(event.seq, [(item, "forgotten") for item in event.ids])


def record_retracted(event: MemoriesRetracted) -> list[Insert]:
    """Record items that were withdrawn."""
    return _turns(event.seq, [(item, "retracted") for item in event.ids])


def record_restored(event: MemoriesRestored) -> list[Insert]:
    """Record items that are active again."""
    return _turns(event.seq, [(item, "active") for item in event.ids])


def record_undone(event: DecisionUndone) -> list[Insert]:
    """Record nothing."""
    return []


# CROSS JOIN fixes the order of the loops: from the few decisions of a batch to the candidate of each, by key.
_KNOWN_DECISIONS = """
    decisions d CROSS JOIN candidates c
    ON c.extraction = d.extraction AND c.place = d.place AND c.item = d.item AND c.from_seq < d.from_seq
"""

_BEAR = f"""
INSERT INTO item_births (item, text, from_seq)
SELECT d.item, c.text, d.from_seq FROM {_KNOWN_DECISIONS}
WHERE d.from_seq > :after AND d.from_seq <= :upto AND d.nth = 0 AND d.action IN ('add', 'merge', 'supersede')
ORDER BY d.from_seq, d.number
ON CONFLICT DO NOTHING
"""

_SUPPORT = f"""
INSERT INTO item_support (item, text, from_seq)
SELECT b.item, c.text, d.from_seq FROM {_KNOWN_DECISIONS} CROSS JOIN item_births b
ON b.item = CASE d.action WHEN 'skip' THEN coalesce(d.target, d.item) ELSE d.item END AND b.from_seq <= d.from_seq
WHERE d.from_seq > :after AND d.from_seq <= :upto AND d.action <> 'discard' AND (d.nth = 0 OR d.action = 'skip')
ORDER BY d.from_seq, d.number, d.nth
ON CONFLICT DO NOTHING
"""

# An item's new states are put in order after its state before the batch (number -2) or after its birth (-1). A state
# that repeats the one before it is no change; of several changes in one event the last one holds.
_TURN = f"""
INSERT INTO item_states (item, state, from_seq, to_seq)
WITH said (item, state, seq, number, nth) AS (
    SELECT item, 'active', from_seq, -1, 0 FROM item_births WHERE from_seq > :after AND from_seq <= :upto
    UNION ALL
    SELECT d.target, CASE d.action WHEN 'merge' THEN 'merged' ELSE 'superseded' END, d.from_seq, d.number, d.nth
    FROM {_KNOWN_DECISIONS}
    WHERE d.from_seq > :after AND d.from_seq <= :upto AND d.action IN ('merge', 'supersede') AND d.target IS NOT NULL
    UNION ALL
    SELECT item, state, from_seq, number, 0 FROM item_turns WHERE from_seq > :after AND from_seq <= :upto
),
counting AS (
    SELECT s.* FROM said s CROSS JOIN item_births b ON b.item = s.item AND b.from_seq <= s.seq
),
story AS (
    SELECT * FROM counting
    UNION ALL
    SELECT o.item, o.state, o.from_seq, -2, 0
    FROM (SELECT DISTINCT item FROM counting) t CROSS JOIN item_states o ON o.item = t.item AND o.to_seq IS NULL
),
steps AS (
    SELECT *, lag(state) OVER (PARTITION BY item ORDER BY seq, number, nth) AS before FROM story
),
changes AS (
    SELECT *, lead(seq) OVER (PARTITION BY item ORDER BY seq, number, nth) AS until
    FROM steps WHERE before IS NOT state
)
SELECT item, state, seq, until FROM changes WHERE seq > :after AND (until IS NULL OR until > seq)
ORDER BY item, seq
"""

_END = """
UPDATE item_states SET to_seq = (
    SELECT min(n.from_seq) FROM item_states n WHERE n.item = item_states.item AND n.from_seq > item_states.from_seq
)
WHERE to_seq IS NULL AND from_seq <= :after
AND item IN (SELECT item FROM item_states WHERE from_seq > :after AND from_seq <= :upto)
"""

_TOUCHED = """(SELECT DISTINCT item FROM item_states WHERE from_seq > :after AND from_seq <= :upto) t"""
_WAS_ACTIVE = """EXISTS (
    SELECT 1 FROM item_states o
    WHERE o.item = t.item AND o.state = 'active' AND o.from_seq <= :after AND (o.to_seq IS NULL OR o.to_seq > :after)
)"""
_IS_ACTIVE = """EXISTS (
    SELECT 1 FROM item_states o WHERE o.item = t.item AND o.state = 'active' AND o.to_seq IS NULL
)"""

# FTS5's 'delete' must be given the indexed words, or it corrupts the index: texts never change, so it always is. In
# order of rowid, because each step back makes FTS5 flush its pending terms.
_UNINDEX = f"""
INSERT INTO items_fts (items_fts, rowid, title, "desc", content, tags)
SELECT 'delete', text, title, "desc", content, tags FROM candidates WHERE text IN (
    SELECT b.text FROM {_TOUCHED} CROSS JOIN item_births b ON b.item = t.item WHERE {_WAS_ACTIVE} AND NOT {_IS_ACTIVE}
) ORDER BY text
"""
_INDEX = f"""
INSERT INTO items_fts (rowid, title, "desc", content, tags)
SELECT text, title, "desc", content, tags FROM candidates WHERE text IN (
    SELECT b.text FROM {_TOUCHED} CROSS JOIN item_births b ON b.item = t.item WHERE {_IS_ACTIVE} AND NOT {_WAS_ACTIVE}
) ORDER BY text
"""

_ITEMS = """
SELECT b.item AS id, c.title, c."desc", c.content, c.src, c.polarity, c.tags_json AS tags, c.role, c.scope, c.domain,
    s.state,
    (SELECT count(*) FROM item_support p WHERE p.item = b.item) AS support,
    (SELECT count(*) FROM uses u WHERE u.item = b.item) AS uses,
    (SELECT count(*) FROM uses u JOIN verdicts v ON v.run = u.run AND v.purpose = 'learning' AND v.to_seq IS NULL
     WHERE u.item = b.item AND v.verdict = 'success') AS wins,
    b.from_seq AS born_seq,
    CASE WHEN s.state <> 'active' THEN s.from_seq END AS ended_seq,
    c.extraction, c.erased
FROM item_births b JOIN candidates c ON c.text = b.text JOIN item_states s ON s.item = b.item AND s.to_seq IS NULL
"""


def fts_ddl(name: str, content: str) -> str:
    """Return the statement that creates a full-text index like the live one; `content` names its text table, if any."""
    columns = ", ".join(f'"{column}"' for column in FTS_COLUMNS)
    rowid = ", content_rowid='text'" if content else ""
    return f"CREATE VIRTUAL TABLE {name} USING fts5({columns}, content='{content}'{rowid}, tokenize='{TOKENIZER}')"


MEMORY_INDEX = Projection(
    name="memory_index",
    version=1,
    title="Items, what became of them, and the full-text index over the active ones",
    handlers={
        MemoriesExtracted: record_extraction,
        MemoriesConsolidated: record_decisions,
        MemoriesForgotten: record_forgotten,
        MemoriesRetracted: record_retracted,
        MemoriesRestored: record_restored,
        DecisionUndone: record_undone,
    },
    resolves=frozenset({"memories_extracted"}),
    tables=(CANDIDATES, DECISIONS, TURNS, BIRTHS, SUPPORT, STATES),
    indexes={
        "item_births_from_seq": "item_births (from_seq)",
        "item_births_text": "item_births (text)",
        "item_states_from_seq": "item_states (from_seq)",
    },
    settle=(_BEAR, _SUPPORT, _TURN, _END, _UNINDEX, _INDEX),
    views={"items": _ITEMS},
    virtual={"items_fts": fts_ddl("items_fts", "candidates")},
    bulk_begin=("INSERT INTO items_fts (items_fts, rank) VALUES ('automerge', 0)",),
    bulk_end=("INSERT INTO items_fts (items_fts, rank) VALUES ('automerge', 4)",),
)
