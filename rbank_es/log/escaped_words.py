"""Words that an erasure seeks, in every reading of a text: its bytes, and these with escapes undone, level by level.

The escapes are those of strings in JSON, Python (`repr` of text, bytes and containers, `ascii`), JavaScript, SPARQL and
Turtle; of HTML; and of URLs. A text holds some words if any reading of the text holds any reading of the words.

Words are found, too, where one of this package's own writers changed them (`rbank_es.log.normalised_text`): with other
white space or line ends, letters composed otherwise, without hidden characters, or cut off by an ellipsis.

**More is found than the words**, by these rules alone: words that are escaped themselves are found unescaped too (for
`a &amp; b` also `a & b`), white space around the words may be missing, white space is any white space, spaces may be
written as `+`, and quotes may be doubled. `SoughtWords.form_in` names the form, so that a report can show what was
matched.

**Not found** are the forms in `rbank_es.log.protocol.NOT_SOUGHT`, and escapes nested deeper than
`limits.ERASURE_LEVELS`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from rbank_es import limits
from rbank_es.log.normalised_text import FoldedWords, cut_in, folded, has_disputed, has_ellipsis, has_hidden

PLAIN, ESCAPED, HTML, URL, QUOTED = "plain", "escaped", "HTML", "URL", "quotes doubled"
UTF_16, NORMALISED, CUT, ALIKE = "UTF-16", "normalised", "cut", "alike"
"""The forms in which words are found. `NORMALISED`: with other white space, line ends or hidden characters, or letters
composed otherwise. `CUT`: a beginning or an end that an ellipsis cuts off. `ALIKE`: the words are themselves escaped,
and were found unescaped."""

_BACKSLASH = b"\xfe"
"""Stands for a literal backslash while the escapes around it are undone; no UTF-8 text contains this byte."""

# ---------------------------------------------------------------- escapes

_FREQUENT = ((rb"\"", b'"'), (rb"\n", b"\n"), (rb"\'", b"'"), (rb"\/", b"/"), (rb"\r", b"\r"), (rb"\t", b"\t"))
"""Escapes that are replaced one kind after another: parsing each of them would take ten times as long."""

_HEX = rb"[0-9a-fA-F]"
_SHORT = {b"b": b"\b", b"f": b"\f", b"v": b"\v", b"a": b"\a"}


def _utf8_pattern(prefix: bytes) -> bytes:
    """Return the pattern of a byte escaped in hex, or of the bytes of one character; without the first prefix."""
    following = rb"(?:%b[89abAB]%b)" % (prefix, _HEX)
    several = rb"[c-dC-D]%(h)b%(f)b|[eE]%(h)b%(f)b{2}|[fF][0-7]%(f)b{3}" % {b"h": _HEX, b"f": following}
    return rb"%b|%b{2}" % (several, _HEX)


_OCTAL = rb"(?:3(?:0[2-7]|[1-3][0-7])|3[45][0-7]\\2[0-7]{2}|36[0-4](?:\\2[0-7]{2}){2})\\2[0-7]{2}"
"""The bytes of one character in octal, without the first backslash."""
_STRING = re.compile(
    rb"\\(?:u(?P<high>[dD][89abAB]%(h)b{2})\\u(?P<low>[dD][c-fC-F]%(h)b{2})|u(?P<u>%(h)b{4})|U(?P<U>%(h)b{8})"
    rb"|u\{(?P<braced>%(h)b{1,8})\}|x(?P<x>%(x)b)|(?P<octal>%(o)b|[0-3][0-7]{2}|[0-7]{1,2})"
    rb"|N\{(?P<name>[A-Za-z0-9 -]{1,100})\}|(?P<short>[bfva])|(?P<mark>[!-/:-@\[-`{-~ ]))"
    % {b"h": _HEX, b"x": _utf8_pattern(rb"\\x"), b"o": _OCTAL}
)
_PERCENT = re.compile(rb"%%(?:u(?P<u>%b{4})|(?P<x>%b))" % (_HEX, _utf8_pattern(b"%")))
_ENTITY = re.compile(rb"&(?:#(?:[0-9]{1,10}|[xX]%b{1,8});?|(?!fjlig)[A-Za-z][A-Za-z0-9]{1,31};?)" % _HEX)
_HALVES = re.compile(rb"\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]")


def _utf8(code: int) -> bytes:
    """Return the UTF-8 of a code point, also of half a surrogate pair; that of U+FFFD where there is no such point."""
    return chr(code if code <= 0x10FFFF else 0xFFFD).encode("utf-8", "surrogatepass")


def _characters(run: bytes, as_bytes: bool) -> bytes:
    """Return the UTF-8 of escaped numbers below 256: of the characters, or `as_bytes` of what the bytes say."""
    if as_bytes:
        try:
            return run.decode().encode()
        except UnicodeDecodeError:
            pass
    return run.decode("latin-1").encode()


@lru_cache(4096)
def _string_escape(token: bytes, as_bytes: bool) -> bytes:
    found = _STRING.fullmatch(token)
    assert found is not None  # the token was matched by the same pattern
    kind, value = str(found.lastgroup), found[str(found.lastgroup)]
    if kind == "low":
        return _joined(_utf8(int(found["high"], 16)) + _utf8(int(value, 16)))
    if kind == "x":
        return _characters(bytes.fromhex(value.replace(rb"\x", b"").decode()), as_bytes)
    if kind == "name":
        return _named_character(value.decode()) or token
    if kind == "short":
        return _SHORT[value]
    if kind == "octal":
        return _characters(bytes(int(each, 8) for each in value.split(b"\\")), as_bytes)
    return value if kind == "mark" else _utf8(int(value, 16))


def _named_character(name: str) -> bytes:
    import unicodedata  # loads a table that only a search for erasure needs

    try:
        return unicodedata.lookup(name).encode()
    except KeyError:
        return b""


def _joined(halves: bytes) -> bytes:
    """Return the character of two halves of a surrogate pair."""
    return halves.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass").decode("utf-16").encode()


def _without_backslashes(text: bytes, *, as_bytes: bool) -> bytes:
    r"""Undo one level of the escapes of strings. `\xc3\xa9` is two characters, or `as_bytes` the bytes of one."""
    if b"\\" not in text:
        return text
    text = text.replace(rb"\\", _BACKSLASH)
    for escape, character in _FREQUENT:
        text = text.replace(escape, character)
    if b"\\" in text:
        text = _STRING.sub(lambda found: _string_escape(found[0], as_bytes), text)
        if b"\xed" in text:
            text = _HALVES.sub(lambda found: _joined(found[0]), text)
    return text.replace(_BACKSLASH, b"\\")


@lru_cache(4096)
def _entity(token: bytes) -> bytes:
    from html import unescape  # loads a table that only a search for erasure needs

    return unescape(token.decode()).encode()


def _without_entities(text: bytes) -> bytes:
    return _ENTITY.sub(lambda found: _entity(found[0]), text) if b"&" in text else text


@lru_cache(4096)
def _percent_escape(token: bytes) -> bytes:
    found = _PERCENT.fullmatch(token)
    assert found is not None  # the token was matched by the same pattern
    if found["u"]:  # JavaScript's `escape`
        return _utf8(int(found["u"], 16))
    return _characters(bytes.fromhex(found["x"].replace(b"%", b"").decode()), as_bytes=True)


def _without_percents(text: bytes) -> bytes:
    return _PERCENT.sub(lambda found: _percent_escape(found[0]), text) if b"%" in text else text


# ---------------------------------------------------------------- readings


_ESCAPED_CHARACTER = re.compile(rb"\\x[c-fC-F]%b\\+x[89abAB]|\\3[0-6][0-7]\\+2[0-7]{2}" % _HEX)
"""The beginning of the bytes of one character, as the `repr` of bytes has them."""


class Reading(NamedTuple):
    """A reading of a text: `levels` levels of escapes are undone; `form` names their kind."""

    form: str
    levels: int
    text: bytes


Step = Callable[[bytes], bytes]
_TEXT_STRINGS: Step = partial(_without_backslashes, as_bytes=False)
_BYTE_STRINGS: Step = partial(_without_backslashes, as_bytes=True)


def readings(text: bytes) -> Iterator[Reading]:
    """Yield the readings of a text in UTF-8, the text itself first. Takes time in proportion to its length.

    Escapes of strings are undone alone, and together with those of HTML, of URLs and of both. A text may look as if it
    were escaped when it is not: in `?a=1&region=2`, `&reg` is an entity without its semicolon.
    """
    yield Reading(PLAIN, 0, text)
    byte_strings = _Seen(_ESCAPED_CHARACTER, text)
    for reading in _in_all_languages(text, _TEXT_STRINGS):
        byte_strings.look(reading.text)
        yield reading
    if byte_strings:
        yield from _in_all_languages(text, _BYTE_STRINGS)


def _in_all_languages(text: bytes, strings: Step) -> Iterator[Reading]:
    yield from _in_languages(text, (strings,))
    once = strings(text)
    if b"\\" in once:  # HTML in HTML has backslashes of its own, which are those of no string
        yield from _in_languages(once, ())


def _in_languages(text: bytes, strings: tuple[Step, ...]) -> Iterator[Reading]:
    entities, percents, both = _Seen(_ENTITY, text), _Seen(_PERCENT, text), _Seen(_PERCENT)
    for reading in _undone(text, PLAIN, strings):
        entities.look(reading.text)
        percents.look(reading.text)
        yield reading
    if entities:
        for reading in _undone(text, HTML, (*strings, _without_entities)):
            both.look(reading.text)
            yield reading
    if percents:
        for reading in _undone(text, URL, (*strings, _without_percents)):
            entities.look(reading.text)
            yield reading
    if both or (entities and percents):
        yield from _undone(text, f"{HTML}, {URL}", (*strings, _without_entities, _without_percents))


class _Seen:
    """A pattern, and whether it was found in any of the texts that it was given."""

    def __init__(self, pattern: re.Pattern[bytes], text: bytes = b"") -> None:
        self._pattern, self._found = pattern, False
        self.look(text)

    def look(self, text: bytes) -> None:
        self._found = self._found or self._pattern.search(text) is not None

    def __bool__(self) -> bool:
        return self._found


def _undone(text: bytes, form: str, steps: Collection[Step]) -> Iterator[Reading]:
    """Yield the text after each step that changes it, until no step does or the levels are used up."""
    for level in range(1, limits.ERASURE_LEVELS + 1):
        before = text
        for step in steps:
            if (undone := step(text)) != text:
                text = undone
                yield Reading(form, level, text)
        if text == before:
            return


# ---------------------------------------------------------------- words

_RUN = re.compile(rb"[0-9A-Za-z]+")
_RUNS = 4
_ESCAPED_BYTES = 12
"""Bytes that one byte of a text may become in a form that need not be in lines: `\\\\u0000` has seven."""
_RUN_BYTES = 32
_HIDING = re.compile(
    rb"\\(?:[xX](?:[0189]|2[356]|3[\dbB]|[46][1-9a-fA-F]|5[0-9acAC]|7[0-9abdfABDF]|[aA][dD]|[eE][12eEfF]|[fF][34])"
    rb"|[uU]|N\\*\{|[0-7])"
    rb"|%(?:[0189]|2[356]|3[\dbB]|[46][1-9a-fA-F]|5[0-9acAC]|7[0-9abdfABDF]|[aA][dD]|[eE][12eEfF]|[fF][34]|u)"
    rb"|&(?:\\*#|amp|AMP|bsol|percnt|num|semi|lcub|lbrace|rcub|rbrace|shy|[zZ])"
)
"""An escape of an ASCII letter or digit, of a hidden character, or of a mark with which such an escape can be written.

