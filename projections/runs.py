"""The projection `runs`: the task, outcome, cost and verdicts of each run.

A run exists from its first `run_started`. Its end and its costs may be recorded in any order, even before its start.
The latest `run_finished` holds, and costs of model calls are added up. Totals that no call recorded are taken from
`run_finished`.
"""

from __future__ import annotations

from operator import attrgetter

from rbank_es.events import LmCalled, RunFinished, RunStarted, StepTaken
from rbank_es.projections.projection import OF_RUN, Insert, Projection, Put, Table, words_of

STARTS = Table(
    name="run_starts",
    columns="""
        run TEXT NOT NULL, task TEXT, task_id TEXT, level INTEGER, family TEXT, suite TEXT, ontology TEXT,
        endpoint TEXT, executor TEXT, model TEXT, mode TEXT, scripted INTEGER NOT NULL, simulated INTEGER NOT NULL,
        rollout_group TEXT, rollout_index INTEGER, iterations_max INTEGER, started_at TEXT NOT NULL, imported_at TEXT
    """,
    key=("run",),
    bulky=True,
)
ENDS = Table(
    name="run_ends",
    columns="""
        run TEXT NOT NULL, outcome TEXT NOT NULL, iterations INTEGER, lm_calls INTEGER, tokens_in INTEGER,
        tokens_out INTEGER, cost_usd REAL, duration_s REAL, answer_chars INTEGER, error_code TEXT, answer TEXT,
        sparql TEXT, error TEXT, finished_at TEXT NOT NULL
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
STEPS = Table(
    name="run_steps",
    columns="run TEXT NOT NULL, step INTEGER NOT NULL",
    key=("run", "step"),
)


# The facts of an event that are columns of the same names and in the same order.
_STARTED = attrgetter(*(name for name in STARTS.types if name not in ("run", "task", "started_at", "imported_at")))
_FINISHED = attrgetter(*(name for name in ENDS.types if name not in ("answer", "sparql", "error", "finished_at")))


def record_start(event: RunStarted) -> tuple[Insert]:
    """Record the start of a run, unless it began before; where it was imported, also the time of that."""
    times = (event.occurred_at, event.at) if event.occurred_at else (event.at, None)
    row = (event.run, words_of(event.task), *_STARTED(event), *times, event.seq)
    return (Insert("run_starts", row),)


def record_end(event: RunFinished) -> tuple[Put]:
    """Record the end of a run; the latest holds."""
    texts = (words_of(event.answer), words_of(event.sparql), words_of(event.error))
    row = (*_FINISHED(event), *texts, event.occurred_at or event.at, event.seq)
    return (Put("run_ends", row),)


def record_call(event: LmCalled) -> tuple[Insert, ...]:
    """Record a call of a model, if it was made in a run."""
    if event.run is None:
        return ()
    return (Insert("lm_calls", (event.run, event.role, event.tokens_in, event.tokens_out, event.cost_usd, event.seq)),)


def record_step(event: StepTaken) -> tuple[Insert]:
    """Record a step of a run, once per index."""
    return (Insert("run_steps", (event.run, event.index, event.seq)),)


_RUNS = f"""
WITH spent AS (
    SELECT run, count(*) AS lm_calls, sum(tokens_in) AS tokens_in, sum(tokens_out) AS tokens_out,
        sum(cost_usd) AS cost_usd
    FROM lm_calls {OF_RUN} GROUP BY run
),
stepped AS (SELECT run, count(*) AS steps FROM run_steps {OF_RUN} GROUP BY run),
returned AS (SELECT run, count(*) AS tool_calls FROM tool_calls {OF_RUN} GROUP BY run),
built AS (SELECT run, max(items_n) AS items_injected FROM contexts {OF_RUN} GROUP BY run)
SELECT r.run, r.task, r.task_id, r.level, r.family, r.suite, r.ontology, r.endpoint, r.executor, r.model, r.mode,
    r.scripted, r.simulated, r.rollout_group, r.rollout_index, r.iterations_max,
    r.from_seq AS started_seq, r.started_at, r.imported_at, e.from_seq AS finished_seq, e.finished_at, e.outcome,
    coalesce(e.iterations, p.steps, 0) AS iterations,
    CASE WHEN c.run IS NULL THEN e.lm_calls ELSE c.lm_calls END AS lm_calls,
    CASE WHEN c.run IS NULL THEN e.tokens_in ELSE c.tokens_in END AS tokens_in,
    CASE WHEN c.run IS NULL THEN e.tokens_out ELSE c.tokens_out END AS tokens_out,
    CASE WHEN c.run IS NULL THEN e.cost_usd ELSE c.cost_usd END AS cost_usd,
    e.duration_s, e.answer_chars, e.error_code, e.answer, e.sparql, e.error,
    l.verdict, l.judge, l.kind, l.sure, s.verdict AS score,
    b.items_injected,
    coalesce(t.tool_calls, 0) AS tool_calls,
    coalesce(p.steps, 0) AS steps
FROM run_starts r
LEFT JOIN run_ends e ON e.run = r.run AND e.to_seq IS NULL
LEFT JOIN verdicts l ON l.run = r.run AND l.purpose = 'learning' AND l.to_seq IS NULL
LEFT JOIN verdicts s ON s.run = r.run AND s.purpose = 'scoring' AND s.to_seq IS NULL
LEFT JOIN spent c ON c.run = r.run
LEFT JOIN stepped p ON p.run = r.run
LEFT JOIN returned t ON t.run = r.run
LEFT JOIN built b ON b.run = r.run
"""

RUNS = Projection(
    name="runs",
    version=1,
    title="Runs: task, outcome, iterations, cost, verdicts",
    handlers={RunStarted: record_start, RunFinished: record_end, LmCalled: record_call, StepTaken: record_step},
    resolves=frozenset({"run_started", "run_finished"}),
    tables=(STARTS, ENDS, CALLS, STEPS),
    views={"runs": _RUNS},
)
