"""A server on the loopback that speaks as OpenAI does (/v1/embeddings), and misbehaves where it is told to.

    with embedding_server([rate_limited(0)]) as server:
        EmbeddingChoice(model="m", base_url=server.url)

Behaviours answer in order; after the last, vectors are given: of words, so that texts that share some are near.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from tests.models.openai_server import JSON
from tests.sparql.fault_server import Asked, Behaviour, FaultServer, says, whole

DIMENSIONS = 32


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """A vector with a direction for each word."""
    numbers = [0.01] * dimensions
    for word in text.lower().replace("?", " ").replace(".", " ").split():
        numbers[sha256(word.encode()).digest()[0] % dimensions] += 1.0
    return numbers


def embeddings(texts: Sequence[str], *, dimensions: int = DIMENSIONS, **more: Any) -> dict[str, Any]:
    """The body of an answer."""
    data = [
        {"object": "embedding", "index": at, "embedding": vector(text, dimensions)} for at, text in enumerate(texts)
    ]
    tokens = sum(len(text.split()) for text in texts)
    return {"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": tokens}} | more


def answering(change: Any) -> Behaviour:
    """A behaviour that changes the body of a right answer; `change` takes and returns it."""

    def behave(connection: Any, asked: Asked) -> None:
        body = change(embeddings(json.loads(asked.body)["input"]))
        says(body if isinstance(body, bytes) else json.dumps(body).encode(), JSON)(connection, asked)

    return behave


def half_a_body() -> Behaviour:
    body = json.dumps(embeddings(["a text"])).encode()
    return lambda connection, asked: connection.sendall(whole(body, JSON)[: -len(body) // 2])


class EmbeddingServer:
    """What it was asked is in `requests` (bodies) and `headers`; it is at `url`."""

    def __init__(self, behaviours: Sequence[Behaviour]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.dimensions = DIMENSIONS
        self._behaviours = list(behaviours)
        self._server = FaultServer()
        self.url = self._server.url + "/v1"
        self._server.at("/v1/embeddings", self._answer)

    @property
    def texts(self) -> list[str]:
        """All texts that it was sent, in order."""
        return [text for body in self.requests for text in body["input"]]

    def _answer(self, connection: Any, asked: Asked) -> None:
        body = json.loads(asked.body)
        self.requests.append(body)
        self.headers.append({name.lower(): value for name, value in asked.headers.items()})
        if self._behaviours:
            self._behaviours.pop(0)(connection, asked)
        else:
            answer = embeddings(body["input"], dimensions=self.dimensions)
            says(json.dumps(answer).encode(), JSON)(connection, asked)

    @contextmanager
    def running(self) -> Iterator[EmbeddingServer]:
        with self._server.running():
            yield self


@contextmanager
def embedding_server(behaviours: Sequence[Behaviour] = ()) -> Iterator[EmbeddingServer]:
    """A server that runs while the block does."""
    with EmbeddingServer(behaviours).running() as server:
        yield server
