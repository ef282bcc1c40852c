"""The parts of a model's reply by their form alone: thinking, sections, JSON values, fenced programs, quotations."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator
from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple

from rbank_es import limits


class Span(NamedTuple):
    """A range of characters, the end excluded."""

    start: int
    end: int


class ReplySection(NamedTuple):
    """The text below a header `[[ ## name ## ]]`. `closed`: another header follows."""

    name: str
    value: str
    span: Span
    closed: bool


class ReplyValue(NamedTuple):
    """A JSON object or list in a reply; `parsed` is None where the brackets close but can't be parsed."""

    parsed: Any
    text: str
    span: Span


TWICE = object()
"""The value of a name that an object has twice, with different values: it says nothing."""

COMPLETED = "completed"
"""The section that ends an answer, by dspy's adapter."""

_NOTHING = frozenset({"", "none", "null", "empty", "n/a"})


def means_nothing(text: str) -> bool:
    """Return whether a field is left empty, or holds a word for it."""
    return text.strip(" \t\r\n`\"'.").casefold() in _NOTHING


# ---------------------------------------------------------------- thinking

_THOUGHT = (
    r"(?:\w+:)?(?:think|thinking|thought|thoughts|reasoning|reflection|analysis|scratchpad|scratch_pad|"
    r"monologue|inner_monologue|reflect|internal_monologue|deliberation|rationale|plan|draft|commentary|chain_of_thought|cot)"
)
_BEGINS = (
    rf"<{_THOUGHT}(?:\s[^<>]{{0,200}})?>", rf"\[{_THOUGHT}\]", r"◁think▷", r"<\|begin_of_thought\|>",
    r"<\|START_THINKING\|>", r"<unused94>(?:thought)?",
    r"<\|?channel\|?>\s*(?:analysis|commentary|thought)[^\n<]{0,80}(?:<\|message\|>)?",
)  # fmt: skip
_ENDS = (
    rf"</{_THOUGHT}\s*>", rf"\[/{_THOUGHT}\]", r"◁/think▷", r"<\|end_of_thought\|>", r"<\|END_THINKING\|>",
    r"<unused95>", r"<\|channel\|>\s*final[^\n<]{0,80}(?:<\|message\|>)?", r"<channel\|>",
)  # fmt: skip
_THINKING = re.compile(f"(?P<begin>{'|'.join(_BEGINS)})|(?P<end>{'|'.join(_ENDS)})", re.IGNORECASE)
_CONTROL = re.compile(
    r"<\|(?:start|end|return|im_start|im_end|message|channel|begin_of_solution|end_of_solution|endoftext|eot_id)\|>"
)


class OwnWords(NamedTuple):
    """A reply without its thinking. `unclosed`: thinking began and never ended."""

    text: str
    unclosed: bool = False


def without_thinking(text: str) -> OwnWords:
    """Return a reply without what it thinks aloud, in the tags of any model.

    Thinking that began before the reply, in the prompt, ends at a closing tag without an opening one: all before it is
    thinking. A reply that is one JSON value has no thinking, whatever its texts hold.
    """
    bare = text.strip()
    if bare[:1] in "{[" and parsed_json(bare) is not None:
        return OwnWords(bare)
    kept, depth, at = list[str](), 0, 0
    for mark in _THINKING.finditer(text):
        if mark["begin"]:
            kept += [text[at : mark.start()]] if not depth else []
            # A channel begins where the last one ends; its name is no second bracket.
            depth = 1 if "channel" in mark[0].casefold() else depth + 1
        elif depth:
            depth -= 1
        else:
            kept.clear()
        at = mark.end()
    kept += [text[at:]] if not depth else []
    return OwnWords(_CONTROL.sub("\n", "\n".join(kept)).strip(), unclosed=depth > 0)


def after_thinking(text: str) -> str:
    """Return a reply behind the thinking that it begins with, or that began in the prompt; empty if that never ends.

    Unlike `without_thinking` it looks at the beginning alone: code may hold a word in brackets that looks like a tag.
    """
    begins, depth = 0, 0
    for mark in _THINKING.finditer(text):
        if not depth and mark["begin"] and text[begins : mark.start()].strip():
            break
        if not depth and mark["end"] and HEADER.search(text, begins, mark.start()) is not None:
            break
        depth = depth + 1 if mark["begin"] else max(depth - 1, 0)
        begins = begins if depth else mark.end()
    return "" if depth else text[begins:]


