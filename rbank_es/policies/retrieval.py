"""Retrieval: which words of a question are searched for, how columns weigh, and how many items come back."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from rbank_es import limits
from rbank_es.policies.policy import Policy
from rbank_es.policies.words import stop_words, words_of

Weight = Annotated[float, Meta(ge=0, le=1_000)]


class RetrievalPolicy(Policy, frozen=True, kw_only=True):
    """BM25 over the bank's full-text index.

    `k` is how many items are returned where the caller names no number, `weights` are those of title, desc,
    content and tags, `stop_words` names the list of words that are not searched for.
    """

    kind = "retrieval"
    name = "bm25"

    k: Annotated[int, Meta(ge=1, le=limits.SEARCH_HITS)] = 1
    weights: tuple[Weight, Weight, Weight, Weight] = (1.0, 1.0, 1.0, 1.0)
    stop_words: str = "english-1"

    def __post_init__(self) -> None:
        stop_words(self.stop_words)


def query_words(query: str, stop_list: str = "english-1") -> tuple[str, ...]:
    """The distinct words that a query searches for, in order: its words without stop words, or with them if it has
    no others. At most `limits.QUERY_WORDS`, from the first `limits.QUERY_CHARS` characters.

    Raises `BadPolicy` for an unknown list.
    """
    dropped = stop_words(stop_list)
    found = dict.fromkeys(words_of(query[: limits.QUERY_CHARS]))
    kept = [word for word in found if word not in dropped] or list(found)
    return tuple(kept[: limits.QUERY_WORDS])


def match_expression(query: str, stop_list: str = "english-1") -> str | None:
    """The query as FTS5 takes it: `query_words`, each quoted, joined by OR; None when there is no word.

    Nothing in a query is syntax: quotes, operators, NUL and punctuation only part words. Raises `BadPolicy` for an
    unknown list.
    """
    return " OR ".join(f'"{word}"' for word in query_words(query, stop_list)) or None
