"""Characters that reach the prompt: the same calls with handles and with full payloads (the control condition).

No model takes part. A script makes the same calls for each task: schema, one class, gold query, first page of its rows,
search of the bank, best item. So this measures the tools, not the behaviour of an agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from benchmarks.data import Suite, suites
from benchmarks.measure import Row
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.data import shipped
from rbank_es.events import RunStarted
from rbank_es.exchange import import_paths
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import open_source
from rbank_es.tools.shared.tool_family import ToolPolicy
from rbank_es.tools.shared.toolbox import Toolbox, build_tools

PAGE = 20
Payloads = Literal["handles", "naive"]


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield one row for all tasks of all suites, and one for each suite."""
    with Bank.create(place / "bank", unsafe_no_sync=True) as bank:
        import_paths(bank, [shipped("lights_seed.json")])
        found = list(suites())
        for suite in found:
            _run(bank, place, suite)
        rows = bank.as_of().rows("leakage_by_run")
    yield _row("all", [row for row in rows if row["run"]])
    for suite in found:
        yield _row(suite.name, [row for row in rows if row["run"].startswith(f"{suite.name}/")])


def _run(bank: Bank, place: Path, suite: Suite) -> None:
    ontology = load_ontology(suite.files, cache=place / "cache")
    source = open_source(ontology)
    for number, (question, query) in enumerate(suite.tasks):
        for payloads in ("handles", "naive"):
            run = f"{suite.name}/{number}/{payloads}"
            bank.append(RunStarted(run=run, task=question, scripted=True))
            policy = ToolPolicy(payloads=payloads, mode="both", propose=False)
            _calls(build_tools(bank, run=run, source=source, policy=policy), question, query, payloads)
    source.close()


def _calls(tools: Toolbox, question: str, query: str, payloads: Payloads) -> None:
    """Make the calls of an agent that answers one question."""
    tools.call("sparql_schema")
    schema = _done(tools.call("sparql_schema", {"output_mode": "classes"}))
    tools.call("sparql_peek", {"resource": schema["classes"][0]["uri"]})
    result = _done(tools.call("sparql_query", {"query": query}))
    if payloads == "handles" and "key" in result:
        tools.call("sparql_slice", {"result": result["key"], "limit": PAGE})
    hits = _done(tools.call("mem_search", {"q": question}))["hits"]
    if hits:
        tools.call("mem_get", {"ids": [hits[0]["id"]]})


def _done(result: dict[str, Any]) -> dict[str, Any]:
    assert result["ok"], msgspec.json.encode(result)
    return result


def _row(name: str, rows: list[dict[str, Any]]) -> Row:
    sums = {
        payloads: {
            column: sum(row[column] for row in rows if row["run"].endswith(f"/{payloads}"))
            for column in ("total_chars_returned", "large_returns")
        }
        for payloads in ("handles", "naive")
    }
    ours, naive = sums["handles"], sums["naive"]
    tasks = len(rows) // 2
    chars, large = (_less(ours, naive, column) for column in ("total_chars_returned", "large_returns"))
    return Row(
        "leakage",
        f"characters returned to a scripted agent per task, large returns (over 1,000) in all; {name}, {tasks} tasks",
        f"{ours['total_chars_returned'] / tasks:,.0f}, {ours['large_returns']} large",
        f"full payloads {naive['total_chars_returned'] / tasks:,.0f}, {naive['large_returns']} large"
        f" ({chars} characters, {large} large returns)",
    )


def _less(ours: dict[str, int], naive: dict[str, int], column: str) -> str:
    return f"{100 * (ours[column] / naive[column] - 1):+.0f} %" if naive[column] else "none"