# ---------------------------------------------------------------- JSON

_OPENING = re.compile(
    r"""\{(?=\s{0,99}(?:["'}\w]|//|/\*))|\[(?=\s{0,99}[\[\]{"'\w-])|"""
    # An object by the name of its schema: MemoryItem(title=…).
    r"""\b[A-Z]\w{0,60}\((?=\s{0,99}\w{1,60}\s{0,9}=)"""
)
_NAMED = re.compile(r"\w\(\s{0,99}\w{1,60}\s{0,9}=")
BEGUN = re.compile(r"""\{\s{0,99}["'](\w*)["']?(?:\s{0,99}:\s{0,99}(\[))?""")
_CLOSES = {"{": "}", "[": "]", "(": ")"}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict[str, Any]()
    for name, value in pairs:
        made[name] = TWICE if name in made and made[name] != value else value
    return made


# Not strict, because models write line breaks inside strings.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object)


_MEMBER = re.compile(r'\s*"(\w+)"\s*:\s*')
_MEMBER_END = re.compile(r"\s*[,}]")


def whole_members(text: str) -> dict[str, Any]:
    """Return the members of a JSON object that end before the place where its text was cut."""
    found, at, decoder = dict[str, Any](), text.find("{") + 1, json.JSONDecoder(strict=False)
    while at and (name := _MEMBER.match(text, at)):
        try:
            value, at = decoder.raw_decode(text, name.end())
        except (ValueError, RecursionError):
            break
        end = _MEMBER_END.match(text, at)
        if end is None:
            break
        found[name[1]], at = value, end.end()
    return found


def parsed_json(text: str) -> Any:
    """Return the JSON value that a whole text is; None for any other text."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def decoded_at(text: str, start: int) -> tuple[Any, int] | None:
    """Return the JSON value at a position, and its end; None if there is none."""
    try:
        found: tuple[Any, int] = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return found


def closing(text: str, start: int, most: int = limits.LM_REPAIRED_CHARS) -> int | None:
    """Return the end of the brackets that open at a position; None if they don't close within `most` characters.

    Brackets within strings don't count. A string that isn't closed closes nothing.
    """
    wanted, at, end = list[str](), start, min(len(text), start + most)
    while at < end:
        char = text[at]
        if char == '"' or (char == "'" and text[max(0, at - 99) : at].rstrip()[-1:] in ("[", "{", ",", ":", "(", "=")):
            at = _string_end(text, at, end)
        elif char in _CLOSES:
            wanted.append(_CLOSES[char])
        elif char in "]})":
            if not wanted or wanted.pop() != char:
                return None
            if not wanted:
                return at + 1
        at += 1
    return None


def _string_end(text: str, start: int, end: int) -> int:
    at = start + 1
    while at < end and text[at] != text[start]:
        at += 2 if text[at] == "\\" else 1
    return at


def values_in(text: str) -> tuple[list[ReplyValue], list[Span], bool]:
    """Return the outermost JSON values of a text, the spans from brackets that never close, and whether some were left.

    Python's notation is read too. At most `REPLY_BRACKETS` brackets that begin no value are looked at.
    """
    found, open_ = list[ReplyValue](), list[Span]()
    at, failed = 0, 0
    while failed < limits.REPLY_BRACKETS and (mark := _OPENING.search(text, at)) is not None:
        start = mark.start()
        strict = decoded_at(text, start)
        if strict is not None:
            parsed, at = strict
            found.append(ReplyValue(parsed, text[start:at], Span(start, at)))
            continue
        failed += 1
        at = start + 1
        end = closing(text, start)
        if end is None:
            open_ += [Span(start, len(text))] if text[start] in _CLOSES else []
        elif ":" in text[start:end] or _NAMED.search(text, start, end):
            found.append(ReplyValue(_literal(text[start:end]), text[start:end], Span(start, end)))
            at = end
    return found, open_, failed >= limits.REPLY_BRACKETS


_LENIENT = re.compile(
    r"""(?P<kept>"(?:\\.|[^"\\])*")|'(?P<single>(?:\\.|[^'\\])*)'|(?P<left>//[^\n]*|/\*.*?\*/|,(?=\s*[}\]]))|"""
    r"(?P<constant>\b(?:True|False|None)\b)|(?P<name>[A-Za-z_]\w*)(?=\s{0,99}:)",
    re.DOTALL,
)
# A string or a bracket, and the space behind it where the next member or entry follows without a comma.
_NO_COMMA = re.compile(r"""("(?:\\.|[^"\\])*"|[}\]])(\s{1,99}(?="(?:\\.|[^"\\]){0,99}"\s{0,99}:|[{\[]))?""", re.DOTALL)
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}


