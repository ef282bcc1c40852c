"""The run that writes a guide: an agent explores an ontology once, and later runs get a summary of its text.

The whole text and its cost are one `artifact_materialised` event. Layer L3 of every later context summarises it without
a model (see `rbank_es.context.guide_summary`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.bank.ontology_registrations import as_registered
from rbank_es.context.guide_summary import GUIDE
from rbank_es.errors import BadInput, LoopStopped
from rbank_es.events import ArtifactMaterialised
from rbank_es.events.run_totals import known_sum
from rbank_es.extraction.candidates import unfenced
from rbank_es.judging.verdict import NOBODY
from rbank_es.loop.closed_loop import How, TaskResult, run_closed_loop
from rbank_es.loop.settings import LoopSettings
from rbank_es.loop.tasks import Task
from rbank_es.models.function_model import Complete, choice_of
from rbank_es.models.replies import ReplyReading
from rbank_es.models.reply_syntax import parsed_json
from rbank_es.sparql.data_source import opened_source

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.sparql.data_source import Source, SourceLike

QUESTION = """\
Write a guide to this ontology and its data, for colleagues who will answer questions over it with SPARQL.
First explore: which classes have instances and how many, which properties join them, what values look like, and what
is surprising. Try every query that you recommend.
The answer is the guide itself, in Markdown, with these headings: "## Summary" (at most 900 characters: what it is
about, the main classes and how they join), "## Classes", "## Properties and joins", "## Values" (units, languages,
dates, identifiers), "## Queries that work", "## Pitfalls". Name only terms that you saw, with their prefixes. Leave
sparql empty."""
"""The question to the agent."""

_RUN_FIELDS = ("run", "outcome", "scripted", "lm_calls", "tokens_in", "tokens_out", "cost_usd")

_FENCES = re.compile(r"^[ \t]*(?:`{3,}|~{3,})", re.MULTILINE)
_NO_GUIDE = re.compile(r"\A(?:none|null|n/a|undefined|<!doctype\b.*|<html\b.*)\Z", re.IGNORECASE | re.DOTALL)
_FORM = re.compile(r"\W*|[<({\[][^<>(){}\[\]]*[>)}\]]\.?")
_SUMMARIES = re.compile(r"^##[ \t]+Summary[^\n]*\n(.*?)(?=^##[ \t]|\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE)

RUN_AGAIN = "The same command runs it again"
ANOTHER = "Nothing else comes of the same command: have another one written with --again, or with other settings"


class Guide(msgspec.Struct, frozen=True, kw_only=True):
    """A guide in the bank. `how` tells whether it was written now; `chars` counts the whole text."""

    artifact: str
    run: str
    ontology: str
    how: How
    outcome: str
    scripted: bool
    chars: int
    lm_calls: int | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    text: str

    @property
    def tokens(self) -> int | None:
        """The tokens of prompts and answers together."""
        return known_sum((self.tokens_in, self.tokens_out))


def guide_settings(settings: LoopSettings) -> LoopSettings:
    """Return the settings of a run that writes a guide: not judged, nothing learned, no earlier guide shown."""
    # Without L2 and L3, because a guide describes the ontology, not what earlier runs made of it.
    layers = tuple(layer for layer in settings.layers if layer in ("L0", "L1"))
    return msgspec.structs.replace(
        settings,
        lm=settings.lm.asked_by("guide"),
        layers=layers,
        judge=NOBODY,
        extract=False,
        rollouts=1,
        perturbation="none",
        guide=None,
    )


def guide_task(ontology: str) -> Task:
    """Return the task of the run that writes a guide to an ontology."""
    return Task(id=f"guide-{ontology}"[: limits.TASK_ID_CHARS], question=QUESTION, ontology=ontology)


def write_guide(
    bank: Bank,
    settings: LoopSettings | None,
    source: SourceLike,
    *,
    complete: Complete | None = None,
    again: bool = False,
    **options: Any,
) -> Guide:
    """Have an agent write a guide to the source and record it, or return the one written under the same settings.

    `complete`, a function from a prompt's text to a reply's text, takes the place of the models in `settings`. These
    may be None then: the agent calls tools, and runs no code. `again` always writes another one; `options` go to
    `run_closed_loop`. Raises `BadInput` without both, `LoopStopped` if the agent submitted no text, and as
    `run_closed_loop` does.
    """
    if complete is not None:
        model = choice_of(complete)
        settings = msgspec.structs.replace(
            settings or LoopSettings(lm=model, executor="tools", iterations=limits.GUIDE_ITERATIONS), lm=model
        )
        options["model_for"] = lambda role, choice: complete
    if settings is None:
        raise BadInput("give settings with a model, or complete, a function from a prompt's text to a reply's text")
    with opened_source(source) as opened:
        return _written(bank, settings, as_registered(bank, opened), again=again, **options)


def _written(bank: Bank, settings: LoopSettings, source: Source, *, again: bool, **options: Any) -> Guide:
    if not source.id:
        raise BadInput("a guide is about an ontology that has an id")
    [result] = run_closed_loop([guide_task(source.id)], bank, guide_settings(settings), source, again=again, **options)
    read = read_guide(result.answer)
    if read.problem:
        raise _without_text(result, read.problem)
    known = next((event for event in _guides(bank) if event.run == result.run), None)
    made = known or ArtifactMaterialised(
        artifact=f"{GUIDE}-{result.run}",
        kind=GUIDE,
        ontology=source.id,
        run=result.run,
        chars=len(read.text),
        lm_calls=result.lm_calls,
        tokens_in=result.tokens_in,
        tokens_out=result.tokens_out,
        cost_usd=result.cost_usd,
        text=read.text,
    )
    # Written after the run ended, so a loop that was cut off in between resumes here.
    if known is None:
        bank.append(made)
    return Guide(
        artifact=made.artifact,
        ontology=source.id,
        text=read.text,
        chars=made.chars,
        how=result.how if known is not None or result.how == "ran" else "continued",
        **{name: getattr(result, name) for name in _RUN_FIELDS},
    )


class ReadGuide(NamedTuple):
    """The guide in an answer, or the problem because of which there is none."""

    text: str = ""
    problem: str = ""


def read_guide(answer: str) -> ReadGuide:
    """Return the one guide that an answer gives in its own words, without thinking and without a fence around it.

    A JSON value, a page of HTML or a word for nothing is no guide; neither is one that was cut off, that has
    two different summaries, or that only repeats the form.
    """
    if not answer.strip():
        return ReadGuide(problem="the agent submitted no text")
    read = ReplyReading(answer, ())
    text = unfenced(read.text).strip()
    if not text:
        return ReadGuide(problem="the answer holds thinking and no guide")
    if parsed_json(text) is not None or _NO_GUIDE.match(text):
        return ReadGuide(problem="the answer is a value or a page, and no guide")
    if read.unclosed or len(_FENCES.findall(text)) % 2:
        return ReadGuide(problem="the answer was cut off: something in it was never closed")
    summaries = {" ".join(found.split()) for found in _SUMMARIES.findall(text)}
    if len(summaries) > 1:
        return ReadGuide(problem="the answer holds several guides with different summaries")
    if summaries and _FORM.fullmatch(summaries.pop()):
        return ReadGuide(problem="the answer repeats the form of a guide and says nothing")
    # As the agent wrote it, where nothing had to be taken away.
    return ReadGuide(answer if text == answer.strip() else text)


def _without_text(result: TaskResult, problem: str) -> LoopStopped:
    """Return the error for a run without a text. Such a run counts as done if the failure was the agent's own."""
    reason = result.error or problem
    stopped = LoopStopped(result.run, result.error_code or "no_guide", reason)
    stopped.advice = RUN_AGAIN if result.undone else ANOTHER
    return stopped


def _guides(bank: Bank) -> list[ArtifactMaterialised]:
    events = bank.rare_events("artifact_materialised")
    return [event for event in events if isinstance(event, ArtifactMaterialised) and event.kind == GUIDE]
