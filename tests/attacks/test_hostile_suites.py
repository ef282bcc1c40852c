"""Suites from strangers: no query reads a file or calls out, no path leaves their folder, no text is obeyed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rbank_es.errors import QueryFailed
from rbank_es.sparql.engines.local import LocalEngine
from rbank_es.sparql.engines.query_engine import Caps
from tests.cli_runner import fails, run

SECRET = "swordfish"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "secret.ttl").write_text(f'<http://x.example/s> <http://x.example/p> "{SECRET}" .')
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "data.ttl").write_text("<http://x.example/a> <http://x.example/p> 1 .")
    return tmp_path


def saved(place: Path, *tasks: dict[str, object], **head: object) -> Path:
    path = place / "suite" / "suite.json"
    path.write_text(json.dumps({"ontology": "x", "files": ["data.ttl"], **head, "tasks": tasks}))
    return path


def task(sparql: str, **fields: object) -> dict[str, object]:
    return {"id": "t", "question": "Which?", "level": 1, "family": "f", "gold_sparql": sparql, **fields}


ATTACKS = (
    "SELECT ?o FROM <file://{secret}> WHERE { ?s ?p ?o }",
    "SELECT ?o WHERE { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }",
    "LOAD <file://{secret}>",
    "DELETE WHERE { ?s ?p ?o }",
)


def test_no_query_of_a_suite_reads_a_file_or_calls_out(place: Path) -> None:
    """Neither as gold nor as a misleading query: each is refused before any engine sees it."""
    queries = [attack.replace("{secret}", str(place / "secret.ttl")) for attack in ATTACKS]
    fine = "SELECT ?o WHERE { ?s <http://x.example/p> ?o }"
    gold = [task(query, id=f"g{at}") for at, query in enumerate(queries)]
    misleading = [task(fine, id=f"m{at}", misleading_sparql=query) for at, query in enumerate(queries)]
    done = run("suite", "check", saved(place, *gold, *misleading), "--json", cwd=place, code=1)
    assert SECRET not in done.out
    for each in done.json["tasks"]:
        codes = {flaw["code"] for flaw in each["flaws"]} - {"repeated_question"}
        assert codes in ([{"misleading_failed"}] if each["task"] > "h" else [{"unreadable_gold"}, {"failed_gold"}])


@pytest.mark.slow
def test_rdflib_in_its_worker_opens_no_file_even_if_a_query_reached_it(place: Path) -> None:
    quads = place / "data.nq"
    quads.write_text("<http://x.example/a> <http://x.example/p> <http://x.example/b> .\n")
    engine = LocalEngine(quads, "rdflib")
    try:
        asked = f"SELECT ?o FROM <file://{place / 'secret.ttl'}> WHERE {{ ?s ?p ?o }}"
        try:
            assert SECRET not in str(engine.run(asked, "select", Caps()))
        except QueryFailed as failed:
            assert SECRET not in str(failed)
    finally:
        engine.close()


@pytest.mark.parametrize("path", ["../secret.ttl", "/etc/passwd", "a/../../secret.ttl", "\x1b[2Jx"])
def test_no_path_of_a_suite_leaves_its_folder(place: Path, path: str) -> None:
    told = fails("suite", "check", saved(place, task("ASK {}"), files=[path]), cwd=place)
    assert "no path within the suite's folder" in told and SECRET not in told and "\x1b" not in told


def test_no_text_of_a_suite_is_obeyed_by_a_terminal(place: Path) -> None:
    evil = "\x1b]0;owned\x07\u202eevil"
    path = saved(place, task(f"ASK {{ {evil} }}", question=evil, answer=[[evil]]), name=evil)
    done = run("suite", "check", path, cwd=place, code=1)
    assert "\x1b" not in done.out and "\u202e" not in done.out and "\x07" not in done.out
    assert "can't be the id" in fails("suite", "check", saved(place, task("ASK {}", id=evil)), cwd=place)


def test_no_definition_makes_a_command_wait_at_a_pipe_or_fail_at_a_number(place: Path) -> None:
    """A suite and seeds in the definition's folder that are pipes, at which nobody writes; a seed of 120,000 digits."""
    os.mkfifo(place / "pipe")
    head = 'name = "x"\ntitle = "t"\nbaseline = "a"\n'
    for line in ('suite = "pipe"\n[[condition]]\nname = "a"\n', '[[condition]]\nname = "a"\nseeds = ["pipe"]\n'):
        (place / "mine.toml").write_text(head + line)
        assert "named pipe" in fails("experiment", "run", "mine.toml", "--lm", "script:x", "--dry-run", cwd=place)
    (place / "mine.toml").write_text(head + f"seed = 0x{'f' * 100_000}\n[[condition]]\nname = 'a'\n")
    assert "seed" in fails("experiment", "show", "mine.toml", "--toml", cwd=place)