def _strict(mark: re.Match[str]) -> str:
    """Return a piece of a lenient notation as JSON."""
    if mark["single"] is not None:
        return '"' + re.sub(r"\\'|(?<!\\)\"", lambda each: "'" if each[0] == "\\'" else '\\"', mark["single"]) + '"'
    if mark["left"] is not None:
        return ""
    return _CONSTANTS.get(mark["constant"] or "") or mark["kept"] or f'"{mark["name"]}"'


def _literal(text: str) -> Any:
    """Return a value with comments, single quotes, bare names or a comma too many; or one in Python's notation."""
    # First as JSON, because Python takes the last of two values of one name in silence. Twice, because a comma may
    # stand before a comment.
    strict = _LENIENT.sub(_strict, _LENIENT.sub(_strict, text))
    lenient = parsed_json(strict)
    if lenient is None:
        lenient = parsed_json(_NO_COMMA.sub(lambda gap: f"{gap[1]}," if gap[2] else gap[1], strict))
    if lenient is not None:
        return lenient
    try:
        return ast.literal_eval(_Objects().visit(ast.parse(text, mode="eval")))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


class _Objects(ast.NodeTransformer):
    """Makes a dictionary of a call with named arguments alone, which writes an object by the name of its schema."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if node.args or not all(each.arg for each in node.keywords):
            return node
        names: list[ast.expr | None] = [ast.Constant(each.arg) for each in node.keywords]
        return ast.Dict(names, [self.visit(each.value) for each in node.keywords])


def query_of(text: str) -> str:
    """Return the query of a text that calls the tool that makes it, or holds it in an object or a fence; else the text.

    Models hand in the call that they made in the place of its query.
    """
    fenced = _FENCED.fullmatch(text.strip())
    inner = fenced[1] if fenced is not None else text
    try:
        made = ast.parse(inner.strip(), mode="eval").body
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return inner
    found: list[ast.expr] = []
    if isinstance(made, ast.Call):
        found = [*(each.value for each in made.keywords if each.arg == "query"), *made.args[:1]]
    elif isinstance(made, ast.Dict):
        names = (getattr(name, "value", None) for name in made.keys)
        found = [value for name, value in zip(names, made.values, strict=True) if name == "query"]
    given = [each.value for each in found if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return given[0] if given else inner


_FENCED = re.compile(r"```\w*\n(.*?)\n?```", re.DOTALL)

# ---------------------------------------------------------------- layout

HEADER = re.compile(r"^[ \t]*\[\[[ \t]*##[ \t]*(\w+)[ \t]*##[ \t]*\]\]", re.MULTILINE)
_NUMBERED = re.compile(r"(\w+?)_\d{1,3}")
FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^`\n]*$", re.MULTILINE)
_DATA = frozenset(
    {
        "",
        "json",
        "jsonc",
        "json5",
        "jsonl",
        "text",
        "txt",
        "plaintext",
        "markdown",
        "md",
        "output",
        "yaml",
        "yml",
        "xml",
    }
)
BLOCK = re.compile(r"^[ \t]*(?:>|&gt;).*$", re.MULTILINE)
# A fence is no quotation mark.
QUOTES = re.compile(
    r"[\"“„«]|(?<!`)`(?!`)|(?<!\w)'|<(blockquote|quote|q|example|code|pre|s|del|strike)>|~~(?!~)|<!--", re.IGNORECASE
)
_CLOSING_QUOTES = {
    '"': ('"',), "“": ("”",), "„": ("“", "”"), "«": ("»",), "`": ("`",), "'": ("'",), "~~": ("~~",), "<!--": ("-->",),
}  # fmt: skip


def quotation_at(text: str, mark: re.Match[str]) -> Span | None:
    """Return the span from a quotation mark to its closing one; None where none follows in its paragraph."""
    closes = (f"</{mark[1]}>",) if mark[1] else _CLOSING_QUOTES[mark[0]]
    most = mark.end() + limits.REPLY_QUOTATION_CHARS
    paragraph = text.find("\n\n", mark.end(), most)
    most = paragraph if paragraph >= 0 and not mark[0].startswith("<") else most
    ends = [(at, len(each)) for each in closes if (at := text.find(each, mark.end(), most)) >= 0]
    end, size = min(ends, default=(-1, 0))
    return Span(mark.start(), end + size) if end >= 0 else None


def canonical_value(value: Any) -> str:
    """Return a JSON value as text that doesn't depend on the order of names."""
    return json.dumps(value, sort_keys=True, default=repr)


