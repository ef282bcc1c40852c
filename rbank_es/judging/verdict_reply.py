"""The verdict in a judging model's reply: what it concluded, never what it thought, quoted, repeated or drafted.

Every form is looked for at once: a section, a JSON object, a tag, a labelled line, a first line of one word. All that
the model says as its own (`rbank_es.models.replies`) must be one verdict. Where two differ, where the reply takes one
back, or was cut off before its end, there is none: the model is asked again, and in the end nobody decided.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

from rbank_es import limits
from rbank_es.events.run_events import VerdictValue
from rbank_es.models.replies import DISOWNED, RETRACTION, ModelReply, ReplyReading, Standing
from rbank_es.models.reply_syntax import COMPLETED, TWICE, ReplySection, Span, first_paragraph

NO_REASON = "the model gave no reason"

_SUCCESS = "success succeeded successful true yes correct right resolved solved pass passed"
_FAILURE = "failure failed fail unsuccessful false no incorrect wrong unresolved unsolved"
_UNDECIDED = "undecided unsure uncertain unknown undetermined inconclusive"
_WORDS: dict[str, VerdictValue] = {
    **dict.fromkeys(_SUCCESS.split(), "success"),
    **dict.fromkeys(_FAILURE.split(), "failure"),
    **dict.fromkeys(_UNDECIDED.split(), "undecided"),
}
_STRONG: dict[str, VerdictValue] = {
    **dict.fromkeys(["success", "successful", "succeeded", "succeeds", "passes", "passed"], "success"),
    **dict.fromkeys(["failure", "failed", "fail", "fails", "unsuccessful"], "failure"),
    **dict.fromkeys(["undecided", "inconclusive"], "undecided"),
}
_VERDICT = frozenset({"verdict", "success", "judgment", "judgement", "resolved", "final_verdict"})
_BESIDE = _VERDICT | {
    *("passed", "correct", "is_correct", "is_success", "succeeded", "solved"),
    *("outcome", "label", "decision", "conclusion", "final_decision", "result"),
}
"""Names of further fields that contradict a verdict where they hold another one."""
_INVERTED = frozenset({"failure", "failed", "is_failure", "incorrect"})
_ENVELOPE = frozenset({"data", "error", "errors", "message", "messages", "msg", "code", "status", "detail"})
"""Names beside a lone `success` with which a service answers, not a judge."""
_OTHER_LABELS = frozenset({"conclusion", "decision", "assessment", "evaluation", "result", "ruling", "final answer"})
_REASON = frozenset({"reason", "reasoning", "explanation", "why", "rationale", "justification"})
_CONFIDENCE = frozenset({"confidence", "certainty"})
_WRAPPERS = frozenset({"result", "output", "response", "judgment", "judgement", "evaluation", "verdict", "final"})

_LABEL = "|".join(sorted(_VERDICT - {"final_verdict"} | _REASON | _CONFIDENCE | _OTHER_LABELS, key=len, reverse=True))
_LINE = re.compile(
    r"^[ \t*_#`\-|•\u2600-\u27bf\ufe0f\U0001f300-\U0001faff]*(?:\d{1,2}[.)][ \t*_]*)?"
    r"(?P<kind>(?:my |the |final |overall |draft |initial |first |tentative |preliminary )*)"
    rf"(?P<name>{_LABEL})"
    r"(?:[ \t]+is\b|[ \t]*[*_`]{0,3}[ \t]*(?P<by>[:=|：]|->|→|—|–|-(?=[ \t]))|[ \t*_]*$)[ \t*_:|]*",
    re.IGNORECASE | re.MULTILINE,
)
_VERDICT_LINE = re.compile(
    r"^[ \t*_#]*(?:final |my |the )*verdict[ \t*_]*(?::|=|is\b)[ \t*_]*", re.IGNORECASE | re.MULTILINE
)
_OTHER_LINE = re.compile(
    rf"^[ \t*_\-•]*({'|'.join(sorted((_BESIDE | _INVERTED) - _VERDICT))})[ \t*_]*[:=][ \t*_`]*(\w+)[*_`. \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_LONE = re.compile(r"^(?![ \t]*(?:[-*•][ \t]|\|)).*$", re.MULTILINE)
_NOT_FINAL = re.compile(r"draft|initial|first|tentative|preliminary", re.IGNORECASE)
_RUN = r"(?:this|it|the|the agent'?s)(?:[ \t]+(?:final[ \t]+)?(?:answer|run|result|submission|query|response))?"
_ENDS = r"[*_`'\"]*(?=[ \t]*(?:[.;!]|$|,?[ \t]*(?:because|since|with)\b))"
_SENTENCE = re.compile(
    r"(?:\b(?:my|the)[ \t]+(?:final[ \t]+|overall[ \t]+)?(?P<named>verdict|judge?ment)[ \t]+is\b|"
    r"(?<=[.!?])[ \t]+[*_]*(?:final[ \t]+|overall[ \t]+)?verdict[*_]*[ \t]*[:=]|"
    r"\bI(?:'d|[ \t]+would|[ \t]+therefore|[ \t]+must)?[ \t]+"
    r"(?:judge|rate|deem|consider|classify|say(?:[ \t]+that)?|conclude[ \t]+that)"
    rf"[ \t]+{_RUN}(?:[ \t]+(?:is|as|to[ \t]+be))?\b|^(?:so|therefore|thus|hence|overall|{_RUN}[ \t]+is)\b,?)"
    rf"[: \t*_`'\"]+(?:an?[ \t]+[*_`]*)?(?P<word>\w+){_ENDS}",
    re.IGNORECASE | re.MULTILINE,
)
_TAG = re.compile(
    r"<(?P<other>final|answer)>\s*(?P<only>\w{1,20})\s*</(?P=other)>|"
    r"<(?P<tag>verdict|success|judge?ment)>\s*(?P<word>[^<>]{1,80}?)\s*</(?P=tag)>|"
    r"\\boxed\{(?:\\text\{)?(?P<boxed>\w{1,20})\}{1,2}",
    re.IGNORECASE,
)
_OPENS = re.compile(r"[\s✅✓✔❌✗✘\ufe0f*_`]*(?P<word>[A-Za-z]+)[*_`]*(?:[.:,;!—–]|[ \t]-(?=[ \t]))[*_]*[ \t]+\S")
"""A verdict that begins the sentence of a reply's first line."""
_CONDITION = re.compile(
    r"\b(?:if|unless|would|could|might|means?|requires?|not really|actually|almost|but|however|except|or)\b|\?",
    re.IGNORECASE,
)
_DENIED = re.compile(r"(?:n['’]t|\bnot|\bno)\s+(?:an?\s+)?\w+")
_UNDONE = re.compile(r"\b(?:if|unless|were it|would|not really|actually|except)\b", re.IGNORECASE)
"""Words that make a verdict in the same sentence none."""
_BROKEN = re.compile(r"""["']?\b(?:verdict|success|judge?ment)\b["']?\s*[:=]""", re.IGNORECASE)
# Without # and [, because a heading "# Success" is the name of a field.
_MARKUP = " \t\r\n*_`'\".!>:,;()“”|✅✓✔❌✗✘\ufe0f"
_ECHO = re.compile(
    r"one|word|of|or|either|the|a|an|and|string|str|bool|boolean|enum|literal|text|value|your|here|must|be|exactly|"
    r"only|verdict|type|null|none|field",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"\A(?:<.*>|\{.*\}|\[.*\]|\.{2,}|…|_+|-+)\Z", re.DOTALL)
