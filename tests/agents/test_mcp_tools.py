"""The tools of a bank for a host that speaks MCP, without the protocol: what they answer, record and refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es import Bank, Item
from rbank_es.agents.mcp_tools import INSTRUCTIONS, TOOLS, BankTools, input_schema
from rbank_es.errors import BadInput, LimitExceeded, NotInBank, RBankError
from rbank_es.extraction.candidates import consolidate
from rbank_es.limits import mcp_limits, recorder_limits

QUESTION = "How are lamps counted?"
LESSON = ("Count lamps with DISTINCT", "Joins repeat rows of lamps: write COUNT(DISTINCT ?lamp).")


@pytest.fixture
def bank() -> Iterator[Bank]:
    with Bank.create("memory:") as made:
        made.remember(*LESSON)
        yield made


@pytest.fixture
def tools(bank: Bank) -> Iterator[BankTools]:
    made = BankTools(bank)
    yield made
    made.close()


def begun(tools: BankTools) -> str:
    run: str = tools.call("recall", {"question": QUESTION})["run"]
    return run


def test_a_run_is_recalled_for_reported_and_explained(bank: Bank, tools: BankTools) -> None:
    recalled = tools.call("recall", {"question": QUESTION, "domain": "lamps"})
    [item] = recalled["items"]
    assert LESSON[1] in recalled["lessons"] and item["title"] == LESSON[0]
    run = recalled["run"]
    again = tools.call("recall", {"question": QUESTION, "run": run})
    assert (again["run"], again["lessons"]) == (run, ""), "a run is given nothing twice"
    tools.call("report", {"run": run, "outcome": "success", "answer": "12", "evidence": "3 tests passed"})
    row = bank.run(run).run
    assert (row.outcome, row.verdict, row.kind, row.reason, row.ontology) == (
        "submitted", "success", "lm", "3 tests passed", "lamps",
    )  # fmt: skip
    assert bank.run(run).answer == "12"
    why = tools.call("why", {"id": run})
    assert [each["item"] for each in why["given"]] == [item["id"]]
    assert [each["run"] for each in tools.call("why", {"id": item["id"]})["used_in"]] == [run]
    assert bank.check(retrievals=True).retrievals.checked >= 1  # type: ignore[union-attr]


def test_reading_counts_as_a_use_where_a_run_reads(bank: Bank, tools: BankTools) -> None:
    [item] = bank.items().rows
    tools.call("get", {"ids": [item.id]})
    assert bank.items().rows[0].uses == 0
    run = begun(tools)
    [read] = tools.call("get", {"ids": [item.id], "run": run})["items"]
    assert read["content"] == LESSON[1]
    assert {gift.way for gift in bank.run(run).given} >= {"injected"} and bank.items().rows[0].uses == 1


def test_a_proposal_waits_for_a_person_and_falls_with_the_verdict_it_rests_on(bank: Bank, tools: BankTools) -> None:
    runs = []
    for title in ("Ask the porch", "Ask the hall"):
        run = begun(tools)
        proposed = tools.call("propose", {"run": run, "title": title, "content": f"{title}: its lamps have no room."})
        assert proposed["state"] == "proposed" and len(bank.items().rows) == 1 + len(runs)
        tools.call("report", {"run": run, "outcome": "success"})
        assert bank.item(proposed["id"]).item.state == "pending"
        bank.admit(proposed["id"], because="it is right")
        assert bank.item(proposed["id"]).item.state == "active"
        runs.append((run, proposed["id"]))
    bank.overrule(runs[0][0], "failure", reason="the porch has a room", by="me")
    assert bank.item(runs[1][1]).item.state == "active"
    assert [ground.stands for ground in bank.item(runs[0][1]).grounds] == [False]


def test_an_item_that_serves_the_judge_is_not_given(bank: Bank, tools: BankTools) -> None:
    principle = Item.make("Prefer DISTINCT", "Answers with DISTINCT are right.", "principle")
    consolidate(bank, [principle])
    for name, arguments in (("get", {"ids": [principle.id]}), ("why", {"id": principle.id})):
        with pytest.raises(BadInput, match="serves the judge"):
            tools.call(name, arguments)
    hits = tools.call("search", {"query": "Prefer DISTINCT answers"})["hits"]
    assert principle.id not in {hit["id"] for hit in hits}


def test_a_bank_that_is_only_read_has_the_tools_that_read(bank: Bank) -> None:
    tools = BankTools(bank, writes=False)
    before = bank.position
    assert set(tools.tools) == {"search", "get", "why"}
    with pytest.raises(BadInput, match="there is no tool 'recall' here; there are: search, get, why"):
        tools.call("recall", {"question": QUESTION})
    tools.call("search", {"query": QUESTION})
    assert bank.position == before


def test_runs_that_nobody_reported_end_as_unfinished(bank: Bank) -> None:
    """At the end of the server, and the one used longest ago where too many are open."""
    tools = BankTools(bank)
    first = begun(tools)
    others = [begun(tools) for _ in range(recorder_limits.OPEN_RUNS)]
    assert bank.run(first).run.error_code == "unfinished"
    with pytest.raises(BadInput, match="is open here"):
        tools.call("report", {"run": first, "outcome": "success"})
    assert all(row.outcome is None for row in bank.runs(limit=len(others)).rows)
    tools.close()
    assert {row.error_code for row in bank.runs(limit=len(others) + 1).rows} == {"unfinished"}


def test_a_call_that_outlives_its_server_leaves_no_run_open(bank: Bank, tools: BankTools) -> None:
    """Its host went away: the thread of the call goes on a little longer than the server."""
    tools.close()
    tools.call("recall", {"question": QUESTION})
    assert [row.error_code for row in bank.runs().rows] == ["unfinished"]


REFUSED: dict[str, tuple[str, dict[str, Any], type[Exception], str]] = {
    "a number for a text": ("recall", {"question": 5}, BadInput, "Expected `str`, got `int` - at `question`"),
    "a text for a number": ("search", {"query": "x", "k": "5"}, BadInput, "Expected `int`, got `str`"),
    "an unknown argument": ("recall", {"question": "x", "zzz": 1}, BadInput, "unknown field `zzz`"),
    "nothing": ("recall", {}, BadInput, "missing required field `question`"),
    "no list": ("get", {"ids": []}, BadInput, "length >= 1"),
    "an unknown run": ("report", {"run": "run-0", "outcome": "success"}, BadInput, "no run 'run-0' is open here"),
    "an unknown outcome": ("report", {"run": "r", "outcome": "great"}, BadInput, "'failure', 'success', 'undecided'"),
    "an unknown id": ("why", {"id": "zzz"}, NotInBank, "no lesson or run 'zzz'"),
    "an unknown point": ("search", {"query": "x", "at": "2300"}, BadInput, "2300"),
    "10 MB": ("recall", {"question": "x" * 10_000_000}, LimitExceeded, "bytes of the arguments"),
    "an unknown tool": ("x" * 5_000, {}, BadInput, "there is no tool"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_says_why_and_records_nothing(case: str, bank: Bank, tools: BankTools) -> None:
    name, arguments, error, words = REFUSED[case]
    before = bank.position
    with pytest.raises(error, match=words) as told:
        tools.call(name, arguments)
    assert bank.position == before and len(str(told.value)) < 500


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**30) | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.sampled_from([*TOOLS, "", "_call", "close"]),
    st.dictionaries(
        st.sampled_from(["question", "run", "query", "k", "at", "ids", "id", "outcome", "title", "content", "x"]),
        values,
    ),
)
def test_whatever_a_host_sends_is_answered_or_refused_by_an_error_of_ours(name: str, arguments: dict[str, Any]) -> None:
    with Bank.create("memory:") as bank:
        tools = BankTools(bank)
        try:
            answer = tools.call(name, arguments)
        except RBankError:
            return
        finally:
            tools.close()
        assert len(msgspec.json.encode(answer)) <= mcp_limits.MCP_RESULT_BYTES


def test_tools_take_little_of_a_host_s_context() -> None:
    """At most 1,500 tokens together, at three and a half characters each; six tools; schemas without references."""
    shown = {name: (tool.description, input_schema(tool)) for name, tool in TOOLS.items()}
    assert len(shown) <= 6 and len(msgspec.json.encode(shown)) + len(INSTRUCTIONS) <= 1_500 * 3.5
    assert all(
        schema["type"] == "object" and b"$ref" not in msgspec.json.encode(schema) for _, schema in shown.values()
    )


def test_a_result_beyond_the_bound_is_refused(bank: Bank, tools: BankTools) -> None:
    ids = [bank.remember(f"Lamp {n}", f"{n} " + "\\\u0001é" * 660).item for n in range(mcp_limits.MCP_ITEMS)]
    with pytest.raises(LimitExceeded, match="bytes of the result"):
        tools.call("get", {"ids": ids})


def test_what_an_agent_reports_of_itself_is_outranked_by_what_happened(bank: Bank, tools: BankTools) -> None:
    """Tests, checks that are sure, and people stand above it, whatever comes first."""
    run = begun(tools)
    tools.call("report", {"run": run, "outcome": "success", "evidence": "I am sure"})
    bank.overrule(run, "failure", reason="two lamps are missing", by="me")
    assert bank.run(run).run.verdict == "failure"
