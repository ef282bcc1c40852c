"""The projection `memory_index`: every item with its states over time, and the full-text index of the active items.

Facts and states are rows; `projections/stored_memory.py` settles them, by the same code as the pure fold. Verdicts and
policies are here because states follow from them.

The full-text index holds exactly the active items. Documents of ended or later items would change the document
frequencies and average lengths in BM25, and so the scores of all others.
"""

from __future__ import annotations

from rbank_es.events import ConsolidationProposed
from rbank_es.law.fold_memory import MEMORY_HANDLERS
from rbank_es.projections.indexed_terms import index_stems, index_words
from rbank_es.projections.memory_tables import MEMORY_TABLES
from rbank_es.projections.paged_view import PagedView
from rbank_es.projections.projection import Projection
from rbank_es.projections.search_tables import (
    ACTIVE_TEXT_TABLES,
    POSTING_TABLES,
    index_active_texts,
)
from rbank_es.projections.statement_tables import (
    LIKENESS_RULE,
    STATEMENT_INDEXES,
    STATEMENT_TABLES,
    index_statements,
)
from rbank_es.projections.stem_tables import STEM_RULE, STEM_TABLES
from rbank_es.projections.stored_memory import StoredMemory
from rbank_es.projections.tokenizer import fts_ddl
from rbank_es.projections.usage import COUNTED

# The words of an item may move to another candidate, so what is compared is words, before the batch and now.
_TOUCHED = "(SELECT DISTINCT item FROM item_states WHERE from_seq > :after AND from_seq <= :upto) t"
_WAS = f"""
    SELECT o.text FROM {_TOUCHED} CROSS JOIN item_states o ON o.item = t.item
    WHERE o.state = 'active' AND o.from_seq <= :after AND (o.to_seq IS NULL OR o.to_seq > :after)
"""
_IS = f"""
    SELECT o.text FROM {_TOUCHED} CROSS JOIN item_states o ON o.item = t.item
    WHERE o.state = 'active' AND o.to_seq IS NULL
"""

# FTS5's 'delete' must be given the indexed words, or it corrupts the index: texts never change, so it always is. In
# order of rowid, because each step back makes FTS5 flush its pending terms.
_UNINDEX = f"""
INSERT INTO items_fts (items_fts, rowid, title, "desc", content, tags)
SELECT 'delete', text, title, "desc", content, tags FROM candidates WHERE text IN ({_WAS} EXCEPT {_IS}) ORDER BY text
"""
_INDEX = f"""
INSERT INTO items_fts (rowid, title, "desc", content, tags)
SELECT text, title, "desc", content, tags FROM candidates WHERE text IN ({_IS} EXCEPT {_WAS}) ORDER BY text
"""

# From exposures, by item, because SQLite would group all uses before it takes those of one item from `counted_uses`.
_JUDGED = f"""(
    SELECT count(DISTINCT u.run) FROM exposures u
    CROSS JOIN verdicts v ON v.run = u.run AND v.purpose = 'learning' AND v.to_seq IS NULL
    WHERE u.item = s.item AND {COUNTED} AND v.verdict = '{{verdict}}'
)"""

_WINS, _LOSSES = (_JUDGED.format(verdict=name) for name in ("success", "failure"))

# Of candidates in the item's own words, and of those that support it: in order, each once.
_DRAWN_FROM = """(
    SELECT json_group_array(run) FROM (
        SELECT r.value AS run FROM (
            SELECT extraction, text FROM candidates WHERE item = s.item
            UNION SELECT a.extraction, a.text FROM item_support p JOIN candidates a ON a.text = p.text
            WHERE p.item = s.item AND p.to_seq IS NULL
        ) d JOIN extractions e ON e.extraction = d.extraction AND e.to_seq IS NULL, json_each(e.runs) r
        GROUP BY r.value ORDER BY min(d.text), min(r.key)
    )
)"""

_NEAR_REJECTED = """(
    SELECT json_group_array(DISTINCT t.value) FROM candidates a
    JOIN decisions d ON d.text = a.text AND d.to_seq IS NULL, json_each(d.targets) t
    WHERE a.item = s.item AND s.state = 'pending' AND d.pending AND d.action = 'add'
)"""