def flat(text: str) -> str:
    """Return a text without spaces, so that a repetition is found in another layout."""
    return "".join(text.split())


def sections_of(text: str, outputs: Collection[str] = ()) -> Iterator[ReplySection]:
    """Yield the sections of a text, in order. The name of an output with a number is read without it."""
    marks = list(HEADER.finditer(text))
    for mark, following in zip_longest(marks, marks[1:]):
        end = following.start() if following is not None else len(text)
        name, value = mark[1].casefold(), text[mark.end() : end].strip()
        numbered = _NUMBERED.fullmatch(name)
        name = numbered[1] if numbered is not None and name not in outputs and numbered[1] in outputs else name
        yield ReplySection(name, value, Span(mark.start(), end), following is not None)


@cache
def label(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of a line that begins with one of these names, whatever sets it apart."""
    longest = sorted(names, key=len, reverse=True)
    either = "|".join(name.replace("_", "[ _]") for name in longest)
    return re.compile(
        rf"^[ \t]*(?:\d{{1,2}}[.)][ \t]*)?(?P<open>(?:[-*#_\[<( \t]|`(?!`)){{0,9}})(?P<name>{either})\b(?:_\d{{1,3}})?"
        r"(?P<close>(?:[*#_\])> \t]|`(?!`)){0,9})(?P<colon>:?)[*_ \t]{0,4}(?P<rest>.*)$",
        re.MULTILINE | re.IGNORECASE,
    )


def has_ended(text: str) -> bool:
    """Return whether an answer has its end marker behind a section."""
    names = [each.name for each in sections_of(text)]
    return COMPLETED in names[1:]


def first_paragraph(text: str, span: Span) -> Span:
    """Return the span of a section as far as its first blank line behind words."""
    begins = HEADER.match(text, span.start)
    start = begins.end() if begins is not None else span.start
    start += len(text[start : span.end]) - len(text[start : span.end].lstrip())
    end = text.find("\n\n", start, span.end)
    return Span(span.start, end if end >= 0 else span.end)


def programs_in(text: str) -> list[Span]:
    """Return the spans of fenced blocks in a language of programs, to the end if they aren't closed."""
    found, opened = list[Span](), None
    for mark in FENCE.finditer(text):
        if opened is None:
            opened = mark
        elif mark[1].startswith(opened[1]) and not mark[2]:
            found += [Span(opened.start(), mark.end())] if opened[2].casefold() not in _DATA else []
            opened = None
    if opened is not None and opened[2].casefold() not in _DATA:
        found.append(Span(opened.start(), len(text)))
    return found


def merged(spans: list[Span]) -> list[Span]:
    """Return spans in order, those that touch as one."""
    made = list[Span]()
    for span in sorted(spans):
        if made and span.start <= made[-1].end:
            made[-1] = Span(made[-1].start, max(made[-1].end, span.end))
        else:
            made.append(span)
    return made
