"""Statements: the facts of a text, token by token, without what makes no difference to its meaning.

Dropped are case, markup, punctuation, quotation marks, accents of Latin, Greek and Cyrillic letters, invisible
characters, endings of number and tense, and a closed list of silent words. Look-alike letters become Latin ones. All
else is a fact: every other word with the vowel signs of its script, numbers with their signs, symbols, addresses,
options of commands, and signs that calculate, compare, negate or form a path. A sentence is a row of tokens, because
order within it is a fact ("A before B"). The order of sentences is one where the text says so: its list is numbered,
it has two headings, or a sentence begins with what refers to the one before ("Then", "Therefore").

Pure: no model, locale or language detection. The time is linear in the length of the text, whatever it holds.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from typing import NamedTuple, TypeVar

from rbank_es.policies.words import WORD_SETS_KEPT

Value = TypeVar("Value")

_SILENT = """
a an the this that these those it its they them their you your which who whom whose there
is are was were be been being do does did of in on at to
and then so also please thus therefore hence very really simply too indeed
"""
SILENT = frozenset(_SILENT.split())
"""The only words that carry no fact. Whatever could be exchanged for another word stays: by, for, has, or, just."""

_REFERRING = re.compile(r"(?:then|therefore|thus|hence|so)\b", re.IGNORECASE)
"""Silent words that, at its beginning, make a sentence follow from the one before."""

_ACRONYMS = re.compile(r"\b(?:IT|US|WHO)\b")
"""What in capitals is a name, and otherwise another word."""

_AFTER_A_NAME = """
is are was were be been being am do does did of in on at to and then so from or than before after over into by for
"""
_AFTER_NAMES = frozenset(_AFTER_A_NAME.split())
"""Words before which `a` is the name of something, not an article: A before B."""

_IRREGULAR = {
    "used": "use",
    "using": "use",
    "goes": "go",
    "going": "go",
    "has": "have",
    "had": "have",
    "having": "have",
    "news": "news",
    "series": "series",
    "species": "species",
}
"""Frequent forms that lose more, or less, than the usual ending."""

_STEMMED_CHARS = 40
"""The longest word that is cut: no word of a language is longer, and a run of letters is."""

_CHUNK_CHARS = 64
"""The longest chunk between spaces whose tokens are kept: longer ones don't repeat."""

_KEPT_CHARS = 4_000
"""The longest text whose statement is kept: twice the longest content that an extractor writes. A thousand of longer
ones would take gigabytes."""

# Composed marks in a row are sorted in quadratic time by `unicodedata.normalize`. The Unicode Standard's stream-safe
# text format allows 30 (UAX 15, section 13).
_MARKS = re.compile(r"([^\w\s\x00-\x7f]{30})[^\w\s\x00-\x7f]+")
_INVISIBLE = re.compile(
    # Format characters (Cf),
    "[\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001"
    # fillers, joiners, and selectors of variants.
    "\U000e0020-\U000e007f\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f"
    "\U000e0100-\U000e01ef]"
)
_ACCENTS = re.compile(r"(?<=[A-Za-z\u0370-\u052f])[\u0300-\u036f]+")
_PLAIN_SIGNS = str.maketrans("’‘ʼ´“”«»‐‑‒–−", "''''\"\"\"\"-----")
_LONGER_SIGNS = {ord("—"): " - ", ord("≤"): "<=", ord("≥"): ">=", ord("≠"): "!="}
_SUPERSCRIPTS = re.compile("[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", "⁺")
"""10² isn't 102, as compatibility composition makes it."""

_CYRILLIC = str.maketrans("АВСԀЕҺНІЈКМОРԚЅТУХԜавсԁеһіјкмнорԛѕтухѵԝ", "ABCDEHHIJKMOPQSTYXWabcdehijkmhopqstyxvw")
_GREEK = str.maketrans("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγεικνορτυχωɑɡ", "ABEZHIKMNOPTYXayeikvoptuxwag")
_GREEK_LETTER, _LATIN_LETTER = re.compile("[\u0370-\u03ff]"), re.compile("[A-Za-z]")
"""Letters that look like Latin ones. Not μ, which turns metres into micrometres; nor does it look like m."""

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
"""Letters of scripts that write no spaces between words, as a range of a regular expression."""

