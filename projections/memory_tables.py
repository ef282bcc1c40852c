"""The tables of the projection `memory_index`: the facts of memory, and the states of items that follow from them."""

from __future__ import annotations

from rbank_es.projections.projection import Table

CANDIDATES = Table(  # `originals` is a JSON list: the extractions of which it is a copy
    name="candidates",
    number="text",
    columns="""
        extraction TEXT NOT NULL, place INTEGER NOT NULL, item TEXT NOT NULL, title TEXT NOT NULL, desc TEXT NOT NULL,
        content TEXT NOT NULL, tags TEXT NOT NULL, tags_json TEXT NOT NULL, src TEXT NOT NULL, polarity TEXT NOT NULL,
        role TEXT, scope TEXT NOT NULL, domain TEXT, erased INTEGER NOT NULL, originals TEXT NOT NULL
    """,
    key=("extraction", "place"),
    bulky=True,
)
EXTRACTIONS = Table(  # `runs` and `witnesses` are JSON lists, `relied` and `aside` JSON lists of run and verdict
    name="extractions",
    columns="""
        extraction TEXT NOT NULL, kind TEXT NOT NULL, pending INTEGER NOT NULL, size INTEGER NOT NULL,
        extracted_seq INTEGER NOT NULL, runs TEXT NOT NULL, relied TEXT NOT NULL, aside TEXT NOT NULL,
        witnesses TEXT NOT NULL, stands INTEGER NOT NULL
    """,
    key=("extraction", "from_seq"),
    current=1,
)
RELYING = Table(  # the extractions that were drawn from a run or rely on a verdict on it, in order
    name="relying",
    columns="run TEXT NOT NULL, number INTEGER NOT NULL, extraction TEXT NOT NULL",
    key=("run", "number"),
)
COPIES = Table(  # the candidates that are copies of those of an extraction, be it known here or not
    name="copies",
    columns="original TEXT NOT NULL, text INTEGER NOT NULL",
    key=("original", "text"),
)
DECISIONS = Table(  # the decisions in force
    name="decisions",
    columns="""
        text INTEGER NOT NULL, action TEXT NOT NULL, targets TEXT NOT NULL, pending INTEGER NOT NULL,
        first_seq INTEGER NOT NULL, policy TEXT NOT NULL, undone INTEGER NOT NULL, undoing_time TEXT NOT NULL,
        undoing TEXT NOT NULL
    """,
    key=("text", "from_seq"),
    current=1,
)
DECISION_TARGETS = Table(  # of decisions that put their candidate on a target, or end it
    name="decision_targets",
    columns="target TEXT NOT NULL, text INTEGER NOT NULL",
    key=("target", "text", "from_seq"),
    current=2,
)
VERDICTS = Table(  # the standing ones
    name="verdicts",
    columns="""
        run TEXT NOT NULL, purpose TEXT NOT NULL, verdict TEXT NOT NULL, judge TEXT NOT NULL,
        judge_version TEXT NOT NULL, kind TEXT NOT NULL, sure INTEGER NOT NULL, confidence REAL,
        overruled INTEGER NOT NULL, rank INTEGER NOT NULL, judged_seq INTEGER NOT NULL, judged_time TEXT NOT NULL,
        judgment TEXT NOT NULL
    """,
    key=("run", "purpose", "from_seq"),
    current=2,
)
CHOICES = Table(
    name="policy_choices",
    columns="kind TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, settings TEXT NOT NULL",
    key=("kind", "from_seq"),
    current=1,
)
ACTS = Table(  # those that counted when they were recorded
    name="item_acts",
    columns="""
        item TEXT NOT NULL, act TEXT NOT NULL, acted_seq INTEGER NOT NULL, acted_time TEXT NOT NULL, event TEXT NOT NULL
    """,
    key=("item", "from_seq"),
)
FORGOTTEN = Table(name="forgotten_items", columns="item TEXT NOT NULL", key=("item", "from_seq"), current=1)
PREPARED = Table(  # parts of corrections that aren't completed: JSON of events without their texts
    name="prepared_parts",
    columns="correction TEXT NOT NULL, part INTEGER NOT NULL, event TEXT NOT NULL",
    key=("correction", "part"),
    current=2,
    bulky=True,
)
DUE = Table(
    name="due_facts",
    columns="kind TEXT NOT NULL, id TEXT NOT NULL, place INTEGER NOT NULL",
    key=("kind", "id", "place", "from_seq"),
    current=3,
)
STATES = Table(  # `text` has the words; `domains` and `superseded_by` are JSON lists
    name="item_states",
    columns="""
        item TEXT NOT NULL, state TEXT NOT NULL, born_seq INTEGER NOT NULL, ended_seq INTEGER, text INTEGER NOT NULL,
        vouched INTEGER NOT NULL, domains TEXT NOT NULL, superseded_by TEXT NOT NULL
    """,
    key=("item", "from_seq"),
    current=1,
)
SUPPORT = Table(  # the candidates that landed on an item and count
    name="item_support",
    columns="item TEXT NOT NULL, text INTEGER NOT NULL",
    key=("item", "text", "from_seq"),
    current=2,
)
WITNESSES = Table(  # the runs, and the extractions without one, of these candidates: support is their number
    name="item_witnesses",
    columns="item TEXT NOT NULL, witness TEXT NOT NULL",
    key=("item", "witness", "from_seq"),
    current=2,
)

MEMORY_TABLES = (
    CANDIDATES,
    EXTRACTIONS,
    RELYING,
    COPIES,
    DECISIONS,
    DECISION_TARGETS,
    VERDICTS,
    CHOICES,
    ACTS,
    FORGOTTEN,
    PREPARED,
    DUE,
    STATES,
    SUPPORT,
    WITNESSES,
)
