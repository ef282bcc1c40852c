"""The full-text index: its columns, and the tokens of texts with their counts, by SQLite's own tokenizer.

It is asked about each ASCII word only once, because such a word's token doesn't depend on what stands beside it. Texts
with other characters, where that isn't sure, are given to it whole.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, starmap
from typing import NamedTuple

from rbank_es.policies.word_relevance import Document
from rbank_es.policies.words import compound_parts, words_of
from rbank_es.projections.builder import in_memory

FTS_COLUMNS = ("title", "desc", "content", "tags")
"""The columns of the full-text index, in the order of a retrieval policy's weights."""

TOKENIZER = "porter unicode61"

# One row for each token of the texts in the index.
_TOKENS = "CREATE VIRTUAL TABLE spelled_tokens USING fts5vocab(spelled, 'instance')"

# How often a column has a token, in so many bits: more than a text of 16 MiB can have words.
_COUNT_BITS = 24
_COUNT = (1 << _COUNT_BITS) - 1
# FTS5 cuts a token at 32,768 bytes, even within a character: a text of so few characters has no such token.
_SURELY_WHOLE = 32_768 // 4
# The content is in the lowest bits, because most tokens are only there, and small numbers are quick.
_TAGS, _DESC, _TITLE, _PART = (1 << place * _COUNT_BITS for place in (1, 2, 3, 4))


class CountedText(NamedTuple):
    """The counts of a text's terms, packed: `own` of its columns, and those `among` parts of names alone.

    `length` is the number of tokens in its columns.
    """

    own: Mapping[str, int]
    among: Mapping[str, int]
    length: int


class Tokenizer:
    """The tokens of words and texts. Close it after use; for one thread."""

    def __init__(self) -> None:
        """Begin without a word."""
        self._made: sqlite3.Connection | None = None
        self._known: dict[str, tuple[str, ...]] = {}

    def close(self) -> None:
        """Drop all words."""
        if self._made is not None:
            self._made.close()

    def learn(self, texts: Iterable[str]) -> None:
        """Learn the words of texts that will be read: to ask for many words takes little longer than for a few."""
        self._learn(chain.from_iterable(words_of(text) for text in texts if text.isascii()))

    def tokens(self, words: Sequence[str]) -> list[str] | None:
        """Return the token of each word of a query; None if one has none, or several, which only match as a phrase."""
        self._learn(words)
        tokens = [self._known[word] for word in words]
        return [some[0] for some in tokens] if all(len(some) == 1 for some in tokens) else None

    def read(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the tokens of each word of a query: one as a rule; none for what the tokenizer passes over."""
        self._learn(words)
        return [self._known[word] for word in words]

    def documents(self, rows: Sequence[tuple[str, str, str, str]]) -> Iterator[Document]:
        """Yield the document of each row of columns (title, desc, content, tags). They are in memory together."""
        parts = (" ".join(part for text in row for part in compound_parts(text)) for row in rows)
        counted = self.counted([text for row, more in zip(rows, parts, strict=True) for text in (*row, more)])
        for title in counted:
            yield Document((title, next(counted), next(counted), next(counted)), next(counted))

    def counted(self, texts: Sequence[str]) -> Iterator[Counter[str]]:
        """Yield how often each text has each of its tokens. Those of all texts are in memory together."""
        return map(Counter, self.sequences(texts))

    def sequences(self, texts: Sequence[str]) -> Iterator[Iterable[str]]:
        """Yield the tokens of each text, in an order that depends on that text alone."""
        words = [words_of(text) if text.isascii() else None for text in texts]
        self._learn(chain.from_iterable(some for some in words if some is not None))
        others = iter(self._spelled([text for text, some in zip(texts, words, strict=True) if some is None]))
        for some in words:
            yield next(others) if some is None else chain.from_iterable(map(self._known.__getitem__, some))

    def _learn(self, words: Iterable[str]) -> None:
        new = [word for word in {*words} if word not in self._known]
        if new:
            self._known.update(zip(new, map(tuple, self._spelled(new)), strict=True))

    def _index(self) -> sqlite3.Connection:
        if self._made is None:
            self._made = in_memory()
            self._made.execute(fts_ddl("spelled", ""))
            self._made.execute(_TOKENS)
        return self._made

    def _spelled(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens of each text, in order of the tokens."""
        if not texts:
            return []
        run, found = self._index(), [list[str]() for _ in texts]
        run.text_factory = _whole_characters if max(map(len, texts)) > _SURELY_WHOLE else str
        run.execute("BEGIN")
        run.executemany("INSERT INTO spelled (rowid, content) VALUES (?, ?)", enumerate(texts))
        for token, number in run.execute("SELECT term, doc FROM spelled_tokens"):
            found[number].append(token)
        run.execute("INSERT INTO spelled (spelled) VALUES ('delete-all')")
        run.execute("COMMIT")
        return found


def _whole_characters(token: bytes) -> str:
    """Return a token that FTS5 may have cut, without the bytes of a character that it has only in part."""
    return token.decode(errors="ignore")


def fts_ddl(name: str, content: str) -> str:
    """Return the statement that creates a full-text index like the live one; `content` names its text table, if any."""
    columns = ", ".join(f'"{column}"' for column in FTS_COLUMNS)
    rowid = ", content_rowid='text'" if content else ""
    return f"CREATE VIRTUAL TABLE {name} USING fts5({columns}, content='{content}'{rowid}, tokenize='{TOKENIZER}')"


def counted_texts(tokenizer: Tokenizer, rows: Iterable[Sequence[str]]) -> Iterator[CountedText]:
    """Yield the counts of each row of title, desc, content and tags."""
    # A line break is in no name, so the parts of the columns are those of their lines.
    columns = [text for row in rows for text in (*row, " ".join(compound_parts("\n".join(row))))]
    return starmap(counted_columns, zip(*[tokenizer.sequences(columns)] * 5, strict=True))


def counts_of(packed: int) -> tuple[int, ...]:
    """Return the counts that are packed in a number: of title, desc, content, tags and parts."""
    return tuple(packed // one & _COUNT for one in (_TITLE, _DESC, 1, _TAGS, _PART))


def counted_columns(
    title: Iterable[str], desc: Iterable[str], content: Iterable[str], tags: Iterable[str], parts: Iterable[str]
) -> CountedText:
    """Return the counts of the tokens of columns, and of parts of names."""
    # A Counter counts in C, and most tokens are in the content.
    own: dict[str, int] = Counter(content)
    length = sum(own.values())
    for tokens, one in ((title, _TITLE), (desc, _DESC), (tags, _TAGS)):
        for token in tokens:
            length += 1
            own[token] = own.get(token, 0) + one
    among: dict[str, int] = {}
    for token in parts:
        counts = own if token in own else among
        counts[token] = counts.get(token, 0) + _PART
    return CountedText(own, among, length)