_NUMBER = re.compile(r"(\d{1,3}(?:\.\d{1,30})?|\.\d{1,30})\s{0,9}(%|/\s{0,9}(?:100|10|1)(?!\d))?(?![\w.]*\w)")

_TAKES_BACK = re.compile(
    r"\b(?:wait\b|on reflection|let me (?:re|double)|looking again|upon review|no, |actually|however|in fact|"
    r"reconsider\w*|revis\w+|but\b|although|except|on (?:closer|further) \w+|that(?:'s| is) (?:not right|wrong|"
    r"incorrect))",
    re.IGNORECASE,
)
"""Words behind which another verdict may follow."""

_SAID = re.compile(
    r"\b(?:verdict|judge?ment)\b[^.\n]{0,40}?\b(?P<named>success\w*|succeed\w*|fail\w*|unsuccessful|undecided)\b|"
    r"\b(?:answer|result|run|agent|it|this|that)(?:'s| is| was| has| did)?\s+(?P<not>not\s+|n't\s+)?(?:an?\s+|been\s+|"
    r"clearly\s+|really\s+|therefore\s+|actually\s+)*(?P<word>success\w*|succeed\w*|fail\w*|unsuccessful|correct|"
    r"incorrect|right|wrong)\b|\b(?:so|therefore|thus|hence|a|as|:|be)\s+(?:an?\s+)?(?P<strong>success|failure)\b",
    re.IGNORECASE,
)


