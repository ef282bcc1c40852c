"""The endpoint of an embedding model: OpenAI's protocol, `POST …/embeddings`, over httpx.

Whatever the endpoint does, a request ends in time, takes no more memory than its bounds, and gives as many usable
vectors as texts were sent, or a failure with a code. It connects to the address that a person named and nowhere else.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, LmFailed
from rbank_es.events.redaction import redact, secrets
from rbank_es.events.vector_text import check_direction
from rbank_es.models.answer_bounds import AnswerDeadline, bounded, run_within
from rbank_es.models.model_call import RetryableFailure, wait_s
from rbank_es.models.model_choice import LOOPBACK, check_address, check_model
from rbank_es.models.openai_model import refusal
from rbank_es.models.server_http import connection_failures, server_client
from rbank_es.system.error_hints import MODEL_HINTS

if TYPE_CHECKING:
    import httpx

KEY_VARIABLE = "RBANK_EMBEDDINGS_KEY"
"""The environment variable with the key. A name of its own, because no other server's key may be sent there."""

_HINTS = MODEL_HINTS | {
    "timeout": "Run again; what was recorded is not asked for again",
    "rate_limited": "Wait, then run again; what was recorded is not asked for again",
    "wrong_key": f"Check the key in {KEY_VARIABLE}",
    "refused": "Check the name of the model",
    "bad_response": "Check that the address is that of an embedding endpoint",
    "response_too_long": "Check that the address is that of an embedding endpoint",
    "wrong_dimensions": "Vectors of one model have one size: give the model that the endpoint has now another name",
}


class EmbeddingChoice(msgspec.Struct, frozen=True, kw_only=True):
    """An embedding model and where it is: `base_url` is the address before `/embeddings`.

    Raises `BadInput` for a name or an address that can't be, and for anything that looks like a key.
    """

    model: str
    base_url: str
    timeout_s: float = limits.EMBEDDING_TIME_S

    def __post_init__(self) -> None:
        check_model(self.model)
        check_address(self.base_url)
        if not 0 < self.timeout_s <= limits.LM_TIME_MOST_S:
            raise BadInput(f"{self.timeout_s:g} s is no time limit; give up to {limits.LM_TIME_MOST_S:,}")


class EmbeddedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a request: a vector for each text, in order, or the failure; with what it took."""

    vectors: tuple[array[float], ...] = ()
    tokens_in: int | None = None
    attempts: int = 1
    duration_s: float = 0.0
    failure: LmFailed | None = None


class _Row(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Row]
    usage: _Usage | None = None


class EmbeddingEndpoint:
    """A client of one endpoint, for one thread. Close it, or use it in a `with`."""

    def __init__(self, choice: EmbeddingChoice, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Take the key from the environment, if there is one; nothing is sent.

        Raises `BadInput` if the key would go to another machine unencrypted.
        """
        self.choice = choice
        self._key = os.environ.get(KEY_VARIABLE, "").strip()
        parts = urlsplit(choice.base_url)
        if self._key and parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise BadInput(f"the key in {KEY_VARIABLE} would go unencrypted to {parts.hostname}; give an https address")
        self._sleep = sleep
        self._client: httpx.Client | None = None

    def __enter__(self) -> EmbeddingEndpoint:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def embed(self, texts: Sequence[str]) -> EmbeddedBatch:
        """Return the vectors of texts, after as many tries as calls of models have.

        Of a text, the first `EMBEDDING_TEXT_CHARS` characters are sent.
        """
        began, attempts = time.perf_counter(), 0
        sent = msgspec.json.encode(
            {
                "model": self.choice.model,
                "input": [text[: limits.EMBEDDING_TEXT_CHARS] for text in texts],
                "encoding_format": "float",
            }
        )
        while True:
            attempts += 1
            try:
                # httpx bounds each read, not their sum: a server that answers byte by byte would never end.
                made = run_within(self.choice.timeout_s, lambda: self._once(sent, len(texts)))
                return msgspec.structs.replace(made, attempts=attempts, duration_s=_since(began))
            except RetryableFailure as turned:
                given, pause_s = turned.failure, wait_s(attempts, turned.asked_s)
            except LmFailed as failure:
                given, pause_s = failure, None
            if pause_s is None:
                failed = _failed(given.code, given.message)
                return EmbeddedBatch(failure=failed, attempts=attempts, duration_s=_since(began))
            self._sleep(pause_s)

    def _once(self, sent: bytes, count: int) -> EmbeddedBatch:
        deadline = AnswerDeadline(self.choice.timeout_s, "the answer didn't end in time")
        self._client = self._client or server_client(self.choice.timeout_s, self._key)
        url = f"{self.choice.base_url.rstrip('/')}/embeddings"
        with connection_failures(), self._client.stream("POST", url, content=sent) as found:
            body = b"".join(bounded(found.iter_raw(), deadline))
        if found.status_code != 200:
            refused = refusal(found.status_code, found.headers, body, KEY_VARIABLE)
            # What is neither an answer nor an error, such as a redirect, comes again.
            again = isinstance(refused, RetryableFailure) and refused.failure.code != "bad_response"
            raise refused if again or isinstance(refused, LmFailed) else refused.failure
        return read_answer(body, count)


def read_answer(body: bytes, count: int) -> EmbeddedBatch:
    """Return the vectors of an answer, in the order of the texts. Raises `LmFailed` (bad_response)."""
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _failed("bad_response", f"the answer holds no vectors: {error}") from None
    rows = answer.data
    places = [place if row.index is None else row.index for place, row in enumerate(rows)]
    if sorted(places) != list(range(count)):
        raise _failed("bad_response", f"the answer holds {len(rows):,} vectors of {count:,} texts, or not one of each")
    sizes = {len(row.embedding) for row in rows}
    if len(sizes) != 1 or not 0 < max(sizes) <= limits.VECTOR_DIMENSIONS:
        raise _failed(
            "bad_response",
            f"the answer holds vectors of {', '.join(map(str, sorted(sizes)[: limits.NAMES_LISTED]))} numbers",
        )
    ordered = sorted(zip(places, rows, strict=True), key=lambda pair: pair[0])
    try:
        vectors = tuple(_vector(row.embedding) for _, row in ordered)
    except (ValueError, OverflowError) as error:
        raise _failed("bad_response", f"the answer holds a vector of no direction: {error}") from None
    tokens = answer.usage.prompt_tokens if answer.usage is not None else None
    return EmbeddedBatch(vectors=vectors, tokens_in=None if tokens is None else max(0, min(tokens, limits.COUNT_MOST)))


def failure_of_size(found: int, known: int) -> LmFailed:
    """Return the failure of vectors that have another size than those recorded for the model."""
    return _failed("wrong_dimensions", f"the endpoint gives vectors of {found:,} numbers; the bank has {known:,}")


def _vector(numbers: Sequence[float]) -> array[float]:
    made = array("f", numbers)
    check_direction(made)
    return made


def _failed(code: str, message: str) -> LmFailed:
    # Redacted here, because every message is recorded.
    return LmFailed(code, redact(message, secrets())[: limits.ERROR_CHARS], _HINTS.get(code, MODEL_HINTS["unexpected"]))


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 6)
