"""Events of judgment. Learning judgments feed the bank; scoring judgments only measure. They never mix."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from rbank_es.events.event import Event, Salt, Text
from rbank_es.events.items import Name
from rbank_es.events.run import Extra, Run

Purpose = Literal["learning", "scoring"]
JudgeKind = Literal["check", "lm", "human"]
Confidence = Annotated[float, Meta(ge=0, le=1, description="From 0 to 1, as the judge gave it.")]


class RunJudged(Event, frozen=True, kw_only=True, tag="run_judged"):
    """A run was judged; the latest judgment of a purpose holds."""

    run: Run
    purpose: Annotated[Purpose, Meta(description="Learning feeds the bank; scoring only measures.")]
    success: Annotated[bool, Meta(description="The verdict.")]
    judge: Annotated[Name, Meta(description="Id of the judge.")]
    judge_version: Annotated[Name, Meta(description="Version of the judge.")]
    kind: Annotated[JudgeKind, Meta(description="A check, a language model, or a person.")]
    confidence: Confidence | None = None
    salt: Salt = ""
    reason: Annotated[Text, Meta(description="Why.")] = ""
    extra: Extra = None


class JudgmentOverruled(Event, frozen=True, kw_only=True, tag="judgment_overruled"):
    """An earlier judgment of a run was replaced."""

    run: Run
    purpose: Annotated[Purpose, Meta(description="Which judgment is replaced.")]
    success: Annotated[bool, Meta(description="The verdict that holds now.")]
    judge: Annotated[Name, Meta(description="Id of the judge.")]
    judge_version: Annotated[Name, Meta(description="Version of the judge.")]
    kind: Annotated[JudgeKind, Meta(description="A check, a language model, or a person.")]
    by: Annotated[Name, Meta(description="Who overruled.")]
    judgment: Annotated[Name | None, Meta(description="Id of the event that is overruled.")] = None
    confidence: Confidence | None = None
    salt: Salt = ""
    reason: Annotated[Text, Meta(description="Why the run succeeded or failed.")] = ""
    why: Annotated[Text, Meta(description="Why the earlier judgment was wrong.")] = ""
    extra: Extra = None