class LmReply(NamedTuple):
    """A reply that was read. `confidence` is 0 to 1; None if the model gave none, or one that is no such number."""

    verdict: VerdictValue
    reason: str = NO_REASON
    confidence: float | None = None


class _Said(NamedTuple):
    """A place where a reply gives a verdict; None where it names one that can't be told. `fields` stand beside it."""

    verdict: VerdictValue | None
    span: Span
    fields: list[tuple[str, Any]]


_UNCLEAR = "verdict must be success, failure or undecided"
_CUT = "the reply was cut off before its end: give the verdict alone, with a short reason"


def read_reply(reply: ModelReply | str) -> LmReply | str:
    """Return what a reply concludes, or why that is not certain, in words for the model. It is read in linear time."""
    text = reply.text if isinstance(reply, ModelReply) else reply
    if len(text.strip()) > limits.JUDGE_REPLY_CHARS:
        return f"the reply has {len(text.strip()):,} characters; {limits.JUDGE_REPLY_CHARS:,} are read"
    read = ReplyReading(reply, _VERDICT | _REASON | _CONFIDENCE, _REASON, announced=True)
    if not read.text:
        return "the reply holds thinking and no answer" if text.strip() else "the reply is empty"
    own = list(_own(read))
    if not own:
        return "none of the words success, failure and undecided was found as your verdict"
    verdicts: set[VerdictValue | None] = {each.verdict for each in own}
    if None in verdicts:
        return _UNCLEAR
    verdict = verdicts.pop()
    if verdict is None or verdicts:
        return "the reply gives more than one verdict: give one"
    if not read.whole:
        return _CUT
    if _taken_back(read, verdict, own[0]):
        return "the reply gives a verdict and takes it back: give one verdict"
    # Labelled lines share their fields.
    fields = [field for beside in {id(each.fields): each.fields for each in own}.values() for field in beside]
    return LmReply(verdict, _reason(fields), _confidence(fields))


def _own(read: ReplyReading) -> Iterator[_Said]:
    """Yield what the reply says as its own about the verdict, in all forms."""
    found: list[tuple[_Said, Standing | None]] = []
    for said in (*_of_sections(read), *_of_objects(read), *_of_tags(read)):
        found.append((said, read.standing(said.span)))
    taken = [said.span for said, _ in found] + [value.span for value in read.values]
    for said in (*_of_lines(read), *_of_words(read)):
        # A line of a value or of a section is a part of it.
        if not any(span.start <= said.span.start < span.end for span in taken):
            found.append((said, read.standing(said.span, line=True)))
    own = [said for said, standing in found if standing == "own"]
    yield from own
    begins = min((said.span.start for said in own), default=0)
    yield from (said for said, standing in found if own and standing == "unsaid" and said.span.start > begins)
    # An object that was never closed hides a verdict: nobody may say which.
    for half in read.half:
        if _BROKEN.search(read.text, half.start, min(half.end, half.start + limits.LM_REPAIRED_CHARS)):
            yield _Said(None, half, [])