Without one, letters and digits that are neighbours in a reading of a text are neighbours in the text.
"""
_NUMERIC = re.compile(rb"\\[xXuUN0-7]")
_ELLIPSES = (b"...", "…".encode(), b"u2026", b"&hellip", b"&mldr")
_BYTES_ESCAPED = re.compile(rb"\\(?:x|u00|[0-3])|\x00|%")


def _may_hide(text: bytes) -> bool:
    """Return whether a text may hold escapes of ASCII letters and digits, or hidden characters between them."""
    # The first three tests take a tenth of the time of the last one.
    escapes = b"%" in text or b"&" in text or _NUMERIC.search(text) is not None
    return (escapes and _HIDING.search(text) is not None) or has_hidden(text)


class _Needle(NamedTuple):
    """Words in UTF-8, and the name of the form that they are in if it has one."""

    text: bytes
    form: str | None


class _Group(NamedTuple):
    """The needles, and the folded words, that have the same runs."""

    needles: list[_Needle]
    folded: list[FoldedWords]


def _runs_of(text: bytes) -> tuple[bytes, ...]:
    """Return some runs of letters and digits that every text with these words has, the longest first."""
    runs = sorted({run[:_RUN_BYTES] for run in _RUN.findall(text)}, key=lambda run: (-len(run), run))
    return tuple(runs[:_RUNS])


class SoughtWords:
    """Words to be found in any of their forms. Words under `limits.NEEDLE_CHARS` characters are left out."""

    def __init__(self, words: Iterable[str]) -> None:
        exact, alike = dict[bytes, _Needle](), dict[bytes, _Needle]()
        self._folded, self._wide = list[FoldedWords](), list[bytes]()
        for given in dict.fromkeys(words):
            if len(given) >= limits.NEEDLE_CHARS:
                for needle in _written(given):
                    exact.setdefault(needle.text, needle)
                    # A last backslash may belong to an escape in the text that goes on behind the words.
                    unescaped = (reading.text.rstrip(b"\\") for reading in readings(needle.text))
                    alike.update((text, _Needle(text, ALIKE)) for text in unescaped if _is_long(text))
                self._wide += _in_utf_16(given)
                changed = FoldedWords.of(given)
                # What is left of hidden characters alone would be found everywhere.
                if min(len(changed.spaced), len(changed.dropped)) >= limits.NEEDLE_CHARS:
                    self._folded.append(changed)
        kept = _shortest(exact.values())
        kept += _shortest((needle for text, needle in alike.items() if text not in exact), known=kept)
        by_runs = defaultdict[tuple[bytes, ...], _Group](lambda: _Group([], []))
        for needle in kept:
            by_runs[_runs_of(needle.text)].needles.append(needle)
        for each in self._folded:
            by_runs[_runs_of(each.spaced.encode("utf-8", "replace"))].folded.append(each)
        self._needles, self._groups = kept, list(by_runs.items())
        self._ends = [
            (_runs_of(end.encode("utf-8", "replace")), each) for each in self._folded for end in each.ends_to_cut
        ]
        self.longest_bytes = _ESCAPED_BYTES * max((len(text) for text in (*exact, *alike)), default=0)
        """The most bytes that the words take in a text where each of their bytes is escaped."""

    def __bool__(self) -> bool:
        """Whether any words are sought."""
        return bool(self._needles)

    def may_be_in(self, text: bytes) -> bool:
        """Return whether a text, or a block of lines, may hold the words: False is certain, and quick."""
        return any(self._possible(text))

    def form_in(self, text: bytes, levels: int = 0) -> str | None:
        """Return the form in which a text holds the words, None if it doesn't.

        `levels` is how often the text is escaped as a string by where it is stored: 1 for a line of JSON.
        """
        needles, changed = self._possible(text)
        if not needles and not changed:
            return None
        found = None
        wide = self._wide if _BYTES_ESCAPED.search(text) else ()
        for reading in readings(text):
            for needle, form in needles:
                if needle in reading.text:
                    if form != ALIKE:
                        was_escaped = reading.form == PLAIN and reading.levels > levels
                        return form or (ESCAPED if was_escaped else reading.form)
                    found = found or ALIKE
            if any(needle in reading.text for needle in wide):
                return UTF_16
            if found in (None, ALIKE) and changed:
                found = _changed_form(reading.text, changed) or found
        return found

    def plain_form_in(self, text: bytes) -> str | None:
        """Return the form in which a text holds the words without any escape, None if it doesn't."""
        plain = (form or PLAIN for needle, form in self._needles if needle in text)
        wide = (UTF_16 for needle in self._wide if needle in text)
        return next(plain, None) or next(wide, None) or _changed_form(text, self._possible(text)[1])

    def _possible(self, text: bytes) -> tuple[list[_Needle], list[FoldedWords]]:
        """Return the needles, and the folded words, that a text may hold."""
        if _may_hide(text):
            return self._needles, self._folded
        needles, changed = list[_Needle](), list[FoldedWords]()
        for runs, group in self._groups:
            for run in runs:  # a loop, because this is run for each line, and `all` would take five times as long
                if run not in text:
                    break
            else:
                needles += group.needles
                changed += group.folded
        if self._ends and any(mark in text for mark in _ELLIPSES):
            changed += [each for runs, each in self._ends if all(run in text for run in runs)]
        return needles, changed


