"""Words, for searching and for comparing items: runs of letters and digits, composed (NFC) and in lower case."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from rbank_es import limits
from rbank_es.errors import BadPolicy

# Letters and digits of any script. An underscore parts words, because the full-text index parts them there.
_WORD = re.compile(r"[^\W_]+")
# Each ASCII character in lower case, a space for what parts words: to split takes half as long as to match.
_ASCII_WORDS = "".join(char.lower() if char.isalnum() else " " for char in map(chr, range(128)))

_ENGLISH_1 = """
a about above after again against also although am among an and another any anybody anyone anything are as at be
because been before being below between both but by can cannot could did do does doing done down during each either
else etc ever every everyone everything few for from further get gets getting give given gives got had has have having
he her here hers herself him himself his how however i if in into is it its itself just let like ll made make makes
many may me might more most much must my myself need needs neither nor of off often on once one onto or other others
ought our ours ourselves out over own per please put rather re really s shall she should show since so some somebody
someone something still such t than that the their theirs them themselves then there therefore these they thing things
this those though through thus to too toward towards under until up upon us use used uses using ve very via want wants
was way we well were what whatever when whenever where whether which while who whoever whole whom whose why will with
within would yes yet you your yours yourself yourselves
"""
_ENGLISH = frozenset(_ENGLISH_1.split())

STOP_WORDS: dict[str, frozenset[str]] = {
    "none": frozenset(),
    "english-1": _ENGLISH,
    # Without these, on small banks 20 to 58 % of questions find nothing.
    "english-2": _ENGLISH - {"how", "many", "which"},
}
"""Lists of words that a search leaves out, by name and version. A list never changes: a better one gets a new name."""


def words_of(text: str) -> list[str]:
    """Return the words of a text in order, with repetitions; none for a text without letters or digits."""
    if text.isascii():  # most are: the same words, at a sixth of the cost
        return text.translate(_ASCII_WORDS).split()
    # Composed, because é typed as one code point and as two must be the same word.
    return [word.lower() for word in _WORD.findall(unicodedata.normalize("NFC", text))]


def names_of(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case, that name or number one thing: those with a digit, or with a capital
    where no sentence begins. A word that is also written otherwise is none; capitals don't count where all words have
    them.
    """
    text = unicodedata.normalize("NFC", text)
    names: set[str] = set()
    others: set[str] = set()
    end = 0
    written = [*_WORD.finditer(text)]
    telling = any(match[0][0].islower() for match in written)
    for match in written:
        begins = not end or any(mark in ".?!:\n" for mark in text[end : match.start()])
        capital = telling and match[0][0].isupper() and not begins
        named = capital or any(char.isdigit() for char in match[0])
        (names if named else others).add(match[0].lower())
        end = match.end()
    return frozenset(names - others)


def stop_words(name: str) -> frozenset[str]:
    """Return the list of that name. Raises `BadPolicy` if there is none."""
    if name not in STOP_WORDS:
        raise BadPolicy(f"there is no list of stop words {name!r}; there are: {', '.join(sorted(STOP_WORDS))}")
    return STOP_WORDS[name]


def query_words(query: str, stop_list: str = "english-1") -> tuple[str, ...]:
    """Return the distinct words that a query searches for, in order: its words without stop words, or all if it has
    no others. At most `limits.QUERY_WORDS`, from the first `limits.QUERY_CHARS` characters.

    Raises `BadPolicy` for an unknown list.
    """
    dropped = stop_words(stop_list)
    found = dict.fromkeys(words_of(query[: limits.QUERY_CHARS]))
    # A question of stop words alone must find something: "who was it?"
    kept = [word for word in found if word not in dropped] or list(found)
    return tuple(kept[: limits.QUERY_WORDS])


def match_expression(query: str, stop_list: str = "english-1") -> str | None:
    """Return the query as FTS5 takes it: `query_words`, each quoted, joined by OR; None when there is no word.

    Nothing in a query is syntax: quotes, operators, NUL and punctuation only part words. Raises `BadPolicy` for an
    unknown list.
    """
    return any_of(query_words(query, stop_list)) or None


def any_of(words: Iterable[str]) -> str:
    """Return the expression by which FTS5 finds documents with any of some words, as `query_words` returns them."""
    return " OR ".join(f'"{word}"' for word in words)