# ---------------------------------------------------------------- forms


def _of_sections(read: ReplyReading) -> Iterator[_Said]:
    for at, section in enumerate(read.sections):
        if section.name in _VERDICT and not _is_echo(section.value):
            # With its reason, because two words alone may stand in any request; behind that, others may follow.
            after = read.sections[at + 1] if at + 1 < len(read.sections) else None
            beside = after is not None and after.name != COMPLETED
            end = first_paragraph(read.text, after.span).end if after is not None and beside else section.span.end
            yield _Said(_judged(section.value), Span(section.span.start, end), _beside(read.sections, at))


def _beside(sections: list[ReplySection], at: int) -> list[tuple[str, Any]]:
    """Return the fields of one answer, in order: up to its verdict, and on to the next one."""
    after = sections[at + 1 :]
    stop = next((number for number, each in enumerate(after) if each.name in _VERDICT), len(after))
    return [(each.name, each.value) for each in sections[: at + 1 + stop]]


def _of_objects(read: ReplyReading) -> Iterator[_Said]:
    for value in read.values:
        given = _unwrapped(value.parsed)
        if given is None:
            # Brackets that can't be read hide a verdict: nobody may say which.
            if value.parsed is None and _BROKEN.search(value.text):
                yield _Said(None, value.span, [])
            continue
        fields = [(str(name).strip().casefold(), each) for name, each in given.items()]
        said = [each for name, each in fields if name in _VERDICT and not _is_echo(each)]
        names = {name for name, _ in fields}
        if "success" in names and not _ENVELOPE.isdisjoint(names) and names.isdisjoint({"verdict", *_REASON}):
            continue
        if said:
            words: set[VerdictValue | None] = {*map(_word, said), *_contradicting(fields)}
            yield _Said(words.pop() if len(words) == 1 else None, value.span, fields)


def _contradicting(fields: list[tuple[str, Any]]) -> Iterator[VerdictValue]:
    """Yield the verdicts in fields that were not asked for."""
    for name, value in fields:
        word = _word(value) if name in _BESIDE | _INVERTED else None
        if word is not None and word != "undecided":
            yield word if name in _BESIDE else "failure" if word == "success" else "success"


def _unwrapped(parsed: Any) -> dict[Any, Any] | None:
    """Return the object that holds a verdict: itself, or the only one inside a list or under a name for results."""
    if isinstance(parsed, list):
        several = [each for each in parsed if isinstance(each, dict) and not _VERDICT.isdisjoint(each)]
        # Several judgments are the verdict of none.
        parsed = parsed[0] if len(parsed) == 1 else {"verdict": TWICE} if several else None
    if not isinstance(parsed, dict):
        return None
    names = {str(name).strip().casefold(): each for name, each in parsed.items()}
    inner = [each for name, each in names.items() if name in _WRAPPERS and isinstance(each, dict)]
    plain = any(name in _VERDICT and not isinstance(each, dict) for name, each in names.items())
    return inner[0] if len(inner) == 1 and not plain else parsed


def _of_tags(read: ReplyReading) -> Iterator[_Said]:
    for mark in _TAG.finditer(read.text):
        word = mark["word"] or mark["boxed"] or mark["only"]
        # A box may hold the answer to the task instead.
        if not _is_echo(word) and (mark["word"] or _word(word)):
            yield _Said(_judged(word), Span(*mark.span()), [])


