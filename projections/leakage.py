"""The projection `leakage`: the characters, per run and tool, that reached a prompt instead of staying behind a handle.

All sizes are in characters. A red flag marks a tool call that returned more than 1,000, more than 3 injected memory
items, and a context larger than 4,000. A size that was not recorded is NULL, not 0.
"""

from __future__ import annotations

from rbank_es import limits
from rbank_es.events import ContextBuilt, StepTaken, ToolCalled
from rbank_es.projections.projection import OF_RUN, Insert, Projection, Table

TOOL_CALLS = Table(
    name="tool_calls",
    columns="""
        run TEXT NOT NULL, tool TEXT NOT NULL, chars INTEGER, truncated INTEGER NOT NULL, failed INTEGER NOT NULL
    """,
    key=("run", "from_seq"),
)
CONTEXTS = Table(
    name="contexts",
    columns="run TEXT NOT NULL, chars INTEGER NOT NULL, items_n INTEGER NOT NULL",
    key=("run", "from_seq"),
)
STEP_SIZES = Table(
    name="step_sizes",
    columns="""
        run TEXT NOT NULL, stdout_chars INTEGER, prompt_chars INTEGER, variables_n INTEGER, variables_chars INTEGER
    """,
    key=("run", "from_seq"),
)


def record_call(event: ToolCalled) -> tuple[Insert]:
    """Record the size of a tool's return."""
    failed = 1 if event.error_code is not None or event.error is not None else 0
    row = (event.run, event.tool, event.chars, 1 if event.truncated else 0, failed, event.seq)
    return (Insert("tool_calls", row),)


def record_context(event: ContextBuilt) -> tuple[Insert]:
    """Record the size of a run's context."""
    return (Insert("contexts", (event.run, event.chars, len(event.items), event.seq)),)


def record_step(event: StepTaken) -> tuple[Insert]:
    """Record the sizes of a step's output, prompt and variables."""
    sizes = (event.stdout_chars, event.prompt_chars, event.variables_n, event.variables_chars)
    return (Insert("step_sizes", (event.run, *sizes, event.seq)),)


_MEASURES = f"""
    count(*) AS calls,
    sum(failed) AS errors,
    sum(chars) AS total_chars_returned,
    max(chars) AS max_single_return,
    count(CASE WHEN chars > {limits.FLAG_RETURN_CHARS} THEN 1 END) AS large_returns,
    sum(truncated) AS truncated
"""

_BY_TOOL = f"SELECT tool, {_MEASURES} FROM tool_calls GROUP BY tool"
_BY_RUN_AND_TOOL = f"SELECT run, tool, {_MEASURES} FROM tool_calls GROUP BY run, tool"

_RED_FLAGS = f"""
SELECT run, 'single_return' AS flag, chars AS value, {limits.FLAG_RETURN_CHARS} AS threshold, from_seq AS seq, tool
FROM tool_calls WHERE chars > {limits.FLAG_RETURN_CHARS}
UNION ALL
SELECT run, 'items_injected', items_n, {limits.FLAG_ITEMS_INJECTED}, from_seq, NULL
FROM contexts WHERE items_n > {limits.FLAG_ITEMS_INJECTED}
UNION ALL
SELECT run, 'context_size', chars, {limits.FLAG_CONTEXT_CHARS}, from_seq, NULL
FROM contexts WHERE chars > {limits.FLAG_CONTEXT_CHARS}
"""

_BY_RUN = f"""
WITH returned AS (SELECT run, {_MEASURES} FROM tool_calls {OF_RUN} GROUP BY run),
sizes AS (
    SELECT run, sum(stdout_chars) AS stdout_chars, max(prompt_chars) AS prompt_chars_max,
        max(variables_n) AS variables_n, max(variables_chars) AS variables_chars
    FROM step_sizes {OF_RUN} GROUP BY run
),
built AS (
    SELECT run, max(items_n) AS items, max(chars) AS chars,
        sum(items_n > {limits.FLAG_ITEMS_INJECTED}) + sum(chars > {limits.FLAG_CONTEXT_CHARS}) AS flags
    FROM contexts {OF_RUN} GROUP BY run
),
subcalls AS (SELECT run, sum(role = 'sub') AS n FROM lm_calls {OF_RUN} GROUP BY run),
stepped AS (SELECT run, count(*) AS n FROM run_steps {OF_RUN} GROUP BY run)
SELECT r.run, r.from_seq AS started_seq,
    CASE WHEN t.run IS NULL THEN 0 ELSE t.total_chars_returned END AS total_chars_returned,
    CASE WHEN t.run IS NULL THEN 0 ELSE t.max_single_return END AS max_single_return,
    coalesce(t.large_returns, 0) AS large_returns,
    z.stdout_chars, z.variables_n, z.variables_chars,
    coalesce(s.n, 0) AS subcalls,
    b.items AS memory_items_injected,
    b.chars AS context_size,
    z.prompt_chars_max,
    coalesce(e.iterations, p.n, 0) AS iterations,
    coalesce(t.calls, 0) AS tool_calls,
    coalesce(t.large_returns, 0) + coalesce(b.flags, 0) AS red_flags
FROM run_starts r
LEFT JOIN run_ends e ON e.run = r.run AND e.to_seq IS NULL
LEFT JOIN returned t ON t.run = r.run
LEFT JOIN sizes z ON z.run = r.run
LEFT JOIN built b ON b.run = r.run
LEFT JOIN subcalls s ON s.run = r.run
LEFT JOIN stepped p ON p.run = r.run
"""

LEAKAGE = Projection(
    name="leakage",
    version=1,
    title="What tools, contexts and steps put before the model, with red flags",
    handlers={ToolCalled: record_call, ContextBuilt: record_context, StepTaken: record_step},
    tables=(TOOL_CALLS, CONTEXTS, STEP_SIZES),
    views={
        "leakage_by_run": _BY_RUN,
        "leakage_by_tool": _BY_TOOL,
        "leakage_by_run_and_tool": _BY_RUN_AND_TOOL,
        "red_flags": _RED_FLAGS,
    },
)
