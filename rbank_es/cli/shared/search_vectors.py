"""Vectors for the searches of a command that runs agents, and the warning about those that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from rbank_es.cli.shared.output import count, warn

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.models.embedder import SearchVectors

embeddings_option = click.option(
    "--embeddings-url", metavar="URL",
    help="The endpoint that gives vectors of questions and items, where the bank's retrieval policy is hybrid-1.",
)  # fmt: skip


_FALLBACKS = {
    "no-query-vector": "the query has no vector, so words alone rank it: retrieval embed --query TEXT records one",
    "items-without-vector": "some items have no vector, so words rank those: retrieval embed records theirs",
}


def fallback_note(code: str) -> str:
    """Return the warning about a fallback that a retrieval records."""
    return _FALLBACKS.get(code, f"another ranking took the policy's place: {code}")


@contextmanager
def search_vectors(bank: Bank, url: str | None) -> Iterator[SearchVectors | None]:
    """Yield what gives searches their vectors, None without a URL; at the end, warn of what was not given.

    Raises `BadInput` for a URL that can't be.
    """
    choice = bank.policy_choice("retrieval")
    if url is None:
        if choice is not None and choice.name == "hybrid":
            warn("the bank's retrieval policy is hybrid-1: without --embeddings-url, words alone rank new questions")
        yield None
        return
    from rbank_es.models.embedder import SearchVectors

    with SearchVectors(url) as vectors:
        try:
            yield vectors
        finally:
            if vectors.failures:
                failed = count(len(vectors.failures), "request")
                warn(f"{failed} for vectors failed, so words alone ranked; the first: {vectors.failures[0]}")
