"""The excerpt of a text: the part about some words, within a budget of characters.

A part is made of whole sentences and lines. Code (what backquotes enclose, a SPARQL query, a group in braces) is never
cut: half a query is a wrong query. The rest of an item stays behind its id.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from rbank_es import limits
from rbank_es.policies.words import compound_parts, words_of

MARK = "…"
"""Stands for what is left out."""

_QUOTED = re.compile(r"(?<!`)(`{1,3})(?=[^`]).*?[^`]\1(?!`)|``", re.S)
# What belongs to a group in braces: the query form before it, and the modifiers behind it.
# These two are compiled when a long text has a group in braces: they take 1 ms of a start.
_FORM = (
    r"(?:PREFIX\s+[\w.-]*:\s*<[^<>]*>\s*)*(?:(?:SELECT|ASK|CONSTRUCT|DESCRIBE)\b[^{}`]*|(?:FILTER\s+)?(?:NOT\s+)?"
    r"(?:EXISTS|OPTIONAL|MINUS|WHERE|UNION)\s*)?\Z"
)
_FORM_CHARS = 1_000
_MODIFIERS = (
    r"(?:\s*(?:GROUP\s+BY|ORDER\s+BY|HAVING|LIMIT|OFFSET|ASC|DESC|\d+|[?$]\w+|\([^()]*(?:\([^()]*\)[^()]*)*\)))*"
)
# A period behind the number of a list's line ends no sentence, nor one before a small letter ("e.g. this").
_END = re.compile(r"\n\s*|(?<=[.!?])(?<!\b\d\.)(?<!\b\d\d\.)\s+(?![a-z])|(?<=[。！？])")
_SPACE = re.compile(r"\s+")
_PREFIX_CHARS = 4
"""Words of so many characters also match longer ones that they begin: height matches heights and heightened."""


class _Piece(NamedTuple):
    start: int
    end: int
    ends_sentence: bool = True


def excerpt(text: str, words: Collection[str], chars: int) -> str:
    """Return the part of a text that has the most of some words, in at most `chars` characters.

    The words are in lower case, as `words.query_words` gives them. If none is found, the part is the beginning. A
    sentence that is longer than the budget is cut between words. Where nothing but code would
    be left that is longer than the budget, only `MARK` is returned; nothing at all for less than a character.
    """
    if len(text) <= chars:
        return text
    if chars < 1:
        return ""
    whole, text = len(text), text[: limits.EXCERPT_TEXT_CHARS]
    pieces = _pieces(text, chars - 2 * len(MARK))
    start, end = _best(text, pieces, _wanted_in(text, pieces, words), chars)
    before, behind = (MARK if start else ""), (MARK if end < whole else "")
    return f"{before}{text[start:end].strip()}{behind}" if start < end else MARK


def code_spans(text: str) -> list[tuple[int, int]]:
    """Return where code begins and ends in a text, in order; no two spans overlap."""
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    found = sorted([*quoted, *(_query_around(text, *group) for group in _groups(text))])
    spans: list[tuple[int, int]] = []
    for start, end in found:
        if spans and start < spans[-1][1]:
            start, end = spans[-1][0], max(end, spans.pop()[1])
        spans.append((start, end))
    return spans


def _groups(text: str) -> Iterator[tuple[int, int]]:
    """Yield the outermost pairs of braces. One that is never closed is no code."""
    opened: list[int] = []
    closed: list[tuple[int, int]] = []
    for match in re.finditer(r"[{}]", text):
        if match[0] == "{":
            opened.append(match.start())
        elif opened:
            start = opened.pop()
            while closed and closed[-1][0] > start:
                closed.pop()
            closed.append((start, match.end()))
    yield from closed


def _query_around(text: str, start: int, end: int) -> tuple[int, int]:
    near = max(0, start - _FORM_CHARS)
    first = max(near, *(text.rfind(mark, near, start) + 1 for mark in "{}`"))
    form = re.search(_FORM, text[first:start])
    modifiers = re.compile(_MODIFIERS).match(text, end)
    return (first + form.start() if form else start), (modifiers.end() if modifiers else end)


def _pieces(text: str, chars: int) -> list[_Piece]:
    """Part a text into sentences, and those of more than so many characters into words and code."""
    spans = code_spans(text)
    sentences = _parted(text, _Piece(0, len(text)), _END, spans)
    return [piece for sentence in sentences for piece in _shortened(text, sentence, spans, chars)]


def _shortened(text: str, piece: _Piece, spans: Sequence[tuple[int, int]], chars: int) -> Iterator[_Piece]:
    if piece.end - piece.start <= chars:
        yield piece
        return
    for word in _parted(text, piece, _SPACE, spans):
        last = word.end == piece.end
        if _span_at(spans, word.start) or _span_at(spans, word.end - 1):
            yield word._replace(ends_sentence=last)
        else:
            step = max(1, chars)
            yield from (_Piece(at, min(word.end, at + step), last) for at in range(word.start, word.end, step))


def _parted(text: str, piece: _Piece, ends: re.Pattern[str], spans: Sequence[tuple[int, int]]) -> Iterator[_Piece]:
    start = piece.start
    for match in ends.finditer(text, piece.start, piece.end):
        # Where whitespace follows code, the piece ends; inside of code, it goes on.
        if match.end() < piece.end and not _span_at(spans, match.end() - 1) and not _span_at(spans, match.start()):
            yield _Piece(start, match.end())
            start = match.end()
    yield _Piece(start, piece.end)


def _span_at(spans: Sequence[tuple[int, int]], place: int) -> bool:
    at = bisect_right(spans, (place, len(spans) and spans[-1][1])) - 1
    return at >= 0 and spans[at][0] <= place < spans[at][1]


def _wanted_in(text: str, pieces: Sequence[_Piece], words: Collection[str]) -> list[frozenset[str]]:
    """Return which of the words each piece has."""
    found = []
    for start, end, _ in pieces:
        held = {*words_of(text[start:end]), *(part.lower() for part in compound_parts(text[start:end]))}
        found.append(frozenset(word for word in words if any(_alike(word, other) for other in held)))
    return found


def _alike(one: str, two: str) -> bool:
    return one == two or (min(len(one), len(two)) >= _PREFIX_CHARS and (one.startswith(two) or two.startswith(one)))


def _best(text: str, pieces: Sequence[_Piece], found: Sequence[frozenset[str]], chars: int) -> tuple[int, int]:
    """Return where the best run of pieces begins and ends: the one with the most words.

    Of equal ones it is the beginning, else the first that begins with a word that is wanted.
    """
    best, most, stop = slice(0, 0), (-1, False, False), 0
    inside = Counter[str]()
    for first, piece in enumerate(pieces):
        stop = max(stop, first)
        while stop < len(pieces) and _fits(text, piece.start, pieces[stop].end, chars):
            inside.update(found[stop])
            stop += 1
        if stop > first:
            worth = (len(inside), first == 0, bool(found[first]))
            if worth > most:
                best, most = slice(first, stop), worth
            inside.subtract(found[first])
            inside = +inside
    return _without_rest(pieces[best], found[best])


def _without_rest(run: Sequence[_Piece], found: Sequence[frozenset[str]]) -> tuple[int, int]:
    """Return where a run begins and ends, without the beginning of a last sentence that says nothing of the words."""
    if not run:
        return 0, 0
    whole = max((at for at, piece in enumerate(run, 1) if piece.ends_sentence), default=0)
    keep = whole if whole and not any(found[whole:]) else len(run)
    return run[0].start, run[keep - 1].end


def _fits(text: str, start: int, end: int, chars: int) -> bool:
    shown = len(text[start:end].strip()) if end - start < 2 * chars else end - start
    return shown + len(MARK) * ((start > 0) + (end < len(text))) <= chars
