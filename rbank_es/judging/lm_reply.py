"""Replies of a judging model: the verdict, the reason and the confidence, in any plain form.

A reply may have dspy's field headers (`[[ ## verdict ## ]]`), be a JSON object (alone, fenced or within prose), have
lines such as `**Verdict:** success`, or be one word on its first line (`True.`, `**failure**`). The first of these
forms that has a verdict counts, so that what a reply quotes of an agent's answer doesn't. A reply that says two things
about the verdict has none. It is read in linear time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rbank_es import limits
from rbank_es.events.run_events import VerdictValue

NO_REASON = "the model gave no reason"

_SUCCESS = "success succeeded successful true yes correct right resolved solved pass passed"
_FAILURE = "failure failed fail unsuccessful false no incorrect wrong unresolved unsolved"
_UNDECIDED = "undecided unsure uncertain unknown undetermined inconclusive"
_WORDS: dict[str, VerdictValue] = {
    **dict.fromkeys(_SUCCESS.split(), "success"),
    **dict.fromkeys(_FAILURE.split(), "failure"),
    **dict.fromkeys(_UNDECIDED.split(), "undecided"),
}
_VERDICT = frozenset({"verdict", "success", "judgment", "judgement", "resolved"})
_REASON = frozenset({"reason", "reasoning", "explanation", "why", "rationale"})
_CONFIDENCE = frozenset({"confidence", "certainty"})
_NAMES = "|".join(sorted(_VERDICT | _REASON | _CONFIDENCE))

_HEADER = re.compile(r"^[ \t]*\[\[ ## (\w+) ## \]\][ \t]*", re.MULTILINE)
_LINE = re.compile(rf"^[ \t>*_#\-]*({_NAMES})[ \t*_]*[:=][ \t*_]*", re.IGNORECASE | re.MULTILINE)
# Without # and [, because a heading "# Success" is the name of a field.
_MARKUP = " \t\r\n*_`'\".!>:,;()"
_FENCE = re.compile(r"\A```\w*\s*")
_NUMBER = re.compile(r"(\d{1,3}(?:\.\d{1,30})?|\.\d{1,30})\s{0,9}(%|/\s{0,9}(?:100|10|1)(?!\d))?(?![\w.]*\w)")


class LmReply(NamedTuple):
    """A reply that was read. `confidence` is 0 to 1; None if the model gave none, or one that is no such number."""

    verdict: VerdictValue
    reason: str = NO_REASON
    confidence: float | None = None


def read_reply(text: str) -> LmReply | str:
    """Return the reply in a text, or why there is none, in words for the model."""
    text = text.strip()
    if len(text) > limits.JUDGE_REPLY_CHARS:
        return f"the reply has {len(text):,} characters; {limits.JUDGE_REPLY_CHARS:,} are read"
    for read in (_of_headers, _of_whole_json, _of_lines, _of_word, _of_json):
        fields = list(read(text))
        said: set[VerdictValue | None] = {_word(value) for name, value in fields if name in _VERDICT}
        if len(said) > 1:
            return "the reply gives more than one verdict: give one"
        for verdict in said:
            if verdict is None:
                return "verdict must be success, failure or undecided"
            return LmReply(verdict, _reason(fields), _confidence(fields))
    return "none of the words success, failure and undecided was found"


def _word(value: object) -> VerdictValue | None:
    if isinstance(value, bool):
        return "success" if value else "failure"
    return _WORDS.get(value.strip(_MARKUP).casefold()) if isinstance(value, str) else None


def _reason(fields: list[tuple[str, Any]]) -> str:
    texts = (value.strip() for name, value in fields if name in _REASON and isinstance(value, str))
    return next(filter(None, texts), NO_REASON)


def _confidence(fields: list[tuple[str, Any]]) -> float | None:
    return next((confidence_of(value) for name, value in fields if name in _CONFIDENCE), None)


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


# ---------------------------------------------------------------- forms


def _of_whole_json(text: str) -> Iterator[tuple[str, Any]]:
    bare = _FENCE.sub("", text)
    if bare.startswith("{"):
        yield from _of_json(bare)


def _of_json(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the fields of the JSON object at the first brace, if it is one."""
    start = text.find("{")
    decode: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(strict=False).raw_decode
    try:
        found = decode(text, start)[0] if start >= 0 else None
    except (ValueError, RecursionError):
        return
    if isinstance(found, Mapping):
        yield from ((str(name).casefold(), value) for name, value in found.items())


def _of_headers(text: str) -> Iterator[tuple[str, Any]]:
    yield from _between(text, _HEADER)


def _of_lines(text: str) -> Iterator[tuple[str, Any]]:
    for name, value in _between(text, _LINE):
        # A verdict is the first line of its field: what follows is the reason, even without a name.
        yield name, value.split("\n", 1)[0] if name not in _REASON else value


def _between(text: str, mark: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the name in each mark, with the text up to the next."""
    marks = list(mark.finditer(text))
    ends = [found.start() for found in marks[1:]]
    for at, found in enumerate(marks):
        yield found[1].casefold(), text[found.end() : ends[at] if at < len(ends) else len(text)].strip()


def _of_word(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the verdict of a text whose first line is one word, and the other lines as the reason."""
    first, _, rest = text.strip("`\n").partition("\n")
    if _word(first) is not None:
        yield "verdict", first
        yield "reason", rest.strip(_MARKUP)