_VOWEL_SIGNS = "".join(char for char in map(chr, range(0x591, 0x1000)) if unicodedata.category(char)[0] == "M")
"""Marks that tell one word from another: of Hebrew, Arabic, of the scripts of India, of Tibetan, and others."""

_LETTER = rf"[^\W_{UNSPACED}]"
# A mark is no letter, and letters follow each row of marks but the last: else a long word is divided in every way.
_LETTERS = rf"{_LETTER}+(?:[{_VOWEL_SIGNS}]+{_LETTER}+)*[{_VOWEL_SIGNS}]*"
_SYMBOLS = "¢-©¬®°±×÷‰‱⁄\u20a0-\u20cf\u2190-\u2bff\U0001f000-\U0001ffff"
_LONG_FORMS = re.compile(
    r"\b(can)(?:'t|not)\b|\b(wo)n't\b|n't\b|\b(do|does|did|is|are)nt\b|'(?:s|re|ve|ll|d)\b|(?<=\bI)'m\b", re.IGNORECASE
)
_EMPHASIS = re.compile(r"(?<!\w)\*{1,3}(?=\w)|(?<=[\w.!?,:;)])\*{2,3}(?!\w)|[`\"]")
_OPENING = "`\"'([*_"
_BULLET = re.compile(r"[-*+#>•]+")
_ORDINAL = re.compile(r"\d{1,2}[.)]")
# Without what stands before, which takes ten times as long to look at.
_ENTRY = re.compile(r"\d[.)](?:\s|$)")
_TOKEN = re.compile(
    rf"(?P<stop>[.!?;]$|[。！？])|(?P<number>(?<![\w.-])-?(?:\d+(?:[.,:]\d+)*|\.\d+))"
    # Behind a dash without a space: an option of a command, or what is negative.
    rf"|(?P<option>(?<![\w-])(?:--[A-Za-z][\w-]*|-[A-Z](?!\w)|-[a-z]\w*)|\\[bBdDsSwW](?![A-Za-z]))"
    rf"|(?P<one>[{UNSPACED}])|(?P<name>{_LETTERS}(?:[_:.]{_LETTERS})+)|(?P<word>{_LETTERS})"
    # Operators between spaces, steps up in a path, parts of a list, and brackets that say what an operator is of.
    rf"|(?P<sign>\A(?:\*\*|//|[-+*/%&|^:]=|[/^])\Z|(?<![\w.])\.\.(?=/)|(?<=\w)\^(?=$|\^)|(?<=\[):(?=[\w-])|(?<=\w):(?=\])"
    rf"|(?<=[/|^!*+])\(|\)(?=[*+/|?^])"
    rf"|[<>=]=?|!=|&&|\|\||[!^](?=[\w(?-])|[*?](?=$|[),/|.])|\+|(?<=[\w)])[*/|](?=[\w^(!])"
    rf"|(?<=[\d′])′|[%$£#@~{_SYMBOLS}])"
)
# A scheme has at most 16 characters: else a long row of words and dashes is looked through for each of them.
_ADDRESS = re.compile(
    r"<?(?<!\w)([a-z][a-z0-9+.-]{1,15}://[^\s/<>()\[\]{}|'\"`]*)([^\s<>()\[\]{}|'\"`]*[\w/#=&%+-])?>?", re.IGNORECASE
)
_CAPITALS = re.compile("[^a-z]+s?")
_BITS_OR_BYTES = re.compile("[kmgtp]i?b(?:ps)?", re.IGNORECASE)


class Fact(NamedTuple):
    """A fact: `stem` is its word in lower case without its ending; `spelled` is as written, where case is a fact."""

    stem: str
    spelled: str = ""


Sentence = tuple[Fact, ...]


class Statement(NamedTuple):
    """The sentences of a text. `capitals`: all of its letters are capitals, so the case of names can't be told.
    `ordered`: their order is a fact."""

    sentences: tuple[Sentence, ...]
    capitals: bool
    ordered: bool

    def tokens(self) -> Iterator[Fact]:
        """Yield all tokens in order."""
        for sentence in self.sentences:
            yield from sentence


