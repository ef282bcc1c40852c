"""The tables of stems beside their postings: the language of each text, and every word as it is written.

The postings of stems are like those of tokens (`search_tables`), so a search as of any position reads the same rows. A
word stays in `spellings` while its text is in the log: whether an active item has it is read from the items themselves,
so no row is of a position. Without the right stemmer the tables stay empty, and a search that needs them says so.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import unidata_version

from rbank_es.policies.stem_relevance import SpelledText, read_text
from rbank_es.projections.search_tables import LENGTHS_TEXTS, PostingWriter
from rbank_es.projections.tokenizer import CountedText, counted_columns
from rbank_es.text.spelled_words import letters_of
from rbank_es.text.stems import LANGUAGES, STEMMER, installed_stemmer, stems_of

STEM_TABLES = {
    # A byte for each text: 0 for English, and so on in the order of `LANGUAGES`.
    "stem_languages": "CREATE TABLE stem_languages (first INTEGER PRIMARY KEY, languages BLOB NOT NULL)",
    # Those that a misspelt word may mean. `letters` is the set by which most are told apart unread.
    "spellings": (
        "CREATE TABLE spellings (chars INTEGER NOT NULL, spelling TEXT NOT NULL, stem TEXT NOT NULL, "
        "letters INTEGER NOT NULL, PRIMARY KEY (chars, spelling, stem)) WITHOUT ROWID"
    ),
}
"""The tables by name, with the statements that create them."""

STEM_RULE = f"stems-1 of snowballstemmer {installed_stemmer()}, Unicode {unidata_version}"
"""By which stems are: with another stemmer the read models are made again."""


# Of each length, because the words of one length stand together by alphabet.
_NEAR = """
WITH RECURSIVE sizes (chars, most) AS (SELECT ?, ? UNION ALL SELECT chars + 1, most FROM sizes WHERE chars < most)
SELECT w.spelling, w.stem, w.letters FROM sizes s CROSS JOIN spellings w
WHERE w.chars = s.chars AND w.spelling BETWEEN ? AND ?
"""


def fill_stems(connection: sqlite3.Connection) -> None:
    """Take the stems of new candidates into the tables."""
    writer = PostingWriter(connection, "stem")
    if not writer.is_behind or installed_stemmer() != STEMMER:
        return
    languages, words = bytearray(), defaultdict[str, set[str]](set)

    def counted(rows: Sequence[Sequence[str]]) -> Iterator[CountedText]:
        for text in map(read_text, rows):
            languages.append(LANGUAGES.index(text.language))
            words[text.language].update(*text.columns, text.parts)
            yield counted_stems(text)

    first = writer.last + 1
    writer.extend(counted)
    _write_languages(connection, first, bytes(languages))
    # Once for each word, because most words of a text are in others, too.
    spellings = {pair for name, some in words.items() for pair in SpelledText(name, (list(some),), []).spellings()}
    rows = ((len(spelling), spelling, stem, letters_of(spelling)) for spelling, stem in sorted(spellings))
    connection.executemany("INSERT OR IGNORE INTO spellings VALUES (?, ?, ?, ?)", rows)


def counted_stems(text: SpelledText) -> CountedText:
    """Return the counts of the stems of a text."""
    stem = stems_of(text.language).__getitem__
    title, desc, content, tags = text.columns
    return counted_columns(*(map(stem, words) for words in (title, desc, content, tags, text.parts)))


def languages_of(connection: sqlite3.Connection) -> bytes:
    """Return the number of the language of each text. There is no text 0."""
    rows = connection.execute("SELECT languages FROM stem_languages ORDER BY first")
    return b"".join(languages for (languages,) in rows)


def spellings_near(connection: sqlite3.Connection, word: str, most: int) -> Iterable[tuple[str, str]]:
    """Return the words of texts, with their stems, that may be so few edits from a word with the same beginning."""
    wanted = letters_of(word)
    for beginning in (word[0], word[1] + word[0]):
        bounds = (len(word) - most, len(word) + most, beginning, beginning + "\U0010ffff")
        rows = connection.execute(_NEAR, bounds)
        yield from [(spelling, stem) for spelling, stem, letters in rows if (letters ^ wanted).bit_count() <= 2 * most]


def _write_languages(connection: sqlite3.Connection, first: int, languages: bytes) -> None:
    """Write the languages of texts from a number on, in rows of `LENGTHS_TEXTS`."""
    begun = first // LENGTHS_TEXTS * LENGTHS_TEXTS
    row = connection.execute("SELECT languages FROM stem_languages WHERE first = ?", (begun,)).fetchone()
    whole = (row[0] if row else bytes(first - begun)) + languages
    rows = ((begun + at, whole[at : at + LENGTHS_TEXTS]) for at in range(0, len(whole), LENGTHS_TEXTS))
    connection.executemany("INSERT OR REPLACE INTO stem_languages VALUES (?, ?)", rows)
