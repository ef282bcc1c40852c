r"""Strings and IRIs in the form that every engine reads alike.

Code points may be written `\u0041`. The recommendation has them replaced before anything else is read, so that they
could hide a keyword or close a string; engines differ. Here they are replaced inside strings and IRIs, refused where
the character would end these, and unreadable elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rbank_es.sparql.guard.edits import Edit
from rbank_es.sparql.parser.tokens import Token, refuse_at

_CODE_POINT = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_LONE_RETURN = re.compile(r"\r(?!\n)")
_NOT_IN_IRI = frozenset('<>"{}|^`\\') | {chr(code) for code in range(0x21)}
_NOT_IN_STRING = frozenset("\"'\\\r\n\0")
_NOT_IN_COMMENT = frozenset("\r\n")


def plain(text: str) -> str:
    """The inside of a string or an IRI with its code points as characters; those that don't exist stay as they are."""
    return _CODE_POINT.sub(lambda match: match[1] + (_character(match) or match[0]), text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    """The character of a code point; empty where there is none."""
    number = int(match[2] or match[3], 16)
    return chr(number) if number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF else ""


def plain_edits(tokens: tuple[Token, ...]) -> Iterator[Edit]:
    """What has to change in a query so that its strings, IRIs and line ends are read alike everywhere.

    Raises `QueryRefused('syntax')` for a code point that can't stand where it is written.
    """
    for token in tokens:
        start = token.offset - len(token.between)
        _refuse_code_points(token, token.between, start, _NOT_IN_COMMENT)
        yield from (Edit(start + m.start(), start + m.end(), "\n") for m in _LONE_RETURN.finditer(token.between))
        if "\\" not in token.text or token.kind not in ("string", "iri"):
            continue
        _refuse_code_points(token, token.text, token.offset, _NOT_IN_IRI if token.kind == "iri" else _NOT_IN_STRING)
        text = plain(token.text)
        if token.kind == "string":
            text = _without_needless(text)
        if text != token.text:
            yield Edit(token.offset, token.end, text)


def _refuse_code_points(token: Token, text: str, start: int, forbidden: frozenset[str]) -> None:
    """Raise for a code point that would end what it stands in, or that is no character."""
    if "\\" not in text:
        return
    in_comment = forbidden is _NOT_IN_COMMENT
    for match in _CODE_POINT.finditer(text):
        character = _character(match)
        if character in forbidden or not (character or in_comment):
            message = f"the code point {match[0].lstrip(chr(92))} can't stand here"
            refuse_at(token, "syntax", message, "write the character itself, or leave it out")


def _without_needless(text: str) -> str:
    r"""A string without the backslash of `\'` between double quotes, or of `\"` between single ones: few need it."""
    other = "'" if text[0] == '"' else '"'
    return re.sub(rf"(?<!\\)((?:\\\\)*)\\{other}", rf"\1{other}", text)
