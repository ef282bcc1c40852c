"""A loop under hybrid-1: questions, items and an agent's searches get vectors; a failing endpoint costs no run."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.events import MemoriesRetrieved, RunFinished, WordsEmbedded
from rbank_es.models.embedder import SearchVectors
from rbank_es.policies import HybridV1
from tests.cli_runner import run
from tests.loop.loops import SCRIPT, TASKS, looped, scripted
from tests.loop.test_closed_loop import of_type
from tests.models.embedding_server import embedding_server
from tests.models.openai_server import failing, unauthorized
from tests.rerun.banks import quick_code, reruns
from tests.sandbox.sandboxes import require_dspy

require_dspy()

SEARCH = "found = mem_search('tower heights above water')\n"
SEARCHING = SCRIPT.replace("found = sparql_query(", f"{SEARCH}found = sparql_query(")


def hybrid(place: Path) -> Bank:
    return Bank.create(place, policies=(HybridV1(model="m", cosine=-1.0, coverage=0, share_of_best=0).choice,))


@pytest.mark.parametrize("mode", ["both", pytest.param("auto", marks=pytest.mark.slow)])
def test_searches_of_a_loop_are_ranked_by_vectors_and_repeated_without_the_endpoint(tmp_path: Path, mode: str) -> None:
    script = SEARCHING if mode == "both" else SCRIPT
    with hybrid(tmp_path / "bank") as bank:
        with embedding_server() as server, SearchVectors(server.url) as vectors:
            settings = scripted(tmp_path, script, mode=mode)
            results = looped(bank, settings, vectors=vectors, interpreters=quick_code)
            assert [result.outcome for result in results] == ["submitted"] * 2
            assert len(server.texts) == len(set(server.texts))
            assert {task.question for task in TASKS} <= set(server.texts)
            assert ("tower heights above water" in server.texts) == (mode == "both")
        retrieved = of_type(bank, MemoriesRetrieved)
        assert {event.fallback for event in retrieved} == {None}
        assert any(event.hits for event in retrieved if event.mode == "auto")
        checked = bank.check(retrievals=True).retrievals
        assert checked is not None and (checked.checked, checked.unverifiable) == (len(retrieved), 0)
        assert [again.difference for again in reruns(bank)] == [None, None]


@pytest.mark.slow
@pytest.mark.parametrize(("behaviour", "requests"), [(unauthorized(), 1), (failing(), 9)])
def test_a_failing_endpoint_costs_no_run_and_is_recorded(
    tmp_path: Path, behaviour: object, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rbank_es.models.embedding_endpoint.wait_s", lambda tries, asked: 0.0 if tries < 3 else None)
    settings = scripted(tmp_path, SEARCHING, mode="both")
    with hybrid(tmp_path / "bank") as bank:
        with embedding_server([behaviour] * 30) as server, SearchVectors(server.url) as vectors:  # type: ignore[list-item]
            looped(bank, settings, vectors=vectors, interpreters=quick_code)
            assert len(server.requests) == requests and vectors.failures
        assert [event.outcome for event in of_type(bank, RunFinished)] == ["submitted"] * 2
        assert {event.fallback for event in of_type(bank, MemoriesRetrieved)} == {"no-query-vector"}
        assert all(event.error_code for event in of_type(bank, WordsEmbedded))
        bank.check(retrievals=True)
        assert [again.difference for again in reruns(bank)] == [None, None]


@pytest.mark.slow
def test_a_user_is_told_of_vectors_that_are_missing(tmp_path: Path) -> None:
    hybrid(tmp_path / "bank").close()
    scripted(tmp_path)
    asked = ("run", "./bank", "--ont", "lights", "--task", TASKS[0].question, "--lm", "script:script.toml")
    more = ("--executor", "scratchpad", "--unsafe-local", "--no-l0")
    assert "--embeddings-url" in run(*asked, *more, cwd=tmp_path, code=None).err
    with embedding_server([unauthorized()]) as server:
        told = run(*asked, *more, "--embeddings-url", server.url, "--again", cwd=tmp_path, code=None).err
    assert "1 request for vectors failed" in told and "RBANK_EMBEDDINGS_KEY" in told
