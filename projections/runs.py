"""The projection `runs`: the task, outcome, cost and verdicts of each run.

A run exists from its first `run_started`. Its end and its costs may be recorded in any order, even before its start.
The latest `run_finished` holds, and costs of model calls are added up. Totals that no call recorded are taken from
`run_finished`.
"""

from __future__ import annotations

from operator import attrgetter

from rbank_es.events import LmCalled, RunFinished, RunStarted, StepTaken
from rbank_es.events.codec import encode_json
from rbank_es.projections.leakage_rows import CONTEXT_FLAGS, LARGE_RETURNS
from rbank_es.projections.paged_view import OF_RUN, PagedView
from rbank_es.projections.projection import Insert, Projection, Put, Table, words_of

STARTS = Table(
    name="run_starts",
    columns="""
        run TEXT NOT NULL, task TEXT, task_id TEXT, level INTEGER, family TEXT, suite TEXT, ontology TEXT,
        endpoint TEXT, executor TEXT, model TEXT, mode TEXT, scripted INTEGER NOT NULL, simulated INTEGER NOT NULL,
        rollout_group TEXT, rollout_index INTEGER, iterations_max INTEGER, experiment TEXT,
        condition TEXT, started_at TEXT NOT NULL, imported_at TEXT
    """,
    key=("run",),
    bulky=True,
)
ENDS = Table(
    name="run_ends",
    columns="""
        run TEXT NOT NULL, outcome TEXT NOT NULL, iterations INTEGER, lm_calls INTEGER, tokens_in INTEGER,
        tokens_out INTEGER, cost_usd REAL, duration_s REAL, answer_chars INTEGER, error_code TEXT,
        recall_sent INTEGER, recall_unsent TEXT, answer TEXT, sparql TEXT, error TEXT, finished_at TEXT NOT NULL
    """,
    key=("run", "from_seq"),
    current=1,
    bulky=True,
)
CALLS = Table(
    name="lm_calls",
    columns="run TEXT NOT NULL, role TEXT NOT NULL, tokens_in INTEGER, tokens_out INTEGER, cost_usd REAL",
    key=("run", "from_seq"),
)
STEPS = Table(name="run_steps", columns="run TEXT NOT NULL, step INTEGER NOT NULL", key=("run", "step"))


# The facts of an event that are columns of the same names and in the same order.
_COMPUTED = ("run", "task", "experiment", "condition", "started_at", "imported_at")
_STARTED = attrgetter(*(name for name in STARTS.types if name not in _COMPUTED))
_TEXTS_OF_END = ("recall_unsent", "answer", "sparql", "error", "finished_at")
_FINISHED = attrgetter(*(name for name in ENDS.types if name not in _TEXTS_OF_END))

_OF_END = ("duration_s", "answer_chars", "error_code", "recall_sent")
"""Columns of `run_ends` that no call of a model replaces."""


def record_start(event: RunStarted) -> tuple[Insert]:
    """Record the start of a run, unless it began before; where it was imported, also the time of that."""
    times = (event.occurred_at, event.at) if event.occurred_at else (event.at, None)
    trial = (event.trial.experiment, event.trial.condition) if event.trial else (None, None)
    row = (event.run, words_of(event.task), *_STARTED(event), *trial, *times, event.seq)
    return (Insert("run_starts", row),)


def record_end(event: RunFinished) -> tuple[Put]:
    """Record the end of a run; the latest holds."""
    texts = (words_of(event.answer), words_of(event.sparql), words_of(event.error))
    unsent = encode_json(event.recall_unsent).decode() if event.recall_unsent else None
    row = (*_FINISHED(event), unsent, *texts, event.occurred_at or event.at, event.seq)
    return (Put("run_ends", row),)


def record_call(event: LmCalled) -> tuple[Insert, ...]:
    """Record a call of a model, if it was made in a run."""
    if event.run is None:
        return ()
    return (Insert("lm_calls", (event.run, event.role, event.tokens_in, event.tokens_out, event.cost_usd, event.seq)),)


