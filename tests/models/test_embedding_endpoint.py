"""Embedding endpoints over HTTP: whatever one does, there are as many usable vectors as texts, or a failure in time."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.errors import BadInput, LmFailed
from rbank_es.models.embedding_endpoint import (
    KEY_VARIABLE,
    EmbeddedBatch,
    EmbeddingChoice,
    EmbeddingEndpoint,
    read_answer,
)
from tests.effort import one_in
from tests.models.embedding_server import answering, embedding_server, embeddings, half_a_body
from tests.models.openai_server import (
    closing,
    failing,
    flooding,
    hanging,
    not_json,
    other_json,
    rate_limited,
    unauthorized,
)
from tests.sparql.fault_server import Behaviour, drips, head, says

TEXTS = ("How many lamps?", "Count rows.")


def asked(*behaviours: Behaviour, timeout_s: float = 5.0) -> tuple[EmbeddedBatch, list[float]]:
    """The outcome of one request to a server that behaves so, and the waits before retries."""
    waits: list[float] = []
    with embedding_server(behaviours) as server:
        choice = EmbeddingChoice(model="m", base_url=server.url, timeout_s=timeout_s)
        with EmbeddingEndpoint(choice, sleep=waits.append) as endpoint:
            return endpoint.embed(TEXTS), waits


def code(batch: EmbeddedBatch) -> str | None:
    return None if batch.failure is None else batch.failure.code


def changed(**more: Any) -> Behaviour:
    return answering(lambda body: body | more)


def with_first(embedding: Any) -> Behaviour:
    return answering(lambda body: body | {"data": [{"index": 0, "embedding": embedding}, body["data"][1]]})


def said(body: bytes) -> Behaviour:
    return answering(lambda _: body)


BAD = (
    changed(data=[]),
    changed(data=[{"index": 0, "embedding": [1.0]}]),
    changed(data=[{"index": 0, "embedding": [1.0]}] * 2),
    changed(data=[{"index": 0, "embedding": [1.0]}, {"index": 2, "embedding": [1.0]}]),
    changed(data=[{"index": at, "embedding": []} for at in range(2)]),
    changed(data=[{"index": at, "embedding": [1.0] * (limits.VECTOR_DIMENSIONS + 1)} for at in range(2)]),
    with_first([1.0]),
    with_first([0.0] * 32),
    with_first([1e39] * 32),
    with_first("no list"),
    with_first(None),
    said(b'{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1]}]}'),
    said(b'{"data": [{"index": 0, "embedding": [1e999]}, {"index": 1, "embedding": [1]}]}'),
    said(b'{"data": [{"index": 0, "embedding": [Infinity]}, {"index": 1, "embedding": [1]}]}'),
    said(b"[" * 100_000),
    said(b""),
    not_json(),
    other_json(),
    says(b"", "text/plain", "204 No Content"),
    says(b"", "text/plain", "301 Moved", "Location: http://127.0.0.1:1/"),
)


@pytest.mark.parametrize("behaviour", one_in(4, BAD))
def test_an_answer_without_a_usable_vector_for_each_text_is_bad(behaviour: Behaviour) -> None:
    """Wrong counts, wrong sizes, NaN, infinity, zeros, other JSON, redirects: one failure, and nothing is retried."""
    batch, waits = asked(behaviour)
    assert (code(batch), batch.vectors, waits) == ("bad_response", (), [])


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (rate_limited(), "rate_limited"),
        (failing(), "server_error"),
        (closing(), "bad_response"),
        (half_a_body(), "bad_response"),
    ],
)
def test_what_may_pass_is_retried_as_often_as_calls_of_models(behaviour: Behaviour, expected: str) -> None:
    batch, waits = asked(behaviour)
    assert (code(batch), batch.attempts, waits) == (None, 2, [1.0])
    batch, waits = asked(*[behaviour] * 3)
    assert (code(batch), batch.attempts, waits) == (expected, 3, [1.0, 2.0])


def test_the_wait_is_what_the_server_asks_for_or_none_if_that_is_long() -> None:
    assert asked(rate_limited(7))[1] == [7.0]
    batch, waits = asked(rate_limited(3_600))
    assert (code(batch), waits) == ("rate_limited", [])


@pytest.mark.parametrize(
    "behaviour", [hanging(), drips(head(), b" ", 0.02), drips(head(), b" ", 0.4), drips(b"HTTP/1.1 2", b"0", 0.02)]
)
def test_a_slow_answer_ends_in_time(behaviour: Behaviour) -> None:
    began = time.monotonic()
    batch, _ = asked(behaviour, timeout_s=0.3)
    assert code(batch) == "timeout"
    assert time.monotonic() - began < 5


def test_a_huge_answer_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LM_RESPONSE_BYTES", 1_000)
    assert code(asked(flooding())[0]) == "response_too_long"
    chunked = answering(lambda body: body | {"padding": "x" * 5_000})
    assert code(asked(chunked)[0]) == "response_too_long"


def test_nobody_listens() -> None:
    with embedding_server() as server:
        url = server.url
    with EmbeddingEndpoint(EmbeddingChoice(model="m", base_url=url), sleep=lambda s: None) as endpoint:
        batch = endpoint.embed(TEXTS)
    assert (code(batch), batch.attempts) == ("unreachable", 3)


def test_the_key_goes_to_the_named_address_only_and_into_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "k-123456789-secret")
    with embedding_server([unauthorized("the key k-123456789-secret is wrong")]) as server:
        with EmbeddingEndpoint(EmbeddingChoice(model="m", base_url=server.url)) as endpoint:
            batch = endpoint.embed(TEXTS)
        assert server.headers[0]["authorization"] == "Bearer k-123456789-secret"
    assert batch.failure is not None and "k-123456789" not in str(batch.failure)
    with pytest.raises(BadInput, match="unencrypted"):
        EmbeddingEndpoint(EmbeddingChoice(model="m", base_url="http://embeddings.example/v1"))


def test_without_a_key_none_is_sent_and_no_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-server-0123456789")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with embedding_server() as server:
        with EmbeddingEndpoint(EmbeddingChoice(model="m", base_url=server.url)) as endpoint:
            assert endpoint.embed(TEXTS).failure is None
        assert "authorization" not in server.headers[0]


@pytest.mark.parametrize(
    "given",
    [
        {"model": "", "base_url": "http://localhost/v1"},
        {"model": "sk-0123456789abcdefghij", "base_url": "http://localhost/v1"},
        {"model": "m", "base_url": "localhost/v1"},
        {"model": "m", "base_url": "file:///etc/passwd"},
        {"model": "m", "base_url": "http://user:pass@localhost/v1"},
        {"model": "m", "base_url": "http://localhost/v1?api_key=1"},
        {"model": "m", "base_url": "http://localhost/v1", "timeout_s": 0},
    ],
)
def test_a_choice_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        EmbeddingChoice(**given)


WHOLE = json.dumps(embeddings(TEXTS)).encode()
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("embedding", "index")), inner),
    max_leaves=6,
)


@given(
    st.one_of(
        st.binary(max_size=50),
        st.integers(0, len(WHOLE)).map(lambda at: WHOLE[:at]),
        values.map(lambda value: json.dumps({"data": [value, value]}).encode()),
    )
)
def test_any_answer_is_read_or_refused(body: bytes) -> None:
    """Nothing else is raised, and what is read has a direction."""
    try:
        batch = read_answer(body, 2)
    except LmFailed as failure:
        assert failure.code == "bad_response"
    else:
        assert len({len(row) for row in batch.vectors}) == 1 and all(any(row) for row in batch.vectors)
