"""The reader of models' replies: what a reply says in its own words, and what it only thinks, quotes or repeats.

Judges, extractors and guides read through it. A reply may be any text. Its parts are found in every form: sections
(`[[ ## name ## ]]`), JSON alone, in fences or amid words, labelled lines. Each part has a *standing*:

- `own`: the model says it as its answer.
- `doubted`: its surroundings say that it is somebody else's, an example, a draft or a condition, or the request holds
  it. Such a part never is the answer, and never contradicts one.
- Left out altogether is what structure sets apart: thinking, block quotes, quotation marks, code of a program, the
  schema, sections that repeat the task.

A reader takes an answer only if all parts of standing `own` agree. Position decides nothing: of two that differ, none
is taken. What was not closed is not used. A reply is read in time linear in its length, but for a bounded number of
brackets (`REPLY_BRACKETS`).
"""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from rbank_es import limits

Standing = Literal["own", "doubted"]


class ModelReply(NamedTuple):
    """A model's reply. `cut`: the provider ended it at a bound. `given` is the text of the request."""

    text: str
    cut: bool = False
    given: str = ""


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

# ---------------------------------------------------------------- thinking

_THOUGHT = (
    r"(?:\w+:)?(?:think|thinking|thought|thoughts|reasoning|reflection|analysis|scratchpad|scratch_pad|"
    r"monologue|inner_monologue|internal_monologue|deliberation|rationale|plan|draft|commentary|chain_of_thought|cot)"
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
_CONTROL = re.compile(r"<\|(?:start|end|return|im_start|im_end|message|channel|begin_of_solution|end_of_solution)\|>")


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
    if bare[:1] in "{[" and _parsed(bare) is not None:
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


# ---------------------------------------------------------------- JSON

_OPENING = re.compile(r"""\{(?=\s{0,99}["'}\w])|\[(?=\s{0,99}[\[\]{"'\w-])""")
_BEGUN = re.compile(r"""\{\s{0,99}["'](\w*)["']?(?:\s{0,99}:\s{0,99}(\[))?""")
_CLOSES = {"{": "}", "[": "]", "(": ")"}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict[str, Any]()
    for name, value in pairs:
        made[name] = TWICE if name in made and made[name] != value else value
    return made


# Not strict, because models write line breaks inside strings.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object)


def _parsed(text: str) -> Any:
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
            open_.append(Span(start, len(text)))
        elif ":" in text[start:end]:
            found.append(ReplyValue(_literal(text[start:end]), text[start:end], Span(start, end)))
            at = end
    return found, open_, failed >= limits.REPLY_BRACKETS


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


# ---------------------------------------------------------------- surroundings

_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*##[ \t]*(\w+)[ \t]*##[ \t]*\]\]", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^`\n]*$", re.MULTILINE)
_DATA = frozenset({"", "json", "jsonc", "json5", "jsonl", "text", "txt", "plaintext", "markdown", "md", "output"})
_BLOCK = re.compile(r"^[ \t]*(?:>|&gt;).*$", re.MULTILINE)
# A fence is no quotation mark.
_QUOTES = re.compile(
    r"[\"“„«]|(?<!`)`(?!`)|(?<!\w)'|<(blockquote|quote|q|example|code|pre|s|del|strike)>|~~(?!~)|<!--", re.IGNORECASE
)
_CLOSING_QUOTES = {
    '"': ('"',), "“": ("”",), "„": ("“", "”"), "«": ("»",), "`": ("`",), "'": ("'",), "~~": ("~~",), "<!--": ("-->",),
}  # fmt: skip

_ELSEWHERE = (
    r"wrote|writes?|written|writing|said|says?|saying|stat(?:es|ed|ing)|claim(?:s|ed|ing)?|answer(?:s|ed)|"
    r"repl(?:ies|ied)|return(?:s|ed)|contain(?:s|ed|ing)?|includ(?:es|ed|ing)|quot(?:e|es|ed|ing)|repeats?|"
    r"echo(?:es|ed)?|prints?|printed|reads|inject(?:s|ed|ion)|instruct\w*|submitted|submission|tells|asks|demands|"
    r"(?:agent'?s?|its|submitted|given) (?:final |own |whole )?answer(?: is| was)?|under judge?ment|expected output|"
    r"for example|example|e\.g|for instance|such as|like this|looks? like|"
    r"(?:the|output|expected|required) (?:output )?(?:format|form|schema|template)|schema|template|placeholder|sample|"
    r"past case|draft|first|initial(?:ly)?|tentative(?:ly)?|preliminary|provisional(?:ly)?|maybe|perhaps|"
    r"(?:might|may|could|would|should) (?:be|have been|say|give|look)|if|unless|suppose|guess(?:ed)?|lean(?:s|ing)?|"
    r"instead of|rather than|not|never|no longer|previous(?:ly)?|earlier|almost|tempt(?:ed|ing)|considered|considering"
)
_HERE = (
    r"final(?:ly)?|conclu\w+|therefore|thus|hence|so|overall|in summary|here(?: is|'s| are| you go)|"
    r"as requested|sure|okay|certainly|"
    r"my (?:final |own |overall )?(?:verdict|judg\w+|answer|assessment|decision|evaluation|view|response|reply|result)|"
    r"in (?:the |a |your |this |my )?(?:\w+ ){0,3}(?:format|form|schema)|"
    r"i (?:judge|conclude|decide|say|give|return|find|rate)|"
    r"verdict(?: is)?|judg(?:e?ment)(?: is)?|decision|revised|corrected|correction|below|following|these are|items?"
)
_CUE = re.compile(rf"\b(?:(?P<here>{_HERE})|(?P<elsewhere>{_ELSEWHERE}))\b", re.IGNORECASE)
_REPEATED = re.compile(
    r"\A\W*(?:the |agent'?s? |its |original |submitted )*"
    r"(?:task|question|answer|query|sparql|input|prompt|agent|user|human|system|rows?|observation|past case|case|step)"
    r"[\W\d]*(?:output)?\W*\Z",
    re.IGNORECASE,
)
_PLAIN = re.compile(
    r"\A\W*(?:json|output|response|result|reply|evaluation|assessment|answer in json)\W*\Z", re.IGNORECASE
)
_ANSWER_TAG = re.compile(r"<(?:answer|final|final_answer|output|result|response|json|verdict)>", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2}")
_AFTER = re.compile(
    r"\A[\s.,;:)`'\"”]{0,8}(?:\?|(?:is|was|would|could|might|appears?|stands|occurs|as (?:an? )?(?:example|the agent)|"
    r"in (?:its|the) answer|"
    r"if|or\b|unless|\(example\)|\(draft\)|because it says|said the agent|(?:it|the agent) (?:says|wrote|claims)))",
    re.IGNORECASE,
)


class ReplyReading:
    """A reply, taken apart once. `outputs` are the names of the fields that were asked for, `long` those of prose.

    `announced`: words before a part must say that it is the model's own; else they must not say that it isn't.
    `text` are the model's own words; `sections` and `values` are in it. `half` are the spans of objects that begin and
    never end: nothing in them is whole.
    """

    def __init__(
        self, reply: ModelReply | str, outputs: Collection[str], long: Collection[str] = (), *, announced: bool = False
    ) -> None:
        self.reply = reply if isinstance(reply, ModelReply) else ModelReply(reply)
        self._announced = announced
        self._outputs, self._long = {*outputs, COMPLETED}, frozenset(long)
        self.text, self.unclosed = without_thinking(self.reply.text)
        self.sections = list(_sections(self.text))
        self.values, self.open, self.exhausted = values_in(self.text)
        self.half = [Span(at, self._section_end(at)) for at, _ in self.open if self._is_half(at)]
        self._value_ends = [each.span.end for each in self.values]

    @property
    def whole(self) -> bool:
        """Whether the answer was ended by the model: not cut off, or behind its end marker."""
        ended = any(each.name == COMPLETED for each in self.sections)
        return not self.unclosed and not self.exhausted and (not self.reply.cut or ended)

    def _is_half(self, at: int) -> bool:
        begun = _BEGUN.match(self.text, at)
        # The object around a list that was asked for: entries of the list may be whole all the same.
        return begun is not None and not (begun[2] and begun[1].casefold() in self._outputs)

    def _section_end(self, at: int) -> int:
        ends = (each.span.end for each in self.sections if each.span.start <= at < each.span.end)
        return next(ends, len(self.text))

    @cached_property
    def _apart(self) -> list[Span]:
        """The spans that are not the model's answer by their structure, merged and in order."""
        found = [each.span for each in self.sections if each.name not in self._outputs]
        # What a text quotes is a part of it; a paragraph of its own may be more than that.
        found += [_first_paragraph(self.text, each.span) for each in self.sections if each.name in self._long]
        found += [Span(*mark.span()) for mark in _BLOCK.finditer(self.text)]
        found += [*_programs(self.text), *self.half]
        found += [span for span in self._quotations() if not self._is_all(span)]
        return _merged(found)

    def _quotations(self) -> Iterator[Span]:
        # Values are blanked, because their own quotation marks would pair with those around them.
        blank = list(self.text)
        for value in self.values:
            blank[value.span.start : value.span.end] = " " * (value.span.end - value.span.start)
        text, at = "".join(blank), 0
        while (mark := _QUOTES.search(text, at)) is not None:
            span = _quotation(text, mark)
            at = span.end if span is not None else mark.end()
            # Quotation marks around a single word don't set it apart: models write `success`.
            if span is not None and (mark[1] or len(text[span.start : span.end].split()) != 1):
                yield span

    def _is_all(self, span: Span) -> bool:
        return not self.text[: span.start].strip() and not self.text[span.end :].strip()

    def standing(self, span: Span, *, line: bool = False) -> Standing | None:
        """Return the standing of a part; None if structure sets it apart.

        A `line` repeats the request only where that has a line of these words, because it may be a few common ones.
        """
        at = bisect_right(self._apart, Span(span.start, len(self.text) + 1)) - 1
        if at >= 0 and self._apart[at].end > span.start:
            return None
        if self._is_given(self.text[span.start : span.end], line):
            return "doubted"
        lead, on_its_line = self._lead(span.start)
        lead = _ANSWER_TAG.sub("", lead)
        cues = list(_CUE.finditer(lead))
        after = self.text[span.end : span.end + 80].split("\n", 1)[0]
        elsewhere = _REPEATED.match(lead) is not None or bool(cues and cues[-1]["elsewhere"])
        unsaid = (
            self._announced and on_its_line and not cues and _WORD.search(lead) is not None and not _PLAIN.match(lead)
        )
        return "doubted" if elsewhere or unsaid or _AFTER.match(after) else "own"

    def _lead(self, start: int) -> tuple[str, bool]:
        """Return the words that introduce a part, and whether they are on its line.

        Else they are the line before, if that ends with a colon.
        """
        before = self.text[max(0, start - limits.REPLY_LEAD_CHARS) : start]
        last = bisect_right(self._value_ends, start) - 1
        if last >= 0 and self._value_ends[last] > start - len(before):
            before = self.text[self._value_ends[last] : start]
        # An opening fence is no word.
        lines = _FENCE.sub("", before).split("\n")
        own = lines.pop()
        earlier = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if not own.strip(" \t*_-#>|`'\"(") and earlier.rstrip("*_ ").endswith((":", "：")):
            return earlier, False
        return re.split(r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!])\s", own)[-1], True

    @cached_property
    def _given_lines(self) -> tuple[str, frozenset[str]]:
        lines = [_flat(line) for line in self.reply.given.splitlines()]
        return "".join(lines), frozenset(lines)

    @cached_property
    def _given_values(self) -> frozenset[str]:
        values = [each.parsed for each in values_in(self.reply.given)[0]]
        inner = [each for value in values if isinstance(value, list) for each in value]
        return frozenset(map(_canonical, [*values, *inner]))

    def _is_given(self, text: str, line: bool) -> bool:
        whole, lines = self._given_lines
        if line:
            return _flat(text) in lines
        value = _parsed(text) if text[:1] in ("{", "[") else None
        return _flat(text) in whole or (bool(value) and _canonical(value) in self._given_values)

    def is_all_of(self, span: Span, scope: Span) -> bool:
        """Return whether a scope holds nothing but a part, its header and its fence."""
        around = f"{self.text[scope.start : span.start]}\n{self.text[span.end : scope.end]}"
        return not _FENCE.sub("", _HEADER.sub("", around)).strip(" \t\r\n`~")

    def outside(self, start: int = 0) -> str:
        """Return the model's own prose from a position on: without values, quotations and other sections."""
        apart = [*self._apart, *(value.span for value in self.values)]
        kept, at = list[str](), start
        for span in _merged(apart):
            kept.append(self.text[at : span.start]) if span.start > at else None
            at = max(at, span.end)
        return "\n".join([*kept, self.text[at:]])