ITEM_PAGES = PagedView(
    key="id",
    place="born_seq",
    base="item_states s",
    parts={"c": "JOIN candidates c ON c.text = s.text"},
    holds="s.to_seq IS NULL",
    columns={
        **{"id": "s.item", "title": "c.title", "desc": 'c."desc"', "content": "c.content", "src": "c.src"},
        **{"polarity": "c.polarity", "tags": "c.tags_json", "role": "c.role", "scope": "c.scope", "domain": "c.domain"},
        **{name: f"s.{name}" for name in ("domains", "vouched", "superseded_by", "state")},
        "support": "(SELECT count(*) FROM item_witnesses w WHERE w.item = s.item AND w.to_seq IS NULL)",
        "uses": f"(SELECT count(DISTINCT u.run) FROM exposures u WHERE u.item = s.item AND {COUNTED})",
        **{"wins": _WINS, "losses": _LOSSES},
        **{"born_seq": "s.born_seq", "ended_seq": "s.ended_seq", "extraction": "c.extraction", "erased": "c.erased"},
    },
    computed={
        "win_rate": f"round(1.0 * {_WINS} / nullif({_WINS} + {_LOSSES}, 0), 4)",
        "win_rate_low": f"wilson_end({_WINS}, {_WINS} + {_LOSSES}, 0)",
        "win_rate_high": f"wilson_end({_WINS}, {_WINS} + {_LOSSES}, 1)",
        **{"runs": _DRAWN_FROM, "near_rejected": _NEAR_REJECTED, "place": "c.place"},
    },
)
"""The items in every state, each with its words, its support, and its uses that count; on pages also the share of wins
with its interval, the runs that it was drawn from, the rejected items because of which it waits, and the place of its
words in their extraction."""

_DUE = "SELECT kind, id, place, from_seq AS since_seq FROM due_facts WHERE to_seq IS NULL"

# `landed`: the items that the candidate supports now, as a JSON list; empty unless it counts.
_CANDIDATE_DECISIONS = """
SELECT c.extraction, c.place, c.item, c.title, d.action, d.targets, d.pending, d.policy, d.undone, d.first_seq,
    d.from_seq AS since_seq,
    (SELECT json_group_array(p.item) FROM item_support p WHERE p.text = c.text AND p.to_seq IS NULL) AS landed
FROM candidates c LEFT JOIN decisions d ON d.text = c.text AND d.to_seq IS NULL
"""

# One row for each run that the extraction was drawn from or relies on, and one without where there is none.
_DRAWN = """
SELECT r.run, c.extraction, c.place, c.item, c.title, c.erased, c.from_seq AS seq, e.kind, e.relied, e.aside, e.stands,
    c.originals AS copy_of, d.action, d.undone, s.state
FROM candidates c
JOIN extractions e ON e.extraction = c.extraction AND e.to_seq IS NULL
LEFT JOIN relying r ON r.extraction = c.extraction
LEFT JOIN decisions d ON d.text = c.text AND d.to_seq IS NULL
LEFT JOIN item_states s ON s.item = c.item AND s.to_seq IS NULL
"""

_POLICIES = """
SELECT kind, name, version, settings, from_seq AS since_seq FROM policy_choices WHERE to_seq IS NULL
"""


MEMORY_INDEX = Projection(
    name="memory_index",
    version=6,
    rules=(LIKENESS_RULE, STEM_RULE),
    title="Items, what became of them and why, and the full-text index over the active ones",
    memory=StoredMemory,
    # A proposal is for the policy that decides: no state follows from it.
    handlers={cls: StoredMemory.changes for cls in MEMORY_HANDLERS if cls is not ConsolidationProposed},
    resolves=frozenset({"memories_extracted"}),
    tables=MEMORY_TABLES,
    indexes={
        "candidates_item": "candidates (item)",
        "relying_extraction": "relying (extraction)",
        "item_states_from_seq": "item_states (from_seq)",
        "item_states_text": "item_states (text)",
        "item_support_text": "item_support (text)",
        **STATEMENT_INDEXES,
    },
    settle=(_UNINDEX, _INDEX),
    paged={"items": ITEM_PAGES},
    views={
        "items": ITEM_PAGES.view,
        "candidate_decisions": _CANDIDATE_DECISIONS,
        "policies": _POLICIES,
        "due": _DUE,
        "drawn_candidates": _DRAWN,
    },
    indexers=(index_words, index_stems, index_active_texts, index_statements),
    virtual={
        "items_fts": fts_ddl("items_fts", "candidates"),
        **POSTING_TABLES,
        **STEM_TABLES,
        **ACTIVE_TEXT_TABLES,
        **STATEMENT_TABLES,
    },
    bulk_begin=("INSERT INTO items_fts (items_fts, rank) VALUES ('automerge', 0)",),
    bulk_end=("INSERT INTO items_fts (items_fts, rank) VALUES ('automerge', 4)",),
)
