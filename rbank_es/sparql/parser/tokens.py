r"""SPARQL 1.1 text as tokens, each with its place, the tokens that no query may hold, and edits of a text by place.

Terminals are those of the recommendation (https://www.w3.org/TR/sparql11-query/#sparqlGrammar, productions 139 to
173), the longest match first. A keyword in a string, a comment, an IRI, a variable or a prefixed name is no keyword.

Code points may be written `\u0041`. The recommendation replaces them before anything else is read, so they could hide a
keyword or close a string; engines differ. Here they are replaced inside strings and IRIs, refused where the character
would end these, and unreadable elsewhere.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, NoReturn

from rbank_es import limits
from rbank_es.errors import QueryRefused
from rbank_es.system.text_cuts import cut

Kind = Literal["iri", "name", "variable", "blank", "string", "language", "number", "word", "symbol", "end"]
"""`name` is a prefixed name, `word` a keyword or `a`, `true`, `false`."""

FORMS = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
"""The words with which a query begins."""

UPDATES = frozenset({"INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "COPY", "MOVE", "ADD", "WITH"})
"""The words with which an update begins."""

_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_VARIABLE = rf"{_BASE}_0-9\u00b7\u0300-\u036f\u203f-\u2040"
_NAME = rf"{_VARIABLE}\-"
_CODE_POINT = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
_ESCAPE = rf"\\[tbnrf\\\"']|{_CODE_POINT}"
_LOCAL = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_PREFIX = rf"(?:[{_BASE}](?:[{_NAME}.]*+(?<!\.))?)?:"

# Possessive quantifiers (`*+`, `++`) throughout: no text can make the pattern backtrack for long.
_TOKEN = re.compile(
    rf"""
      (?P<iri> <(?:[^\x00-\x20<>"{{}}|^`\\]|{_CODE_POINT})*+> )
    | (?P<string>
          \"{{3}}(?:\"{{0,2}}(?:[^"\\]|{_ESCAPE}))*+\"{{3}}
        | '{{3}}(?:'{{0,2}}(?:[^'\\]|{_ESCAPE}))*+'{{3}}
        | \"(?:[^"\\\n\r]|{_ESCAPE})*+\"(?!\")
        | '(?:[^'\\\n\r]|{_ESCAPE})*+'(?!')
        | \"\"(?!\") | ''(?!') )
    | (?P<blank> _:[{_BASE}_0-9](?:[{_NAME}]|\.++(?=[{_NAME}]))*+ )
    | (?P<name> {_PREFIX}(?:(?:[{_BASE}_0-9:]|{_LOCAL})(?:(?:[{_NAME}:]|{_LOCAL})|\.++(?=[{_NAME}:%\\]))*+)? )
    | (?P<variable> [?$][{_BASE}_0-9][{_VARIABLE}]*+ )
    | (?P<language> @[A-Za-z]++(?:-[A-Za-z0-9]++)*+ )
    | (?P<number> (?:[0-9]++\.[0-9]*|\.?[0-9]++)[eE][+-]?[0-9]++ | [0-9]*\.[0-9]++ | [0-9]++ )
    | (?P<word> [A-Za-z_][A-Za-z0-9_]*+ )
    | (?P<symbol> \^\^ | \|\| | && | != | <= | >= | [{{}}()\[\].,;*/+\-|^!?=<>] )
    """,
    re.VERBOSE,
)
_BETWEEN = re.compile(r"(?:[ \t\r\n]++|\#[^\r\n]*+)*+")
_LINE = re.compile(r"\r\n|\r|\n")
# A NUL ends the text for some engines; a lone surrogate can't be sent as UTF-8.
_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")


class Token(NamedTuple):
    """One token. `offset` counts characters from 0, `line` and `column` from 1."""

    kind: Kind
    text: str
    offset: int
    line: int
    column: int
    between: str
    """The blanks and comments before it."""

    @property
    def end(self) -> int:
        """The offset just after it."""
        return self.offset + len(self.text)

    @property
    def keyword(self) -> str:
        """The word in capitals; empty for other kinds."""
        return self.text.upper() if self.kind == "word" else ""

    def is_symbol(self, *texts: str) -> bool:
        """Return whether it is one of these symbols."""
        return self.kind == "symbol" and self.text in texts


class Lines:
    """Lines and columns of a text, both from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in _LINE.finditer(text))]

    def of(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of an offset."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def offset_of(self, line: int, column: int) -> int:
        """Return the offset of a line and a column."""
        return self._starts[line - 1] + column - 1


def refuse_at(token: Token, code: str, message: str, hint: str) -> NoReturn:
    """Raise `QueryRefused` with the place of a token."""
    raise QueryRefused(code, message, hint, line=token.line, column=token.column)


def clipped(text: str) -> str:
    """Return a name as a message shows it, truncated to `limits.GIVEN_CHARS`."""
    return cut(text, limits.GIVEN_CHARS)


def is_iri_text(text: str) -> bool:
    """Return whether a text can stand between `<` and `>` as it is."""
    found = _TOKEN.fullmatch(f"<{text}>")
    return found is not None and found.lastgroup == "iri" and "\\" not in text


def shown(token: Token) -> str:
    """Return a token as a message shows it, in quotes."""
    text = clipped(token.text)
    return repr(text) if "'" not in text else f"`{text}`"


def tokenise(text: str) -> tuple[Token, ...]:
    """Return the tokens of a query and an `end` token; joined with what stands between them, they are the text again.

    Raises `QueryRefused`: `too_long` over `QUERY_TEXT_CHARS`, `syntax` where no token can be read.
    """
    if len(text) > limits.QUERY_TEXT_CHARS:
        raise QueryRefused(
            "too_long",
            f"the query has {len(text):,} characters, more than {limits.QUERY_TEXT_CHARS:,}",
            "ask for less at a time, or replace long lists by a pattern",
        )
    if broken := _NO_TEXT.search(text):
        raise _unreadable(text, broken.start(), *Lines(text).of(broken.start()))
    return tuple(read_tokens(text))


def read_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text of any size, as `tokenise` does of a query."""
    lines = Lines(text)
    offset = 0
    while True:
        gap = _BETWEEN.match(text, offset)
        between = gap.group() if gap else ""
        offset += len(between)
        line, column = lines.of(offset)
        if offset == len(text):
            yield Token("end", "", offset, line, column, between)
            return
        found = _TOKEN.match(text, offset)
        if found is None or found.lastgroup is None:
            raise _unreadable(text, offset, line, column)
        # The groups of the pattern are the kinds.
        yield Token(found.lastgroup, found.group(), offset, line, column, between)  # type: ignore[arg-type]
        offset = found.end()


def _unreadable(text: str, offset: int, line: int, column: int) -> QueryRefused:
    message, hint = _complaint(text, offset)
    return QueryRefused("syntax", message, hint, line=line, column=column)


def _complaint(text: str, offset: int) -> tuple[str, str]:
    """Return the fault of the character at an offset, and what to write instead."""
    char = text[offset]
    if char in "\"'":
        return (
            "a string is not closed, or has an escape that SPARQL doesn't know",
            'close it with the same quote, write \\\\ for a backslash, and """…""" around text with line breaks',
        )
    if char == "\\":
        hint = "write a line break or the character itself, or put the text in quotes"
        return "a backslash stands outside a string", hint
    if char == "`":
        return "'`' means nothing here", "send the query alone, without ``` around it"
    if char in "?$":
        return f"{char!r} is followed by no name", "a variable is ? and letters, digits or _, such as ?name"
    if char == "&":
        return "a single '&'", "write && for and"
    if char in "“”‘’":
        return f"{char!r} is no quote in SPARQL", "write a plain \" or '"
    if char == "@":
        return "'@' is followed by no language", 'write a language after a string as "text"@en'
    code = f"U+{ord(char):04X}"
    if char.isprintable() and not char.isspace():
        return f"{char!r} ({code}) means nothing here", "put text in quotes, and IRIs in <…>"
    return f"the character {code} can't stand in a query", "write a plain blank or a line break, or leave it out"


# ---------------------------------------------------------------- what no query may hold


def refuse_by_token(tokens: tuple[Token, ...]) -> None:
    """Raise `QueryRefused` for updates, several statements, SERVICE, and queries that are too large or too deep.

    Only words count: the same letters in a string, a comment, an IRI, a variable or a prefixed name do not.
    """
    if len(tokens) - 1 > limits.QUERY_TOKENS:  # the last token is the end
        most = f"{limits.QUERY_TOKENS:,}"
        hint = "ask for less at a time, or replace long lists by a pattern"
        refuse_at(
            tokens[limits.QUERY_TOKENS], "too_long", f"the query has more than {most} names, words and marks", hint
        )
    form = _first_keyword(tokens)
    if form.keyword in UPDATES:
        refuse_at(form, "not_read_only", f"{form.keyword} changes data", "ask with SELECT, ASK, CONSTRUCT or DESCRIBE")
    depth, second = 0, None
    for token, after in zip(tokens, (*tokens[1:], tokens[-1]), strict=True):
        if token.keyword == "SERVICE":
            _refuse_service(token, after)
        depth += token.is_symbol("{", "(", "[") - token.is_symbol("}", ")", "]")
        if depth > limits.QUERY_NESTING:
            hint = "take out brackets that aren't needed, or ask in several steps"
            refuse_at(token, "syntax", f"brackets are more than {limits.QUERY_NESTING} deep", hint)
        if token.kind == "number" and len(token.text) > limits.QUERY_NUMBER_DIGITS:
            refuse_at(token, "syntax", f"a number of {len(token.text):,} digits", "write a shorter number")
        if depth <= 0 and token.is_symbol(";") and _begins_statement(after) and token.offset > form.offset:
            second = second or token
    if second is not None:
        refuse_at(second, "not_read_only", "several statements in one query", "send one query at a time, without ';'")


def _first_keyword(tokens: tuple[Token, ...]) -> Token:
    """Return the first word that is no part of the prologue, or the `end` token."""
    return next(t for t in tokens if t.kind == "end" or (t.kind == "word" and t.keyword not in ("PREFIX", "BASE")))


def _begins_statement(token: Token) -> bool:
    return token.keyword in UPDATES or token.keyword in (*FORMS, "PREFIX", "BASE")


def _refuse_service(token: Token, after: Token) -> NoReturn:
    hint = "split it into two queries: ask here first, then ask the other endpoint with what came back"
    if after.text in ("wikibase:label", "<http://wikiba.se/ontology#label>"):
        hint = 'for labels add OPTIONAL { ?x rdfs:label ?label FILTER(LANG(?label) = "en") } instead'
    refuse_at(token, "service_refused", "SERVICE would send a request to another endpoint", hint)


# ---------------------------------------------------------------- edits


class Edit(NamedTuple):
    """A replacement of the text from `start` to `end`."""

    start: int
    end: int
    text: str


def rewritten(text: str, edits: Sequence[Edit]) -> str:
    """Return a text with its edits made: at one place insertions first; of two that overlap, the first."""
    return "".join(_pieces(text, edits))


def _ordered(edits: Sequence[Edit]) -> list[Edit]:
    """Return edits by place, those at one place in the order given, without those in text that another replaces."""
    ordered: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: edit[:2]):
        if not ordered or edit.start >= ordered[-1].end:
            ordered.append(edit)
    return ordered


def _pieces(text: str, edits: Sequence[Edit]) -> Iterator[str]:
    done = 0
    for edit in _ordered(edits):
        yield text[done : edit.start]
        yield edit.text
        done = edit.end
    yield text[done:]


_CODE_POINT_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_LONE_RETURN = re.compile(r"\r(?!\n)")
# Those that production 139 (IRIREF) leaves out.
_NOT_IN_IRI = frozenset('<>"{}|^`\\') | {chr(code) for code in range(0x21)}
_NOT_IN_STRING = frozenset("\"'\\\r\n\0")
_NOT_IN_COMMENT = frozenset("\r\n")


def plain(text: str) -> str:
    """Return the inside of a string or an IRI with its code points as characters; those that don't exist stay."""
    if "\\" not in text:
        return text
    return _CODE_POINT_ESCAPE.sub(lambda match: match[1] + (_character(match) or match[0]), text)


def _character(match: re.Match[str]) -> str:
    number = int(match[2] or match[3], 16)
    return chr(number) if number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF else ""


def plain_edits(tokens: tuple[Token, ...]) -> Iterator[Edit]:
    """Yield the edits after which every engine reads a query's strings, IRIs and line ends alike.

    Raises `QueryRefused('syntax')` for a code point that can't stand where it does.
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
    """Raise for a code point that would end its string, IRI or comment, or that is no character."""
    if "\\" not in text:
        return
    # In a comment a code point that doesn't exist harms nobody; one that is a line end would end the comment.
    in_comment = forbidden is _NOT_IN_COMMENT
    for match in _CODE_POINT_ESCAPE.finditer(text):
        character = _character(match)
        if character in forbidden or not (character or in_comment):
            message = f"the code point {match[0].lstrip(chr(92))} can't stand here"
            refuse_at(token, "syntax", message, "write the character itself, or leave it out")


def _without_needless(text: str) -> str:
    # No engine needs the backslash of `\'` between double quotes, and some refuse it.
    other = "'" if text[0] == '"' else '"'
    return re.sub(rf"(?<!\\)((?:\\\\)*)\\{other}", rf"\1{other}", text)
