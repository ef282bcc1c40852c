"""Stems: what is left of a word without its endings, by the language of the text, as Snowball's algorithms say.

Stems decide which items a search finds, so the release of the stemmer is part of the policy that uses them: another
release may cut other endings, and is another version of the policy. A text is of the language whose stop words it has
most of. The lists are the words that two public collections share (stop-words, BSD-3-Clause, and stopwords-iso, MIT),
with question words and without words of content.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from threading import local
from types import ModuleType
from typing import Any

from rbank_es import limits
from rbank_es.data import shipped
from rbank_es.errors import BadPolicy
from rbank_es.system.forks import undivided
from rbank_es.text.spelled_words import fold, is_dense, name_words

STEMMER = "3.1.1"
"""The release of `snowballstemmer` whose stems `bm25-3` goes by."""

LANGUAGES = ("english", "german", "spanish", "french", "italian", "portuguese", "dutch", "russian")
"""The languages by number; of several that fit a text equally well, the first is chosen."""

# Counts of stop words by language, in a field of so many bits each: more words than a text has.
_BITS = 32
_FIELD = (1 << _BITS) - 1
_LEAST_STOP_WORDS, _STOP_WORD_EACH = 2, 3
"""A text shows its language by so many stop words, or by one among so many words."""

# Letters of Chinese, Japanese and Korean grammar: a pair with one of them says little.
PARTICLES = frozenset(
    "的了是在和有多少什么哪些谁几吗呢把被从到要会个はがをにのでともかへやねよですまるしたいあ何誰どこ은는을를의에니까습합무슨어느몇"
)


@cache
def stop_words_by_language() -> Mapping[str, frozenset[str]]:
    """Return the stop words of each language, without accents."""
    lists = json.loads(shipped("stop_words_1.json").read_bytes())
    return {name: frozenset(lists[name].split()) for name in LANGUAGES}


def is_light(word: str, language: str) -> bool:
    """Return whether a word says little: a stop word of a language, or a pair of letters with a particle."""
    if is_dense(word):
        return not PARTICLES.isdisjoint(word)
    return fold(word) in stop_words_by_language()[language]


@cache
def _counting() -> dict[str, int]:
    """Return for each stop word a number with 1 in the fields of its languages."""
    counting: dict[str, int] = {}
    for place, name in enumerate(LANGUAGES):
        for word in stop_words_by_language()[name]:
            counting[word] = counting.get(word, 0) | 1 << place * _BITS
    return counting


def language_of(words: Sequence[str]) -> str | None:
    """Return the language with most stop words among the words of a text; None where it shows none."""
    counts = sum(map(_counting().get, words if "".join(words).isascii() else map(fold, words), repeat(0)))
    if not counts:
        return None
    best, place = max(((counts >> place * _BITS) & _FIELD, -place) for place in range(len(LANGUAGES)))
    shown = best >= _LEAST_STOP_WORDS or best * _STOP_WORD_EACH >= len(words)
    return LANGUAGES[-place] if shown else None


# ---------------------------------------------------------------- the stemmer


def installed_stemmer() -> str | None:
    """Return the release of the stemmer that is installed; None where there is none."""
    spec = find_spec("snowballstemmer")
    if spec is None or spec.origin is None:
        return None
    # Looked for by its folder: importing importlib.metadata takes 25 ms.
    if (Path(spec.origin).parents[1] / f"snowballstemmer-{STEMMER}.dist-info").is_dir():
        return STEMMER
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("snowballstemmer")
    except PackageNotFoundError:
        return None


@cache
def require_stemmer() -> None:
    """Raise `BadPolicy` unless the release of the stemmer that stems go by is installed."""
    found = installed_stemmer()
    if found != STEMMER:
        there = "none" if found is None else found
        raise BadPolicy(
            f"bm25-3 and searches of an ontology read words by snowballstemmer {STEMMER}, and {there} is installed: "
            f"another release finds other things. Install it (pip install snowballstemmer=={STEMMER}); a bank may put "
            "bm25-2 in force instead"
        )


@cache
def _stemmer_class(language: str) -> Callable[[], Any]:
    require_stemmer()
    name = "snowballstemmer"
    with undivided:
        whole = sys.modules.get(name)
        if whole is None:
            # Without the package's own first lines, which load 36 languages in 40 ms, or PyStemmer of any release.
            spec = find_spec(name)
            places = [] if spec is None else spec.submodule_search_locations or []
            sys.modules[name] = bare = ModuleType(name)
            bare.__path__ = [*places]
        try:
            module: Any = import_module(f"{name}.{language}_stemmer")
        finally:
            if whole is None:
                del sys.modules[name]
    found: Callable[[], Any] = getattr(module, f"{language.capitalize()}Stemmer")
    return found


class _Stemmers(local):
    """The stemmers of one thread by language: each holds the word that it is at, so threads can't share one."""

    def __init__(self) -> None:
        self.by_language: dict[str, Callable[[str], str]] = {}

    def stem(self, word: str, language: str) -> str:
        """Return what is left of a word."""
        found = self.by_language.get(language)
        if found is None:
            found = self.by_language[language] = _stemmer_class(language)().stemWord
        return found(word)


_stemmers = _Stemmers()


class Stems(dict[str, str]):
    """The stem of each word of a language, without accents, found once. Words have no upper case."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def __missing__(self, word: str) -> str:
        if len(self) >= limits.STEMS_KEPT:
            self.clear()
        stem = self[word] = word if is_dense(word) else fold(_stemmers.stem(word, self._language))
        return stem


@cache
def stems_of(language: str) -> Stems:
    """Return the stems of a language, which the whole process shares."""
    return Stems(language)


def stems_in(name: str, language: str) -> list[str]:
    """Return the stems of the words of a name or a sentence, in order; a name has those of its parts."""
    return [*map(stems_of(language).__getitem__, name_words(name))]