class _Chunk(NamedTuple):
    """What stands between two spaces: its tokens by sentences, of which all but the last end in it."""

    parts: tuple[Sentence, ...]
    odd: bool = False
    """Whether its neighbours decide if it says anything."""
    ordinal: bool = False


def kept(texts: int) -> Callable[[Callable[[str], Value]], Callable[[str], Value]]:
    """Return a decorator that keeps what a function returns for so many texts, unless they are long."""

    def decorate(function: Callable[[str], Value]) -> Callable[[str], Value]:
        cached = lru_cache(texts)(function)

        @wraps(function)
        def look_up(text: str) -> Value:
            return cached(text) if len(text) <= _KEPT_CHARS else function(text)

        return look_up

    return decorate


def parse_statement(text: str) -> Statement:
    """Return what a text states, and keep nothing of it: for texts that are read once."""
    if not text.isascii():
        text = _plain(text)
    if capitals := text.isupper():
        text = _ACRONYMS.sub(lambda match: match[0].lower(), text)
    sentences: list[Sentence] = []
    lines = [line.split() for line in text.splitlines()]
    ordered = sum(map(_is_heading, lines)) > 1
    listed = _ENTRY.search(text) is not None and _is_list(lines)
    for line in lines:
        current: list[Fact] = []
        for place, written in enumerate(line):
            chunk = _kept_chunk(written) if len(written) <= _CHUNK_CHARS else _split(written)
            if chunk.odd and _is_silent(line, place, chunk, listed=listed):
                ordered = ordered or chunk.ordinal
                continue
            if not (current or ordered) and sentences:
                ordered = _REFERRING.match(written.lstrip(_OPENING)) is not None
            current += chunk.parts[0]
            if len(chunk.parts) > 1:
                for part in chunk.parts[1:]:
                    sentences.append(tuple(current))
                    current = list(part)
        sentences.append(tuple(current))
    return Statement(tuple(filter(None, sentences)), capitals, ordered)


read_statement = kept(WORD_SETS_KEPT)(parse_statement)
"""Returns what a text states, and keeps it for a while: extractions are compared with the same items again."""


def _plain(text: str) -> str:
    """Return a text that isn't ASCII without accents, invisible characters and look-alike letters."""
    text = unicodedata.normalize("NFKD", _MARKS.sub(r"\1", _SUPERSCRIPTS.sub(_raised, text)))
    text = _ACCENTS.sub("", _INVISIBLE.sub("", text))
    text = unicodedata.normalize("NFKC", text).translate(_PLAIN_SIGNS).translate(_LONGER_SIGNS).translate(_CYRILLIC)
    greek = len(_GREEK_LETTER.findall(text))
    # A Greek text has its own small letters, which don't look as its capitals do.
    return text.translate(_GREEK) if greek and greek < len(_LATIN_LETTER.findall(text)) else text


def _raised(match: re.Match[str]) -> str:
    return f"^{match[0].translate(_RAISED)}"


# ---------------------------------------------------------------- silent chunks


def _is_silent(line: list[str], place: int, chunk: _Chunk, *, listed: bool) -> bool:
    """Return whether an odd chunk is a bullet, the number of an entry of a list, or an article."""
    if chunk.ordinal:
        return listed and _begins_entry(line, place)
    if line[place] in ("a", "A"):
        return _is_article(line, place)
    # Before a number it may be a sign: > 5, - 3.
    return not place and not (len(line) > 1 and line[1][:1].isdigit())


def _is_heading(line: list[str]) -> bool:
    return bool(line) and (set(line[0]) == {"#"} or line[-1].rstrip("*_`").endswith(":"))


def _begins_entry(line: list[str], place: int) -> bool:
    after = line[place + 1].lstrip(_OPENING) if place + 1 < len(line) else ""
    before = line[place - 1] if place else "."
    return before[-1] in ".!?:;" and after[:1].isupper()


def _is_list(lines: list[list[str]]) -> bool:
    """Return whether the numbers before sentences count from 1: else one of them may be a date or an amount."""
    numbers, begun = list[int](), False
    for line in lines:
        for place, written in enumerate(line):
            if written[-1] in ".)" and len(written) <= 3 and _ORDINAL.fullmatch(written) and _begins_entry(line, place):
                numbers.append(int(written[:-1]))
                begun = begun or not place
    return numbers == list(range(1, len(numbers) + 1)) and (begun or len(numbers) > 1)