def _of_lines(read: ReplyReading) -> Iterator[_Said]:
    marks = list(_LINE.finditer(read.text))
    fields: list[tuple[str, Any]] = []
    said: list[tuple[re.Match[str], str, Span]] = []
    # A word alone on its line is a value, not a label.
    marks = [mark for mark in marks if mark["name"].casefold() not in _WORDS or mark["by"] not in (None, "|")]
    for mark, following in zip_longest(marks, marks[1:]):
        end = following.start() if following is not None else len(read.text)
        name, value = mark["name"].casefold(), read.text[mark.end() : end].strip()
        fields.append((name, value if name in _REASON else value.split("\n", 1)[0]))
        if name not in _REASON | _CONFIDENCE:
            said.append((mark, value.split("\n", 1)[0], Span(mark.start(), mark.end() + len(value.split("\n", 1)[0]))))
    beside = set(_contradicting([(mark[1].casefold(), mark[2]) for mark in _OTHER_LINE.finditer(read.text)]))
    for mark, value, span in said:
        verdict = _judged(value)
        verdict = None if verdict is not None and beside - {verdict} else verdict
        # Only these names are a verdict's alone; "Success: all rows" begins a sentence.
        certain = mark["name"].casefold() in ("verdict", "judgment", "judgement")
        if _NOT_FINAL.search(mark["kind"]):
            continue
        # The value is a form of its own, on the next line.
        if (
            value.startswith(("```", "{", "[", "<"))
            or _is_echo(value)
            or (verdict is None and not certain)
            or value.rstrip(_MARKUP).endswith("?")
        ):
            continue
        yield _Said(verdict, span, fields)
    for mark in _SENTENCE.finditer(read.text):
        verdict = _word(mark["word"])
        if verdict is not None or mark["named"]:
            yield _Said(verdict, Span(mark.end() - len(mark[0].lstrip()), mark.end()), fields)


def _of_words(read: ReplyReading) -> Iterator[_Said]:
    """Yield the verdicts that stand alone on a line: any word for one on the first line, a plain one on others."""
    first = True
    for mark in _LONE.finditer(read.text):
        word = mark[0].strip(_MARKUP).casefold()
        if word and (_word(word) if first else _STRONG.get(word)) is not None:
            beside = [("reason", read.text[mark.end() :].strip(_MARKUP))] if first else []
            yield _Said(_word(word), Span(*mark.span()), beside)
        # A table's or a list's line begins no sentence.
        opens = _OPENS.match(mark[0]) if first else None
        verdict = _STRONG.get(opens["word"].casefold()) if opens is not None else None
        if verdict is not None and not _CONDITION.search(mark[0]) and _strong(mark[0]) == {verdict}:
            yield _Said(verdict, Span(*mark.span()), [("reason", read.text[mark.start() :].strip())])
        first = first and not word


# ---------------------------------------------------------------- words


def _word(value: object) -> VerdictValue | None:
    """Return the verdict of one word, a truth value, or one of both behind "not"; None for anything else."""
    if isinstance(value, bool):
        return "success" if value else "failure"
    if not isinstance(value, str):
        return None
    words = value.strip(_MARKUP).casefold().split()
    found = _WORDS.get(words[-1]) if words else None
    # "not incorrect" is no success, and "not success" may be undecided: who writes it may mean less.
    if words[:-1] in (["not"], ["not", "a"], ["no"]):
        return "failure" if found == "success" and words != ["not", "success"] else None
    return found if len(words) == 1 or words[:-1] in (["a"], ["an"]) else None


def _judged(text: str) -> VerdictValue | None:
    """Return the verdict at the beginning of a text; None if something else stands there, or another one follows."""
    whole = _word(text)
    if whole is not None:
        return whole
    head = re.match(
        r"[\s*_`'\"“]*([\w ]{1,30}?)[*_`'\"”]*\s*(?:[.,;:(—–]|-\s|\b(?:because|since|with)\b)", text.split("\n", 1)[0]
    )
    found = _word(head[1]) if head is not None else None
    if found is None or head is None or not _strong(text) <= {found} or "\n" in text.strip():
        return None
    clause = re.split(r"[.!](?:\s|$)", text[head.end(1) :], maxsplit=1)[0]
    undone = _UNDONE.search(clause) or (found == "success" and re.search(r"\b(?:wrong|incorrect)\b", clause))
    return None if undone else found


def _strong(text: str) -> set[VerdictValue]:
    """Return the verdicts that a text names, but for those that it denies."""
    said = _DENIED.sub("", text.casefold())
    return {_STRONG[word] for word in re.findall(r"\w+", said) if word in _STRONG}


