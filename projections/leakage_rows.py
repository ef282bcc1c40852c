"""The projection `leakage`: the characters, per run and tool, that reached a prompt instead of staying behind a handle.

All sizes are in characters. A red flag marks a tool call that returned more than 1,000, and more than 3 injected memory
items. It also marks a context larger than 4,000, and a layer L2 that was allowed more than 600. A size that was not
recorded is NULL, not 0.
"""

from __future__ import annotations

from rbank_es import limits
from rbank_es.events import ContextBuilt, StepTaken, ToolCalled
from rbank_es.projections.paged_view import OF_RUN, PagedView
from rbank_es.projections.projection import Insert, Projection, Table

TOOL_CALLS = Table(
    name="tool_calls",
    columns="""
        run TEXT NOT NULL, tool TEXT NOT NULL, chars INTEGER, truncated INTEGER NOT NULL, failed INTEGER NOT NULL
    """,
    key=("run", "from_seq"),
)
CONTEXTS = Table(
    name="contexts",
    columns="run TEXT NOT NULL, chars INTEGER NOT NULL, items_n INTEGER NOT NULL, l2_budget INTEGER",
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
    """Record the size of a run's context, and what its layer L2 was allowed."""
    budget = next((each.budget for each in event.layers if each.layer == "L2"), None)
    return (Insert("contexts", (event.run, event.chars, len(event.items), budget, event.seq)),)


def record_step(event: StepTaken) -> tuple[Insert]:
    """Record the sizes of a step's output, prompt and variables."""
    sizes = (event.stdout_chars, event.prompt_chars, event.variables_n, event.variables_chars)
    return (Insert("step_sizes", (event.run, *sizes, event.seq)),)


LARGE_RETURNS = f"count(CASE WHEN chars > {limits.FLAG_RETURN_CHARS} THEN 1 END) AS large_returns"
"""The column of red flags among the calls of tools that are grouped."""

CONTEXT_FLAGS = f"""
    sum(items_n > {limits.FLAG_ITEMS_INJECTED}) + sum(chars > {limits.FLAG_CONTEXT_CHARS})
        + sum(coalesce(l2_budget, 0) > {limits.CONTEXT_L2_CHARS}) AS flags
"""
"""The column of red flags among the contexts that are grouped."""

_MEASURES = f"""
    count(*) AS calls,
    sum(failed) AS errors,
    sum(chars) AS total_chars_returned,
    max(chars) AS max_single_return,
    {LARGE_RETURNS},
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
UNION ALL
SELECT run, 'l2_budget', l2_budget, {limits.CONTEXT_L2_CHARS}, from_seq, NULL
FROM contexts WHERE l2_budget > {limits.CONTEXT_L2_CHARS}
"""

LEAKAGE_PAGES = PagedView(
    key="run",
    place="started_seq",
    base="run_starts r",
    tables={
        "returned": f"SELECT run, {_MEASURES} FROM tool_calls {OF_RUN} GROUP BY run",
        "sizes": f"""
            SELECT run, sum(stdout_chars) AS stdout_chars, max(prompt_chars) AS prompt_chars_max,
                max(variables_n) AS variables_n, max(variables_chars) AS variables_chars
            FROM step_sizes {OF_RUN} GROUP BY run""",
        "built": f"""
            SELECT run, max(items_n) AS items, max(chars) AS chars, {CONTEXT_FLAGS}
            FROM contexts {OF_RUN} GROUP BY run""",
        "subcalls": f"SELECT run, sum(role = 'sub') AS n FROM lm_calls {OF_RUN} GROUP BY run",
        "stepped": f"SELECT run, count(*) AS n FROM run_steps {OF_RUN} GROUP BY run",
    },
    parts={
        "e": "LEFT JOIN run_ends e ON e.run = r.run AND e.to_seq IS NULL",
        "t": "LEFT JOIN returned t ON t.run = r.run",
        "z": "LEFT JOIN sizes z ON z.run = r.run",
        "b": "LEFT JOIN built b ON b.run = r.run",
        "s": "LEFT JOIN subcalls s ON s.run = r.run",
        "p": "LEFT JOIN stepped p ON p.run = r.run",
    },
    columns={
        **{"run": "r.run", "started_seq": "r.from_seq"},
        **{
            name: f"CASE WHEN t.run IS NULL THEN 0 ELSE t.{name} END"
            for name in ("total_chars_returned", "max_single_return")
        },
        "large_returns": "coalesce(t.large_returns, 0)",
        **{name: f"z.{name}" for name in ("stdout_chars", "variables_n", "variables_chars")},
        "subcalls": "coalesce(s.n, 0)",
        **{"items_injected": "b.items", "context_size": "b.chars", "prompt_chars_max": "z.prompt_chars_max"},
        "iterations": "coalesce(e.iterations, p.n, 0)",
        "tool_calls": "coalesce(t.calls, 0)",
        "red_flags": "coalesce(t.large_returns, 0) + coalesce(b.flags, 0)",
    },
)
"""The leakage of each run."""

LEAKAGE = Projection(
    name="leakage",
    version=2,
    title="What tools, contexts and steps put before the model, with red flags",
    handlers={ToolCalled: record_call, ContextBuilt: record_context, StepTaken: record_step},
    tables=(TOOL_CALLS, CONTEXTS, STEP_SIZES),
    paged={"leakage_by_run": LEAKAGE_PAGES},
    views={
        "leakage_by_run": LEAKAGE_PAGES.view,
        "leakage_by_tool": _BY_TOOL,
        "leakage_by_run_and_tool": _BY_RUN_AND_TOOL,
        "red_flags": _RED_FLAGS,
    },
)