def _is_article(line: list[str], place: int) -> bool:
    """Return whether an `a` is an article: one stands before a word, and not at the end."""
    if place + 1 == len(line):
        return False
    found = re.match(r"[`\"'(\[*_]*(\w+)", line[place + 1])
    return found is not None and found[1].lower() not in _AFTER_NAMES


# ---------------------------------------------------------------- tokens


def _split(written: str) -> _Chunk:
    if _BULLET.fullmatch(written):
        return _Chunk(tuple(_tokens(written)), odd=True)
    text = _LONG_FORMS.sub(_long_form, _EMPHASIS.sub(" ", written))
    if "://" in text:
        text = _ADDRESS.sub(r" \g<0> ", text)
    parts: list[list[Fact]] = [[]]
    for piece in text.split():
        first, *more = _tokens(piece)
        parts[-1] += first
        parts += map(list, more)
    ordinal = _ORDINAL.fullmatch(written) is not None
    return _Chunk(tuple(map(tuple, parts)), odd=ordinal or written in ("a", "A"), ordinal=ordinal)


_kept_chunk = lru_cache(65_536)(_split)


def _long_form(match: re.Match[str]) -> str:
    if match[0].lower() == "'m":
        return " am"
    whole = "can" if match[1] else "will" if match[2] else match[3] or ""
    return f"{whole} not" if whole or match[0].lower() == "n't" else ""


def _tokens(piece: str) -> list[Sentence]:
    """Return the tokens of a piece without spaces, by sentences."""
    if (address := _ADDRESS.fullmatch(piece)) is not None:
        written = address[1].lower() + (address[2] or "")
        return [(Fact(written.lower(), written),)]
    parts: list[list[Fact]] = [[]]
    for match in _TOKEN.finditer(piece):
        kind, written = match.lastgroup, match[0]
        if kind == "stop" and written == "?" and parts[-1] and ":" in parts[-1][-1].spelled:
            # A path of no or one step.
            parts[-1].append(Fact(written))
        elif kind == "stop":
            parts.append([])
        elif kind == "number":
            parts[-1].append(Fact(_number(written)))
        elif (token := _token(kind, written)) is not None:
            parts[-1].append(token)
    return [tuple(part) for part in parts]


def _number(written: str) -> str:
    digits = re.sub(r",(?=\d{3}(?!\d))", "", written)
    return re.sub(r"^(-?)\.", r"\g<1>0.", digits)


def _token(kind: str | None, written: str) -> Fact | None:
    """Return the token of a name, word, sign or letter; None for a silent word."""
    lower = written.casefold()
    if kind == "name":
        # In identifiers, an ending of number is a fact.
        return Fact(lower, written) if ":" in written or _has_inner_capital(written) else Fact(lower)
    if kind == "option":
        return Fact(lower, written)
    if kind != "word":
        return Fact(lower)
    if _ACRONYMS.fullmatch(written):
        return Fact(lower, written)
    if _BITS_OR_BYTES.fullmatch(written):
        return Fact(lower, "bytes" if "B" in written else "bits")
    if _has_inner_capital(written):
        return Fact(stem(lower), written)
    # A single letter is an article only as a chunk of its own.
    return None if lower in SILENT and lower != "a" else Fact(stem(lower))


def _has_inner_capital(written: str) -> bool:
    return written[1:] != written[1:].lower() and not _CAPITALS.fullmatch(written)


def stem(word: str) -> str:
    """Return a word in lower case without its endings of number and tense.

    Less than Porter's stemmer cuts, which makes one of universe and university, too.
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if not 4 <= len(word) <= _STEMMED_CHARS or not word.isascii() or not word.isalpha():
        return word
    if word.endswith(("ies", "ied")) and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    root = word[:-3] if word.endswith("ing") else word[:-2] if word.endswith("ed") and not word.endswith("eed") else ""
    if len(root) > 2 and any(vowel in root for vowel in "aeiouy"):
        doubled = len(root) > 3 and root[-1] == root[-2] and root[-1] not in "aeiouls"
        word = root[:-1] if doubled else root
    return word[:-1] if word.endswith("e") and len(word) > 3 else word
