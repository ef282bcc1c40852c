"""Rubrics: a model at temperature 0 rates a text by fixed criteria, each from 0 to 4. A rating is no verdict.

A rubric has a version: other criteria, or other words for them, are another one. Ratings stand beside what can be
computed, never in its place: nothing is learned from them, and no verdict changes by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from rbank_es import limits
from rbank_es.errors import JudgeFailed
from rbank_es.judging.lm_judge import settled_reply, within
from rbank_es.judging.verdict import bounded
from rbank_es.models.replies import ModelReply, ReplyReading
from rbank_es.models.role_prompts import RATING_MOST, prompt_for

if TYPE_CHECKING:
    from rbank_es.models.run_models import Lms

Subject = Literal["answer", "guide"]


class Rubric(Struct, frozen=True, kw_only=True):
    """Criteria by which a subject is rated: names with a sentence each."""

    subject: Subject
    version: str
    criteria: Mapping[str, str]

    @property
    def judge(self) -> str:
        """The name under which its ratings are recorded."""
        return f"rubric:{self.subject}"


RUBRICS: Mapping[Subject, Rubric] = {
    "answer": Rubric(
        subject="answer",
        version="1",
        criteria={
            "addressed": "The answer says what was asked, and not something close to it.",
            "supported": "The steps and the query show each thing that the answer says.",
            "complete": "Nothing that was asked is missing, and nothing is added.",
            "sound": "The query is a sensible way to the answer: right terms, no condition that is there by chance.",
        },
    ),
    "guide": Rubric(
        subject="guide",
        version="1",
        criteria={
            "oriented": "A newcomer learns what the data are about, and how the main classes join.",
            "usable": "Queries and terms can be taken over as they are.",
            "warned": "What would surprise is said: traps, units, gaps, look-alikes.",
            "brief": "Each sentence helps to write a query; nothing is said twice.",
        },
    ),
}


class Rating(Struct, frozen=True, kw_only=True):
    """The ratings of a text by criterion, with the reason, and the ids of the recorded calls of the model."""

    scores: Mapping[str, int]
    reason: str
    calls: tuple[str, ...]

    @property
    def share(self) -> float:
        """The mean of the ratings, from 0 to 1."""
        return sum(self.scores.values()) / (RATING_MOST * len(self.scores))


def rate(rubric: Rubric, text: str, lms: Lms, *, task: str = "", query: str = "", steps: str = "") -> Rating:
    """Return the rating of a text by the model in the role `judge`, at temperature 0; every call is recorded.

    After a reply that can't be read, the model is asked again with the reason, and after a lost connection without,
    `JUDGE_TRIES` times in all. Raises `JudgeFailed` where no reply could be read, `LmFailed` where none came.
    """
    asked = {
        "criteria": "\n".join(f"{name}: {sentence}" for name, sentence in rubric.criteria.items()),
        "task": within(task, limits.JUDGE_ANSWER_CHARS),
        "text": within(text, limits.RUBRIC_TEXT_CHARS),
        "query": within(query, limits.JUDGE_QUERY_CHARS),
        "steps": within(steps, limits.JUDGE_STEPS_CHARS),
    }
    before = len(lms.calls.ids)
    found = settled_reply(lms, prompt_for("rating").messages(asked), lambda reply: read_rating(reply, rubric))
    if isinstance(found, str):
        raise JudgeFailed(rubric.judge, f"{limits.JUDGE_TRIES} replies could not be read; of the last one: {found}")
    scores, reason = found
    return Rating(scores=scores, reason=bounded(reason), calls=tuple(lms.calls.ids[before:]))


def read_rating(reply: ModelReply | str, rubric: Rubric) -> tuple[dict[str, int], str] | str:
    """Return the ratings in a reply with what follows them as the reason, or why there are none, for the model."""
    read = ReplyReading(reply, {"ratings", "reason"}, {"reason"})
    text = read.text[: limits.JUDGE_REPLY_CHARS]
    rated = [each for each in read.values if isinstance(each.parsed, dict) and read.standing(each.span) == "own"]
    rated = [each for each in rated if not rubric.criteria.keys().isdisjoint(each.parsed)]
    if not rated or any(each.parsed != rated[0].parsed for each in rated):
        return "the reply gives two ratings: give one" if rated else "no JSON object with the ratings was found"
    found, end = rated[0].parsed, rated[0].span.end
    scores: dict[str, Any] = {name: found.get(name) for name in rubric.criteria}
    if any(type(score) is not int or not 0 <= score <= RATING_MOST for score in scores.values()):
        return f"each of {', '.join(rubric.criteria)} must have a whole number from 0 to {RATING_MOST}"
    reason = found["reason"] if isinstance(found.get("reason"), str) else text[end:]
    return scores, reason.replace("[[ ## reason ## ]]", "").replace("[[ ## completed ## ]]", "").strip(" `\n")
