"""The reader of models' replies: what a reply says in its own words, and what it only thinks, quotes or repeats.

Judges, extractors and guides read through it. A reply may be any text. Its parts are found in every form: sections
(`[[ ## name ## ]]`), JSON alone, in fences or amid words, labelled lines. Each part has a *standing*:

- `own`: the model says it as its answer.
- `doubted`: its surroundings say that it is somebody else's, an example, a draft or a condition, or the request holds
  it. Such a part never is the answer, and never contradicts one.
- `unsaid`: words introduce it, and none of them says whose it is. It never is the answer; behind one it contradicts it.
- Left out altogether is what structure sets apart: thinking, block quotes, quotation marks, code of a program, the
  schema, sections that repeat the task.

A reader takes an answer only if all parts of standing `own` agree. Position decides nothing: of two that differ, none
is taken. What was not closed is not used. A reply is read in time linear in its length, but for a bounded number of
brackets (`REPLY_BRACKETS`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Literal, NamedTuple

from rbank_es import limits
from rbank_es.models.reply_syntax import (
    BEGUN,
    BLOCK,
    COMPLETED,
    FENCE,
    HEADER,
    QUOTES,
    Span,
    canonical_value,
    first_paragraph,
    flat,
    merged,
    parsed_json,
    programs_in,
    quotation_at,
    sections_of,
    values_in,
    without_thinking,
)

Standing = Literal["own", "doubted", "unsaid"]


class ModelReply(NamedTuple):
    """A model's reply. `cut`: the provider ended it at a bound. `given` is the text of the request."""

    text: str
    cut: bool = False
    given: str = ""


# ---------------------------------------------------------------- whose words they are

