"""Tool families: which tools a run is offered, and a family that another package adds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, BadPlugin
from rbank_es.tools.shared.tool_family import (
    TOOL_FAMILIES,
    Reply,
    ToolError,
    ToolFamily,
    ToolSession,
    offered_tools,
)
from rbank_es.tools.shared.toolbox import Toolbox
from tests.plugins import install
from tests.tools.tool_sessions import calls, session_for

PLUGIN = '''
"""A family of another package, in one file."""

from rbank_es.events import MemoryProposed
from rbank_es.events.items import Item
from rbank_es.sparql.results import Answer, Cell, to_json
from rbank_es.tools.shared.tool_family import TOOL_FAMILIES, ToolFamily
from rbank_es.tools.shared.tool_family import Reply, ToolSession


class TideTools:
    def __init__(self, session: ToolSession) -> None:
        self._session = session

    def tide_height(self, hour: int = 0) -> Reply:
        """The height of the tide at an hour.

        Args: hour: 0 to 23.
        Returns: metres.
        Example: tide_height(6)['metres']
        """
        return Reply({"metres": 4 if hour % 12 < 6 else 1})

    def tide_query(self, query: str) -> Reply:
        """Run a query on the tide table."""
        answer = Answer(form="select", variables=("m",), rows=((Cell("literal", "4"),),))
        item = Item.make("Ask the tide table", "Ask for the hour.", "success")
        event = MemoryProposed(run=self._session.run, by="tide_query", call=self._session.call, head=item.head,
                               candidate=item.text)
        return Reply({"rows": 1}, to_json(answer), "results", beside=(event,))


FAMILY = ToolFamily(
    TideTools,
    caps_chars={"tide_height": 200},
    queries=frozenset({"tide_query"}),
    looks=frozenset({"tide_height"}),
    proposers=frozenset({"tide_query"}),
)


def add() -> None:
    TOOL_FAMILIES.add("tides", "tide_tools:FAMILY")
'''

PROGRAM = """
import json, sys
from rbank_es import Bank, build_tools
from rbank_es.cli import main
from rbank_es.events import RunFinished, RunStarted
from rbank_es.extraction.proposals import proposals_of
from rbank_es.judging import outcome_of

QUERY = "SELECT ?m WHERE { ?tide <http://tides.example/metres> ?m }"
bank = Bank.create(sys.argv[1])
with build_tools(bank, run="run-1") as box:
    print(json.dumps(box.call("tide_height", {"hour": "7"})))
    print(json.dumps([tool for tool in box.manual() if tool.name == "tide_height"]))
    print(json.dumps([event.tool for event in bank.events(types={"tool_called"})]))
    bank.append(RunStarted(run="run-1", task="How high is the tide?"))
    box.call("tide_query", {"query": "SELECT ?m WHERE { ?s ?p ?m }"})
    made = box.call("tide_query", {"query": QUERY})
    extracted = box.call("mem_extract", {"result": made, "task": "t", "judgment": {"success": True}})
    bank.append(RunFinished(run="run-1", outcome="submitted", answer="4", sparql=QUERY))
    outcome = outcome_of(bank, "run-1")
    print(json.dumps([extracted, [run.query for run in outcome.queries], outcome.looked,
                      [[event.by, event.call] for event in proposals_of(bank, "run-1")]]))
main(["tools", "--json", "--call", "tide_height"])
"""


class BellTools:
    """Two tools, of which one is offered to one run."""

    def __init__(self, session: ToolSession) -> None:
        self._session = session

    def bell_ring(self, times: int = 1) -> Reply:
        """Ring the bell.

        Args: times: how often. Returns: rung. Example: bell_ring(2)
        """
        if times > 9:
            raise ToolError("too_loud", "more than nine times", "ring less")
        return Reply({"rung": times, "echo": "x" * 5_000 if times == 9 else ""})

    def bell_stop(self) -> Reply:
        """Stop it."""
        return Reply({})


BELLS = ToolFamily(BellTools, lambda session, tool: session.run == "run-1" and tool == "bell_ring", {"bell_ring": 300})


def test_a_family_s_tools_are_checked_bounded_and_recorded(bank: Bank) -> None:
    """Arguments are converted, answers are cut to the family's cap, errors are data, and every call is an event."""
    session = session_for(bank)
    box = Toolbox(session, dict(BELLS.build(session)), BELLS.caps_chars)
    assert box.call("bell_ring", {"times": "2"}) == {"ok": True, "rung": 2, "echo": ""}
    assert len(json.dumps(box.call("bell_ring", {"times": 9}), ensure_ascii=False, separators=(",", ":"))) <= 300
    assert box.call("bell_ring", {"times": 10})["error"]["code"] == "too_loud"
    assert [call.tool for call in calls(bank)] == ["bell_ring"] * 3
    [manual] = box.manual()
    assert (manual.name, manual.usage, manual.cap_chars) == ("bell_ring", "bell_ring(times=1)", 300)
    assert manual.doc.startswith("Ring the bell.")


def test_a_tool_that_returns_no_reply_is_an_error_that_says_so(bank: Bank) -> None:
    """It is recorded as a failed call, not told as one that could not be recorded."""
    box = Toolbox(session_for(bank), {"plain": lambda: {"rung": 1}}, {})  # type: ignore[dict-item]
    error = box.call("plain", {})["error"]
    assert error["code"] == "bad_plugin"
    assert "plugin 'plain' of the package tests can't be used: it returned dict" in error["message"]
    assert [(call.tool, call.error_code) for call in calls(bank)] == [("plain", "bad_plugin")]


def test_names_of_families_and_of_tools_are_taken_once(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name means one thing: who takes another's is refused, and named."""
    with pytest.raises(BadInput, match="tool family 'context' already"):
        TOOL_FAMILIES.add("context", BELLS)
    twice = (("bells", BELLS), ("more bells", BELLS))
    monkeypatch.setattr(TOOL_FAMILIES, "all", lambda: iter(twice))
    with pytest.raises(BadPlugin, match=r"more bells.*'bell_ring'"):
        offered_tools(session_for(bank))


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a program prints whose environment has the other package installed."""
    folder = tmp_path_factory.mktemp("tides")
    install(folder, "tide_tools", PLUGIN)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "bank")],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_plugin_s_family_is_in_python_in_the_manual_and_on_the_command_line(printed: list[str]) -> None:
    """Another package adds it by an entry point; nothing in this one names it."""
    called, manual, recorded, _, *tools = printed
    assert json.loads(called) == {"ok": True, "metres": 1}
    [[name, usage, doc, cap_chars, rare]] = json.loads(manual)
    assert (name, usage, cap_chars, rare) == ("tide_height", "tide_height(hour=0)", 200, False)
    assert doc.startswith("The height of the tide at an hour.")
    assert json.loads(recorded) == ["tide_height"]
    [tried] = json.loads("\n".join(tools))["calls"]
    assert tried["result"] == {"ok": True, "metres": 4} and tried["cap_chars"] == 200


@pytest.mark.slow
def test_judging_and_extracting_know_a_plugin_s_query_tool(printed: list[str]) -> None:
    """Its queries are the run's, its payloads are results, its proposals count where the answer rests on them."""
    extracted, queries, looked, proposals = json.loads(printed[3])
    assert extracted["ok"] and extracted["proposed"], extracted
    assert queries == ["SELECT ?m WHERE { ?s ?p ?m }", "SELECT ?m WHERE { ?tide <http://tides.example/metres> ?m }"]
    assert looked == ["tide_height"]
    assert [by for by, _ in proposals].count("tide_query") == 1 and ["tide_query", "call-3"] in proposals
