"""Words, for searching and for comparing items: runs of letters and digits, composed (NFC) and in lower case.

Compound names are read for their parts too. The tokenizer of the full-text index reads `lt:towerHeight` as the words lt
and towerheight, and `tower_height` as tower and height. So a question about a tower's height misses the first, and one
that quotes `towerHeight` misses the second.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

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


WORD_SETS_KEPT = 2_000
"""Contents whose sets of words are kept in memory, at some 4 kB each: extractions are compared with them again."""


def words_of(text: str) -> list[str]:
    """Return the words of a text in order, with repetitions; none for a text without letters or digits."""
    if text.isascii():  # most are: the same words, at a sixth of the cost
        return text.translate(_ASCII_WORDS).split()
    # Composed, because é typed as one code point and as two must be the same word.
    return [word.lower() for word in _WORD.findall(unicodedata.normalize("NFC", text))]


@lru_cache(maxsize=WORD_SETS_KEPT)
def distinct_words(content: str) -> frozenset[str]:
    """Return the set of the words of a text."""
    # Cached, because the same items are compared with at each extraction, and items never change.
    return frozenset(words_of(content))


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


def any_of(words: Iterable[str]) -> str:
    """Return the expression by which FTS5 finds documents with any of some words, as `query_words` returns them."""
    return " OR ".join(f'"{word}"' for word in words)


# Only texts with one of these may have a compound name. Other scripts with two cases are looked at letter by letter.
# It begins with the few characters that may show one, because to look for these takes a fifth of the time.
_ASCII_HINT = re.compile(r"[A-Z_](?:(?<=[a-z0-9][A-Z])|(?<=[A-Z]{2})[a-z]|(?<=[A-Za-z0-9]_)_*[A-Za-z0-9])")
_NAME = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
_LEAST_PART_CHARS = 2
"""A part of one letter distinguishes nothing: the x of xCoordinate, the e of eBook."""


def compound_parts(text: str) -> list[str]:
    """Return the words that stand for the compound names of a text, beside those that the tokenizer finds.

    Of a name in camel case, they are its parts; of names that underscores join, the names run together. In order of the
    text, with repetitions, in the case of the text.
    """
    if text.isascii():
        if not _ASCII_HINT.search(text):
            return []
    else:
        # Composed, as queries are: a combining mark would end a word.
        text = unicodedata.normalize("NFC", text)
    return [part for match in _NAME.finditer(text) for part in _parts_of(match[0])]


def _parts_of(name: str) -> Iterator[str]:
    pieces = [piece for piece in name.split("_") if piece]
    if len(pieces) > 1:
        yield "".join(pieces)
    for piece in pieces:
        # Most words have no capital behind their first letter, and those in capitals are of one part.
        if piece[1:] != piece[1:].lower() and not piece.isupper():
            parts = list(_camel_parts(piece))
            if len(parts) > 1:
                yield from (part for part in parts if len(part) >= _LEAST_PART_CHARS)


def _camel_parts(word: str) -> Iterator[str]:
    start = 0
    for place in range(1, len(word)):
        if word[place].isupper() and (not word[place - 1].isupper() or _begins_word(word, place)):
            yield word[start:place]
            start = place
    yield word[start:]


def _begins_word(word: str, place: int) -> bool:
    """Return whether a capital behind a capital begins a word: the S of HTTPServer does, the I of IRIs doesn't."""
    rest = word[place + 1 :]
    return rest[:1].islower() and rest != "s"