def _changed_form(text: bytes, words: Collection[FoldedWords]) -> str | None:
    """Return the form in which a text holds words as one of our writers changed them, None if it doesn't."""
    if not words:
        return None
    spaced = folded(text)
    if any(each.spaced in spaced for each in words):
        return NORMALISED
    dropped = folded(text, drops=True) if has_disputed(text) else spaced
    if any(each.dropped in dropped for each in words if dropped is not spaced or each.dropped != each.spaced):
        return NORMALISED
    return CUT if has_ellipsis(spaced) and any(cut_in(spaced, each.spaced) for each in words) else None


def _in_utf_16(words: str) -> Iterator[bytes]:
    """Yield the bytes of the words in UTF-16, each as the character of its number, as escapes of bytes are read."""
    for encoding in ("utf-16-le", "utf-16-be") if _is_long(words.strip().encode("utf-8", "surrogatepass")) else ():
        yield words.strip().encode(encoding, "surrogatepass").decode("latin-1").encode()


def _written(words: str) -> Iterator[_Needle]:
    """Yield the words as other texts may hold them unescaped."""
    text = words.strip() if len(words.strip()) >= limits.NEEDLE_CHARS else words
    encoded = text.encode("utf-8", "surrogatepass")
    yield _Needle(encoded, None)
    if b" " in encoded:
        yield _Needle(encoded.replace(b" ", b"+"), URL)
    for quote in (b'"', b"'"):  # in CSV, SQL and YAML
        if quote in encoded:
            yield _Needle(encoded.replace(quote, 2 * quote), QUOTED)


def _is_long(text: bytes) -> bool:
    return len(text.decode("utf-8", "replace")) >= limits.NEEDLE_CHARS


def _shortest(needles: Iterable[_Needle], known: Iterable[_Needle] = ()) -> list[_Needle]:
    """Return the needles that hold no other one: whatever holds a needle that is left out holds one of these."""
    shorter, kept = [needle.text for needle in known], list[_Needle]()
    for needle in sorted(needles, key=lambda needle: (len(needle.text), needle.text)):
        if not any(other in needle.text for other in shorter):
            shorter.append(needle.text)
            kept.append(needle)
    return kept
