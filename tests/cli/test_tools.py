"""`rbank-es tools`: the manual of what an agent may call, and calls that are tried without leaving a trace."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rbank_es.cli.tools import parse_call
from rbank_es.errors import BadInput
from tests.cli_runner import SAMPLE, digest_of, maker, run

QUERY = 'sparql_query {"query": "SELECT ?light WHERE { ?light a lt:Lighthouse } ORDER BY ?light"}'
NOWHERE = "http://127.0.0.1:9/sparql"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a copy of the sample bank."""
    folder = tmp_path_factory.mktemp("tools")
    shutil.copytree(SAMPLE, folder / "logs" / "sample", ignore=shutil.ignore_patterns("*lock"))
    return folder


def called(place: Path, *arguments: str) -> list[dict[str, Any]]:
    """The calls that a command tried, as JSON."""
    calls = run("tools", *arguments, "--json", cwd=place).json["calls"]
    assert isinstance(calls, list)
    return calls


# ---------------------------------------------------------------- the manual


def test_without_a_call_it_prints_the_manual(place: Path) -> None:
    """Every tool of the four families, with its signature, its words and its cap; nothing needs a key or a file."""
    manual = run("tools", "--json", cwd=place).json
    names = [tool["name"] for tool in manual["tools"]]
    assert manual["source"]["id"] == "lights"
    assert {name.split("_")[0] for name in names} == {"ctx", "mem", "event", "sparql", "g", "tools"}
    printed = run("tools", cwd=place).out
    for tool in manual["tools"]:
        assert f"\n{tool['usage']}\n" in printed
        assert tool["doc"].splitlines()[0] in printed
        assert tool["usage"].startswith(f"{tool['name']}(") and tool["cap_chars"] in (1_000, 4_000, 4_500)


@pytest.mark.slow
def test_an_endpoint_has_no_graph_tools_and_its_manual_asks_nothing_of_it(place: Path) -> None:
    """Nobody answers at that address, and nobody is called."""
    manual = run("tools", "--endpoint", NOWHERE, "--json", cwd=place).json
    names = {tool["name"] for tool in manual["tools"]}
    assert manual["source"] == {"id": "127.0.0.1", "kind": "remote", "url": NOWHERE, "triples": None}
    assert "sparql_query" in names and not {name for name in names if name.startswith("g_")}


def test_the_manual_in_the_documents_is_the_tools_own(place: Path) -> None:
    """Words and results are generated; `python docs/make_tools.py` puts them in anew."""
    making = maker("make_tools")
    document = making.DOCUMENT.read_text(encoding="utf-8")
    assert making.replaced(document) == document


# ---------------------------------------------------------------- calls


@pytest.mark.slow
def test_ones_own_ontology_and_several_files(place: Path, tmp_path: Path) -> None:
    """--ont may be given several times: one dataset."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.ttl").write_text(f"<https://x.example/{name}> a <https://x.example/ns#Thing> .")
    arguments = ("--ont", str(tmp_path / "one.ttl"), "--ont", str(tmp_path / "two.ttl"))
    [call] = called(place, *arguments, "--call", 'g_query {"query": "SELECT ?t WHERE { ?t a ?c }"}')
    assert call["result"]["rows"] == 2


# ---------------------------------------------------------------- the bank


@pytest.mark.slow
def test_memory_tools_read_a_copy_of_the_bank_and_leave_it_as_it_is(place: Path) -> None:
    """What is found is the bank's; not one of its bytes changes, whatever is called."""
    before = digest_of(place / "logs")
    calls = ("--call", 'mem_search {"q": "which lights are in service", "k": 2}', "--call", QUERY)
    found, query = called(place, "--bank", "sample", *calls)
    assert found["result"]["hits"] and query["result"]["ok"]
    assert "memories_retrieved" in [event["type"] for event in found["events"]]
    assert digest_of(place / "logs") == before
    words = run("tools", "--bank", "sample", "--call", "g_stats", cwd=place).out
    assert "recorded in a temporary copy of sample" in words


def test_a_bank_that_can_only_be_read_serves_as_well(place: Path, tmp_path: Path) -> None:
    """The copy can be written to, whatever the permissions of the bank are."""
    bank = tmp_path / "bank"
    shutil.copytree(place / "logs" / "sample", bank)
    for path in (*bank.iterdir(), bank):
        path.chmod(0o555 if path.is_dir() else 0o444)
    [call] = called(place, "--bank", str(bank), "--call", 'mem_search {"q": "lights"}')
    bank.chmod(0o755)
    assert call["result"]["hits"]


# ---------------------------------------------------------------- what can't be


def test_a_call_is_a_name_and_a_json_object() -> None:
    """Arguments may be left out; white space around them doesn't matter."""
    assert parse_call(' ctx_peek  {"ref": "results_0", "n": 3} ') == ("ctx_peek", {"ref": "results_0", "n": 3})
    assert parse_call("g_stats") == ("g_stats", {})
    with pytest.raises(BadInput, match="not JSON"):
        parse_call("g_stats {'a': 1}")