def _quotation(text: str, mark: re.Match[str]) -> Span | None:
    """Return the span from a quotation mark to its closing one; None where none follows in its paragraph."""
    closes = (f"</{mark[1]}>",) if mark[1] else _CLOSING_QUOTES[mark[0]]
    most = mark.end() + limits.REPLY_QUOTATION_CHARS
    paragraph = text.find("\n\n", mark.end(), most)
    most = paragraph if paragraph >= 0 and not mark[0].startswith("<") else most
    ends = [(at, len(each)) for each in closes if (at := text.find(each, mark.end(), most)) >= 0]
    end, size = min(ends, default=(-1, 0))
    return Span(mark.start(), end + size) if end >= 0 else None


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def _flat(text: str) -> str:
    """Return a text without spaces, so that a repetition is found in another layout."""
    return "".join(text.split())


def _sections(text: str) -> Iterator[ReplySection]:
    marks = list(_HEADER.finditer(text))
    for mark, following in zip_longest(marks, marks[1:]):
        end = following.start() if following is not None else len(text)
        value = text[mark.end() : end].strip()
        yield ReplySection(mark[1].casefold(), value, Span(mark.start(), end), following is not None)


def _first_paragraph(text: str, span: Span) -> Span:
    begins = _HEADER.match(text, span.start)
    start = begins.end() if begins is not None else span.start
    start += len(text[start : span.end]) - len(text[start : span.end].lstrip())
    end = text.find("\n\n", start, span.end)
    return Span(span.start, end if end >= 0 else span.end)


def _programs(text: str) -> list[Span]:
    """Return the spans of fenced blocks in a language of programs, to the end if they aren't closed."""
    found, opened = list[Span](), None
    for mark in _FENCE.finditer(text):
        if opened is None:
            opened = mark
        elif mark[1].startswith(opened[1]) and not mark[2]:
            found += [Span(opened.start(), mark.end())] if opened[2].casefold() not in _DATA else []
            opened = None
    if opened is not None and opened[2].casefold() not in _DATA:
        found.append(Span(opened.start(), len(text)))
    return found


def _merged(spans: list[Span]) -> list[Span]:
    made = list[Span]()
    for span in sorted(spans):
        if made and span.start <= made[-1].end:
            made[-1] = Span(made[-1].start, max(made[-1].end, span.end))
        else:
            made.append(span)
    return made
