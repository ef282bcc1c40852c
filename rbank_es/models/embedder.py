"""The embedder: asks an endpoint for the vectors that a bank lacks, and records each answer as an event.

It never fails a run. A failure is recorded, too, and retrieval falls back to words where vectors are missing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.events import WordsEmbedded
from rbank_es.events.redaction import redact, secrets
from rbank_es.events.vector_text import text_digest, vector_text
from rbank_es.models.embedding_endpoint import EmbeddedBatch, EmbeddingChoice, EmbeddingEndpoint, failure_of_size
from rbank_es.models.model_call import STOPPING
from rbank_es.models.model_choice import check_address
from rbank_es.policies import HybridV1, retrieval_policy
from rbank_es.system.progress import OnProgress

if TYPE_CHECKING:
    from rbank_es.bank import Bank


class Endpoint(Protocol):
    """A source of vectors: `EmbeddingEndpoint`, or another."""

    def embed(self, texts: Sequence[str]) -> EmbeddedBatch:
        """Return a vector for each text, or a failure."""
        ...


class MissingVectors(msgspec.Struct, frozen=True, kw_only=True):
    """The texts that have no vector of a model: active items as pairs of id and text, and queries."""

    model: str
    items: tuple[tuple[str, str], ...] = ()
    queries: tuple[str, ...] = ()

    @property
    def chars(self) -> int:
        """Characters that would be sent."""
        texts = (*(text for _, text in self.items), *self.queries)
        return sum(min(len(text), limits.EMBEDDING_TEXT_CHARS) for text in texts)


def missing_vectors(bank: Bank, model: str, queries: Iterable[str] = (), *, items: bool = True) -> MissingVectors:
    """Return which active items of a bank, and which of some queries, have no vector of a model yet.

    A query that holds a key of the environment is left out, because it would be sent.
    """
    with bank.live() as view:
        lacking = tuple(view.unembedded(model)) if items else ()
        known = view.known_vectors(model).queries
    hidden = secrets()
    wanted = dict.fromkeys(text for text in queries if text.strip() and redact(text, hidden) == text)
    return MissingVectors(
        model=model, items=lacking, queries=tuple(text for text in wanted if text_digest(text) not in known)
    )


class Embedder:
    """Embeds what a bank lacks by one model. `failures` has what went wrong, in order."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self.model = model
        self.failures: list[LmFailed] = []
        self._endpoint = endpoint
        self._dimensions: int | None = None

    @property
    def given_up(self) -> bool:
        """Whether no more is asked: after `limits.EMBEDDING_FAILURES`, or one that every later request would meet."""
        lasting = any(each.code in STOPPING or each.code == "wrong_dimensions" for each in self.failures)
        return lasting or len(self.failures) >= limits.EMBEDDING_FAILURES

    def embed(
        self, bank: Bank, missing: MissingVectors, *, run: str | None = None, progress: OnProgress | None = None
    ) -> int:
        """Ask for the vectors of what is missing, and record them request by request; return how many were recorded.

        After a failure nothing more is asked for. Raises as `Bank.append`.
        """
        done, total = 0, len(missing.items) + len(missing.queries)
        for batch in _batches(missing):
            if progress is not None:
                progress(done, total)
            event = self._asked(bank, batch, run)
            bank.append(event)
            if event.error_code is not None:
                break
            done += len(batch.texts)
        if progress is not None:
            progress(done, total)
        return done

    def _asked(self, bank: Bank, batch: _Batch, run: str | None) -> WordsEmbedded:
        got = self._endpoint.embed([text for _, text in batch.texts])
        size = len(got.vectors[0]) if got.vectors else None
        failure = got.failure or self._failure_of(bank, size)
        blank = WordsEmbedded(
            run=run,
            purpose=batch.purpose,
            model=self.model,
            attempts=got.attempts,
            tokens_in=got.tokens_in,
            duration_s=got.duration_s,
        )
        if failure is not None:
            self.failures.append(failure)
            return msgspec.structs.replace(blank, error_code=failure.code, error=failure.message)
        rows = zip(batch.texts, got.vectors, strict=True)
        return msgspec.structs.replace(
            blank,
            dimensions=size,
            items=tuple(id for id, _ in batch.texts) if batch.purpose == "item" else (),
            vectors=tuple(vector_text(text_digest(text), vector) for (_, text), vector in rows),
        )

    def _failure_of(self, bank: Bank, size: int | None) -> LmFailed | None:
        """Return the failure of vectors that have another size than those before them."""
        if self._dimensions is None:
            with bank.live() as view:
                self._dimensions = view.known_vectors(self.model).dimensions or size
        known = self._dimensions
        return None if size is None or known is None or size == known else failure_of_size(size, known)


class SearchVectors:
    """Has vectors recorded for searches, where the retrieval policy in force ranks by them. For several threads.

    The model is the policy's; the address is a person's, because nothing in a bank may say where words are sent.
    """

    def __init__(self, base_url: str, *, timeout_s: float = limits.EMBEDDING_TIME_S) -> None:
        """Keep the address; nothing is sent. Raises `BadInput` for one that can't be."""
        check_address(base_url)
        self._base_url, self._timeout_s = base_url, timeout_s
        self._stack = ExitStack()
        self._embedders: dict[str, Embedder] = {}
        self._mutex = threading.Lock()

    def __enter__(self) -> SearchVectors:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def failures(self) -> list[LmFailed]:
        """What went wrong so far."""
        return [failure for each in self._embedders.values() for failure in each.failures]

    def prepare(self, bank: Bank, query: str, *, run: str | None = None, items: bool = False) -> None:
        """Have a vector recorded for a query that has none, and with `items` for every active item without one.

        Does nothing under other policies, or after the endpoint was given up. Raises as `Bank.append`.
        """
        model = vector_model(bank)
        if not model:
            return
        with self._mutex:
            # One at a time: rollouts side by side may search for the same words, which are then sent once.
            embedder = self._embedder(model)
            if not embedder.given_up:
                embedder.embed(bank, missing_vectors(bank, model, (query,), items=items), run=run)

    def _embedder(self, model: str) -> Embedder:
        if model not in self._embedders:
            choice = EmbeddingChoice(model=model, base_url=self._base_url, timeout_s=self._timeout_s)
            endpoint = self._stack.enter_context(EmbeddingEndpoint(choice))
            self._embedders[model] = Embedder(endpoint, model)
        return self._embedders[model]


def vector_model(bank: Bank) -> str:
    """Return the model by whose vectors the retrieval policy in force ranks; empty if it ranks by none."""
    policy = retrieval_policy(bank.policy_choice("retrieval"))
    return policy.model if isinstance(policy, HybridV1) else ""


class _Batch(msgspec.Struct, frozen=True):
    purpose: Literal["item", "query"]
    texts: list[tuple[str, str]]


def _batches(missing: MissingVectors) -> Iterator[_Batch]:
    yield from (_Batch("item", texts) for texts in _requests(missing.items))
    yield from (_Batch("query", texts) for texts in _requests([("", text) for text in missing.queries]))


def _requests(texts: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Yield as many texts at a time as one request holds."""
    held: list[tuple[str, str]] = []
    chars = 0
    for each in texts:
        size = min(len(each[1]), limits.EMBEDDING_TEXT_CHARS)
        if held and (len(held) == limits.EMBEDDING_TEXTS or chars + size > limits.EMBEDDING_CHARS):
            yield held
            held, chars = [], 0
        held.append(each)
        chars += size
    if held:
        yield held
