"""The embedder records what an endpoint gives, request by request, and what fails; ranking then needs no endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rbank_es import Bank, Item, limits
from rbank_es.events import PolicySet, WordsEmbedded
from rbank_es.extraction.candidates import consolidate
from rbank_es.models.embedder import Embedder, SearchVectors, missing_vectors
from rbank_es.models.embedding_endpoint import KEY_VARIABLE, EmbeddingChoice, EmbeddingEndpoint
from rbank_es.policies import Bm25V2, HybridV1
from tests.cli_runner import run
from tests.loop.test_closed_loop import of_type
from tests.models.embedding_server import EmbeddingServer, embedding_server
from tests.models.openai_server import failing, refused, unauthorized
from tests.sparql.fault_server import Behaviour

ITEMS = tuple(Item.make(f"Count the lamps of pier {number}", f"Lamps, pier {number}.") for number in range(5))
QUERY = "How many lamps?"


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    with Bank.create(tmp_path / "bank", policies=(HybridV1(model="m", cosine=-1).choice,)) as made:
        consolidate(made, ITEMS)
        yield made


@contextmanager
def embedder(bank: Bank, *behaviours: Behaviour) -> Iterator[tuple[Embedder, EmbeddingServer]]:
    with embedding_server(behaviours) as server:
        choice = EmbeddingChoice(model="m", base_url=server.url)
        with EmbeddingEndpoint(choice, sleep=lambda seconds: None) as endpoint:
            yield Embedder(endpoint, "m"), server


def test_requests_are_bounded_and_go_on_where_they_stopped(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EMBEDDING_TEXTS", 2)
    monkeypatch.setattr(limits, "EMBEDDING_TEXT_CHARS", 10)
    with embedder(bank, refused()) as (it, server):
        assert it.embed(bank, missing_vectors(bank, "m")) == 0
        assert it.embed(bank, missing_vectors(bank, "m")) == 5
        assert [len(body["input"]) for body in server.requests] == [2, 2, 2, 1]
        assert {len(text) for text in server.texts} == {10}
    failed, *_ = of_type(bank, WordsEmbedded)
    assert (failed.error_code, failed.vectors, failed.items) == ("refused", (), ())


def test_a_failure_is_recorded_and_after_some_nobody_is_asked(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LM_RETRIES", 0)
    for behaviours, asked in (([failing()] * 30, limits.EMBEDDING_FAILURES), ([unauthorized()], 1)):
        with embedding_server(behaviours) as server, SearchVectors(server.url) as vectors:
            for _ in range(limits.EMBEDDING_FAILURES + 2):
                vectors.prepare(bank, QUERY)
            assert len(server.requests) == len(vectors.failures) == asked
    codes = [event.error_code for event in of_type(bank, WordsEmbedded)]
    assert codes == ["server_error"] * limits.EMBEDDING_FAILURES + ["wrong_key"]


def test_under_a_policy_without_vectors_nothing_is_sent(bank: Bank) -> None:
    with embedding_server() as server, SearchVectors(server.url) as vectors:
        for policy in (HybridV1(), Bm25V2()):
            bank.append(PolicySet(policies=(policy.choice,)))
            vectors.prepare(bank, QUERY, items=True)
        assert not server.requests


def test_an_endpoint_that_changes_the_size_of_its_vectors_is_refused(bank: Bank) -> None:
    with embedder(bank) as (it, server):
        it.embed(bank, missing_vectors(bank, "m", [QUERY], items=False))
        server.dimensions = 16
        it.embed(bank, missing_vectors(bank, "m", ["Another one?"], items=False))
        assert [failure.code for failure in it.failures] == ["wrong_dimensions"]
    with embedder(bank) as (it, server):
        server.dimensions = 16
        it.embed(bank, missing_vectors(bank, "m", ["Another one?"], items=False))
        assert it.given_up
    assert [len(event.vectors) for event in of_type(bank, WordsEmbedded)] == [1, 0, 0]


def test_a_query_that_holds_a_key_is_not_sent(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "k-0123456789-of-ann")
    assert missing_vectors(bank, "m", ["log in by k-0123456789-of-ann", " "], items=False).queries == ()


def test_ranking_by_recorded_vectors_is_verified_without_the_endpoint(bank: Bank) -> None:
    from tests.context.procedures_of_bank import procedures

    with embedder(bank) as (it, _):
        it.embed(bank, missing_vectors(bank, "m", [QUERY]))
    bank.append(procedures(bank, QUERY).retrievals)
    checked = bank.check(retrievals=True).retrievals
    assert checked is not None and checked.checked == 2


# ---------------------------------------------------------------- the command


@pytest.mark.slow
def test_embed_counts_records_and_has_nothing_left(tmp_path: Path, bank: Bank) -> None:
    bank.close()
    (tmp_path / "cases.jsonl").write_text('{"id": "a", "query": "Which piers?", "relevant": []}\n')
    more = ("--query", QUERY, "--cases", "cases.jsonl", "--recorded")
    dry = run("retrieval", "embed", "./bank", "--model", "m", *more, "--dry-run", "--json", cwd=tmp_path)
    assert dry.json["missing"] == {"items": 5, "queries": 2, "chars": 5 * 40 + len(QUERY) + len("Which piers?")}
    with embedding_server() as server:
        asked = ("retrieval", "embed", "./bank", "--model", "m", "--base-url", server.url, *more)
        done = run(*asked, "--json", cwd=tmp_path)
        assert (done.json["embedded"], done.json["missing"], done.json["error"]) == (7, 0, None)
        assert "nothing is missing" in run(*asked, cwd=tmp_path).out
        assert len(server.requests) == 2


@pytest.mark.slow
def test_a_search_ranks_by_what_was_embedded(tmp_path: Path, bank: Bank) -> None:
    bank.close()
    with embedding_server() as server:
        asked = ("retrieval", "embed", "./bank", "--model", "m", "--base-url", server.url, "--query", QUERY)
        run(*asked, cwd=tmp_path)
    assert "the query has no vector" in run("search", "./bank", "Which lamps?", cwd=tmp_path).err
    known = run("search", "./bank", QUERY, "--json", cwd=tmp_path)
    found = known.json["hits"]
    assert (known.err, known.json["fallback"]) == ("", None)
    assert len(found) == 5


@pytest.mark.slow
def test_embed_says_what_failed_and_exits_with_1(tmp_path: Path, bank: Bank) -> None:
    bank.close()
    key = {KEY_VARIABLE: "k-0123456789-of-ann"}
    with embedding_server([unauthorized("no: k-0123456789-of-ann")] * 2) as server:
        asked = ("retrieval", "embed", "./bank", "--model", "m", "--base-url", server.url)
        failed = run(*asked, cwd=tmp_path, code=1, env=key)
        assert "5 texts without a vector" in failed.err and KEY_VARIABLE in failed.err
        assert "k-0123" not in failed.err + failed.out
        assert run(*asked, "--json", cwd=tmp_path, code=1, env=key).json["error"]["code"] == "wrong_key"
