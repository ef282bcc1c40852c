"""Runs with a memory graph: the agent asks the bank's history as of its start, and a rerun gets the same answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbank_es.events import ContextBuilt, LmCalled, MemoriesExtracted, RunJudged, ToolCalled
from rbank_es.rerun.execution import rerun
from rbank_es.rerun.recorded_run import runs_of
from tests.loop.loops import SCRIPT, TASKS
from tests.rerun.banks import run_in, shipped
from tests.sandbox.sandboxes import require_dspy

require_dspy()

ASKED = """
past = memory_query('SELECT ?r ?v { ?r a rbank:Run ; rbank:verdict ?v }')
print(past['rows'], sparql_slice(past)['rows'])
print(memory_query('ASK { ?i a rbank:Item ; rbank:state "active" }')['boolean'])
"""
ASKING = SCRIPT.replace("code = '''\nfound = sparql_query(", f"code = '''{ASKED}found = sparql_query(")


@pytest.mark.slow
def test_each_run_asks_the_history_as_of_its_start_and_a_rerun_is_identical(tmp_path: Path) -> None:
    with run_in(tmp_path, ASKING, TASKS, memory_graph=True) as bank:
        first, second = runs_of(bank)
        asked = {
            run: [
                event
                for event in bank.events(run=run, resolve=True)
                if isinstance(event, ToolCalled) and event.tool == "memory_query"
            ]
            for run in (first, second)
        }
        rows = {run: json.loads(str(events[0].result))["results"]["bindings"] for run, events in asked.items()}
        assert rows[first] == [] and [row["r"]["value"] for row in rows[second]] == [f"urn:rbank-es:run:{first}"]
        context = next(event for event in bank.events(run=first, resolve=True) if isinstance(event, ContextBuilt))
        assert "memory_query" in str(context.texts[0]) and len(str(context.texts[0])) <= 800
        assert [rerun(bank, run, ontologies=shipped()).difference for run in (first, second)] == [None, None]


@pytest.mark.slow
def test_judgments_and_extractions_name_the_calls_that_gave_them(tmp_path: Path) -> None:
    """And a walk from the item leads back to them."""
    from rbank_es.bank.lineage_graph import LineageGraph
    from rbank_es.projections.lineage_edges import LineageNode

    with run_in(tmp_path, SCRIPT, TASKS[:1]) as bank:
        events = list(bank.events())
        roles = {event.id: event.role for event in events if isinstance(event, LmCalled)}
        [judgment] = [event for event in events if isinstance(event, RunJudged) and event.kind == "lm"]
        [extraction] = [event for event in events if isinstance(event, MemoriesExtracted) and event.calls]
        assert [roles[id] for id in judgment.calls] == ["judge"]
        assert [roles[id] for id in extraction.calls] == ["extractor"]
        with bank.as_of(None) as view:
            causes = LineageGraph.of(view).causes(LineageNode("item", extraction.heads[0].id))
        assert {LineageNode("call", id) for id in (*judgment.calls, *extraction.calls)} <= set(causes.nodes)