_ELSEWHERE = (
    r"wrote|writes?|written|writing|said|says?|saying|stat(?:es|ed|ing)|claim(?:s|ed|ing)?|answer(?:s|ed)|"
    r"repl(?:ies|ied)|return(?:s|ed)|contain(?:s|ed|ing)?|includ(?:es|ed|ing)|quot(?:e|es|ed|ing)|repeats?|"
    r"echo(?:es|ed)?|(?:ends|begins|starts) with|(?:agent|answer|submission|task) (?:has|holds|had)|from the answer|"
    r"(?:agent|answer|submission)'?s? (?:last|first|final) line|plant(?:s|ed)|trick\w*|hypothes\w*|"
    r"prints?|printed|reads|inject(?:s|ed|ion)|instruct\w*|submitted|"
    r"submission(?=:?\s*(?:\Z|is\b))|tells|asks|demands|"
    r"(?:agent'?s?|its|submitted|given) (?:final |own |whole )?answer(?: is| was)?|under judge?ment|expected output|"
    r"for example|example|e\.g|for instance|such as|like this|looks? like|"
    r"(?:the|output|expected|required) (?:output )?(?:format|form|schema|template)|schema|template|placeholder|sample|"
    r"past case|draft|first|initial(?:ly)?|tentative(?:ly)?|preliminary|provisional(?:ly)?|maybe|perhaps|"
    r"(?:might|may|could|would|should) (?:be|have been|say|give|look)|if|unless|suppose|guess(?:ed)?|lean(?:s|ing)?|"
    r"instead of|rather than|not|never|no longer|previous(?:ly)?|earlier|almost|tempt(?:ed|ing)|considered|considering"
)
_HERE = (
    r"based on|final(?:ly)?|conclu\w+|therefore|thus|hence|so|overall|in summary|here(?: is|'s| are| you go)|"
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
_RUNS_ON = re.compile(r"\b(?:is|was|reads|says|with|wrote|returned|contains|that)\Z", re.IGNORECASE)
_AFTER = re.compile(
    r"\A[\s.,;:)`'\"”]{0,8}(?:\?|<-|←|\(?(?:planted|injected|copied|quoted)\b|"
    r"(?:is|was|would|could|might|appears?|stands|occurs|as (?:an? )?(?:example|the agent)|"
    r"in (?:its|the) answer|"
    r"if|or\b|unless|\(example\)|\(draft\)|because it says|said the agent|(?:it|the agent) (?:says|wrote|claims)))",
    re.IGNORECASE,
)


RETRACTION = re.compile(
    r"\b(?:(?:no )?wait\b\s*[,.:;…—–!-]|no,? wait\b|hold on\b|on second thoughts?|(?:scratch|strike) (?:that|this)|"
    r"(?:disregard|ignore|forget) (?:the above|that|this|it|my (?:first|earlier|previous|last))|"
    r"i take (?:that|it) back|i retract\b|changed from \w+ to \w+|actually,? no\b|"
    r"i was wrong|i (?:made|have made) a mistake|my mistake|"
    r"i (?:need|have|want|must) to (?:correct|revise|retract)|"
    r"i (?:change|revise|correct|retract|withdraw) (?:my|this|that)|changed my mind|"
    r"oops|hmm+\b|sorry\b|edit\s*:|correction\s*:|"
    r"that was (?:only |just )?(?:a|my) (?:first )?(?:draft|guess|mistake|test)|"
    r"let me (?:re-?\s?(?:check|consider|examine|evaluate|think|do|read|assess)\w*|double.?check|correct|fix|try again)"
    r")",
    re.IGNORECASE,
)
"""Words that take back what was said before, whatever follows."""

DISOWNED = re.compile(
    r"\b(?:that|this|it|which|the above)(?: \w+){0,2}? (?:i (?:ignore|disregard)|"
    r"(?:is|was|were|comes|came|stems)(?: only| just)? (?:what the|an? (?:injection|quot\w+|copy|echo)|inject\w+|"
    r"plant\w+|quoted|copied|from the|in the (?:agent|answer|submission)|"
    r"part of the (?:agent|answer|submission|task)))",
    re.IGNORECASE,
)
"""Words that say of what was said before that it is somebody else's."""


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
        self.sections = list(sections_of(self.text, self._outputs))
        self.values, self.open, self.exhausted = values_in(self.text)
        self.half = [Span(at, self._section_end(at)) for at, _ in self.open if self._is_half(at)]
        self._value_ends = [each.span.end for each in self.values]

    @property
    def whole(self) -> bool:
        """Whether the answer was ended by the model: not cut off, or behind its end marker."""
        ended = any(each.name == COMPLETED for each in self.sections)
        return not self.unclosed and not self.exhausted and (not self.reply.cut or ended)

    def _is_half(self, at: int) -> bool:
        begun = BEGUN.match(self.text, at)
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
        found += [first_paragraph(self.text, each.span) for each in self.sections if each.name in self._long]
        found += [Span(*mark.span()) for mark in BLOCK.finditer(self.text)]
        found += [*programs_in(self.text), *self.half]
        found += [span for span in self._quotations() if not self._is_all(span)]
        return merged(found)

    def _quotations(self) -> Iterator[Span]:
        # Values are blanked, because their own quotation marks would pair with those around them.
        blank = list(self.text)
        for value in self.values:
            blank[value.span.start : value.span.end] = " " * (value.span.end - value.span.start)
        text, at = "".join(blank), 0
        while (mark := QUOTES.search(text, at)) is not None:
            span = quotation_at(text, mark)
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
        return "doubted" if elsewhere or _AFTER.match(after) else "unsaid" if unsaid else "own"

    def _lead(self, start: int) -> tuple[str, bool]:
        """Return the words that introduce a part, and whether they are on its line.

        Else they are the line before, if that ends with a colon or in the middle of a sentence.
        """
        before = self.text[max(0, start - limits.REPLY_LEAD_CHARS) : start]
        last = bisect_right(self._value_ends, start) - 1
        behind = last >= 0 and self._value_ends[last] > start - len(before)
        if behind:
            before = self.text[self._value_ends[last] : start]
        # An opening fence is no word.
        lines = FENCE.sub("", before).split("\n")
        own = lines.pop()
        earlier = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if not own.strip(" \t*_-#>|`'\"("):
            # A sentence that goes on in the next line introduces it; a labelled line doesn't.
            runs_on = not behind and ":" not in earlier and earlier[-1:].isalpha() and lines[-1:] != [""]
            runs_on |= _RUNS_ON.search(earlier) is not None
            if runs_on or earlier.rstrip("*_ ").endswith((":", "：")):
                return earlier, False
        return re.split(r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!])\s", own)[-1], True

    @cached_property
    def _given_lines(self) -> tuple[str, frozenset[str]]:
        lines = [flat(line) for line in self.reply.given.splitlines()]
        return "".join(lines), frozenset(lines)

    @cached_property
    def _given_values(self) -> frozenset[str]:
        values = [each.parsed for each in values_in(self.reply.given)[0]]
        inner = [each for value in values if isinstance(value, list) for each in value]
        return frozenset(map(canonical_value, [*values, *inner]))

    def _is_given(self, text: str, line: bool) -> bool:
        whole, lines = self._given_lines
        if line:
            return flat(text) in lines
        value = parsed_json(text) if text[:1] in ("{", "[") else None
        return flat(text) in whole or (bool(value) and canonical_value(value) in self._given_values)

    def is_all_of(self, span: Span, scope: Span) -> bool:
        """Return whether a scope holds nothing but a part, its header and its fence."""
        if span.start - scope.start + scope.end - span.end > limits.REPLY_LEAD_CHARS:
            return False
        around = f"{self.text[scope.start : span.start]}\n{self.text[span.end : scope.end]}"
        return not FENCE.sub("", HEADER.sub("", around)).strip(" \t\r\n`~")

    def outside(self, start: int = 0) -> str:
        """Return the model's own prose from a position on: without values, quotations and other sections."""
        apart = [*self._apart, *(value.span for value in self.values)]
        kept, at = list[str](), start
        for span in merged(apart):
            kept.append(self.text[at : span.start]) if span.start > at else None
            at = max(at, span.end)
        return "\n".join([*kept, self.text[at:]])