def record_step(event: StepTaken) -> tuple[Insert]:
    """Record a step of a run, once per index."""
    return (Insert("run_steps", (event.run, event.index, event.seq)),)


# Unknown where neither part is known, and the known part where one is.
_SUM = "coalesce({0}.tokens_in + {0}.tokens_out, {0}.tokens_in, {0}.tokens_out)"

RUN_PAGES = PagedView(
    key="run",
    place="started_seq",
    base="run_starts r",
    tables={
        "spent": f"""
            SELECT run, count(*) AS lm_calls, sum(tokens_in) AS tokens_in, sum(tokens_out) AS tokens_out,
                sum(cost_usd) AS cost_usd
            FROM lm_calls {OF_RUN} GROUP BY run""",
        "stepped": f"SELECT run, count(*) AS steps FROM run_steps {OF_RUN} GROUP BY run",
        "returned": f"SELECT run, count(*) AS tool_calls, {LARGE_RETURNS} FROM tool_calls {OF_RUN} GROUP BY run",
        "built": f"SELECT run, max(items_n) AS items_injected, {CONTEXT_FLAGS} FROM contexts {OF_RUN} GROUP BY run",
    },
    parts={
        "e": "LEFT JOIN run_ends e ON e.run = r.run AND e.to_seq IS NULL",
        "l": "LEFT JOIN verdicts l ON l.run = r.run AND l.purpose = 'learning' AND l.to_seq IS NULL",
        "s": "LEFT JOIN verdicts s ON s.run = r.run AND s.purpose = 'scoring' AND s.to_seq IS NULL",
        "c": "LEFT JOIN spent c ON c.run = r.run",
        "p": "LEFT JOIN stepped p ON p.run = r.run",
        "t": "LEFT JOIN returned t ON t.run = r.run",
        "b": "LEFT JOIN built b ON b.run = r.run",
    },
    columns={
        **{name: f"r.{name}" for name in STARTS.types if name not in ("started_at", "imported_at")},
        **{"started_seq": "r.from_seq", "started_at": "r.started_at", "imported_at": "r.imported_at"},
        **{"finished_seq": "e.from_seq", "finished_at": "e.finished_at", "outcome": "e.outcome"},
        "iterations": "coalesce(e.iterations, p.steps, 0)",
        **{
            name: f"CASE WHEN c.run IS NULL THEN e.{name} ELSE c.{name} END"
            for name in ("lm_calls", "tokens_in", "tokens_out", "cost_usd")
        },
        **{name: f"e.{name}" for name in (*_OF_END, "answer", "sparql", "error")},
        **{"verdict": "l.verdict", "judge": "l.judge", "kind": "l.kind", "sure": "l.sure", "rank": "l.rank"},
        "overruled": "l.overruled",
        **{"judged_seq": "l.judged_seq", "score": "s.verdict", "scored_seq": "s.judged_seq"},
        "tokens": f"CASE WHEN c.run IS NULL THEN {_SUM.format('e')} ELSE {_SUM.format('c')} END",
        "items_injected": "b.items_injected",
        "tool_calls": "coalesce(t.tool_calls, 0)",
        "steps": "coalesce(p.steps, 0)",
        "red_flags": "coalesce(t.large_returns, 0) + coalesce(b.flags, 0)",
    },
)
"""The runs, each with its end, its costs and the verdicts that stand."""

RUNS = Projection(
    name="runs",
    version=2,
    title="Runs: task, outcome, iterations, cost, verdicts",
    handlers={RunStarted: record_start, RunFinished: record_end, LmCalled: record_call, StepTaken: record_step},
    resolves=frozenset({"run_started", "run_finished"}),
    tables=(STARTS, ENDS, CALLS, STEPS),
    indexes={"run_starts_from_seq": "run_starts (from_seq)"},
    views={"runs": RUN_PAGES.view},
    paged={"runs": RUN_PAGES},
)