def _is_echo(value: object) -> bool:
    """Return whether a value repeats the schema: a placeholder, or the list of what may stand there."""
    if isinstance(value, dict | list) or value is None:
        return isinstance(value, dict | list)
    if not isinstance(value, str):
        return False
    text = value.strip().strip("*_`'\"").strip()
    if not text or _PLACEHOLDER.match(text):
        return True
    words = [word for word in re.findall(r"\w+", text.casefold()) if not _ECHO.fullmatch(word)]
    several = len({_WORDS.get(word) for word in words}) > 1 and all(word in _WORDS for word in words)
    return not words or (several and re.search(r"[|/,]|\bor\b", text) is not None)


def _taken_back(read: ReplyReading, verdict: VerdictValue, said: _Said) -> bool:
    """Return whether the model's words behind its verdict say another one."""
    prose = read.outside(said.span.end)
    names = [name for name, _ in said.fields]
    first = max((at for at, name in enumerate(names) if name in _VERDICT), default=-1)
    reasons = [str(value) for name, value in said.fields[first + 1 :] if name in _REASON]
    lines = [
        _judged(reason[mark.end() :].split("\n", 1)[0]) for reason in reasons for mark in _VERDICT_LINE.finditer(reason)
    ]
    if any(other not in (None, verdict) for other in lines):
        return True
    if any(RETRACTION.search(part) for part in (prose, *reasons)) or DISOWNED.search(prose):
        return True
    for part in (prose, *reasons):
        for mark in _TAKES_BACK.finditer(part):
            if any(other not in (None, verdict) for other in _statements(part[mark.end() : mark.end() + 600])):
                return True
    return any(other not in (None, verdict) for other in _statements(prose, certain=True))


def _statements(text: str, *, certain: bool = False) -> Iterator[VerdictValue | None]:
    """Yield the verdicts that sentences name; the `certain` ones name the verdict itself."""
    for mark in _SAID.finditer(text):
        named, word = mark["named"], mark["word"] or mark["strong"]
        found: VerdictValue | None = (_STRONG if named else _WORDS).get((named or word).casefold())
        if found is None and word is not None:
            found = "success" if word.casefold().startswith("succe") else "failure"
        # What would be is not what is.
        if re.search(r"\b(?:would|could|might)\b", mark[0] + text[max(0, mark.start() - 40) : mark.start()]):
            continue
        if mark["not"] and found is not None:
            found = {"success": "failure", "failure": "success"}.get(found)  # type: ignore[assignment]
        if not certain or named or mark["strong"]:
            yield found


# ---------------------------------------------------------------- what stands beside it


def _reason(fields: list[tuple[str, Any]]) -> str:
    texts = [(name, value.strip()) for name, value in fields if name in _REASON and isinstance(value, str)]
    # The field that was asked for first: others think.
    texts.sort(key=lambda each: each[0] != "reason")
    return next((text for _, text in texts if text), NO_REASON)


def _confidence(fields: list[tuple[str, Any]]) -> float | None:
    """Return the confidence; the least of several, because a threshold must not be passed by a repetition."""
    given = [confidence_of(value) for name, value in fields if name in _CONFIDENCE]
    return None if not given or None in given else min(each for each in given if each is not None)


def confidence_of(value: object) -> float | None:
    """Return a confidence of 0 to 1, given as a number, a share (`8/10`) or in percent (`80%`, 80); None for others."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        found = _NUMBER.match(value.strip(_MARKUP.replace(".", "")))
        if found is None:
            return None
        number, unit = float(found[1]), (found[2] or "").replace(" ", "")
        scale = {"%": 100, "/100": 100, "/10": 10, "/1": 1}.get(unit, 0)
    else:
        number, scale = float(value) if abs(value) <= 100 else math.nan, 0
    # Without a unit, a number above 1 can only be a percentage. 1 alone is all, not one in a hundred.
    share = number / (scale or (100 if number > 1 else 1))
    return share if 0 <= share <= 1 else None
