"""The guide: an agent explores an ontology once, and what it writes is kept whole, for later runs to see a summary of.

The whole text and what it cost are one `artifact_materialised` event; layer L3 of every later context takes its summary
from there, without a model (see `rbank_es.context.guide_summary`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.context.guide_summary import GUIDE
from rbank_es.errors import BadInput, LoopStopped
from rbank_es.events import ArtifactMaterialised
from rbank_es.loop.closed_loop import How, TaskResult, run_closed_loop
from rbank_es.loop.settings import LoopSettings
from rbank_es.loop.tasks import Task

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.sparql.source import Source

QUESTION = """\
Write a guide to this ontology and its data, for colleagues who will answer questions over it with SPARQL.
First explore: which classes have instances and how many, which properties join them, what values look like, and what
is surprising. Try every query that you recommend.
The answer is the guide itself, in Markdown, with these headings: "## Summary" (at most 900 characters: what it is
about, the main classes and how they join), "## Classes", "## Properties and joins", "## Values" (units, languages,
dates, identifiers), "## Queries that work", "## Pitfalls". Name only terms that you saw, with their prefixes. Leave
sparql empty."""
"""What the agent is asked."""


RUN_ANEW = "The same command has it run anew"
ANOTHER = "Nothing else comes of the same command: have another one written with --again, or with other settings"


class Guide(msgspec.Struct, frozen=True, kw_only=True):
    """A guide that is in the bank. `how` tells whether it was written now; `chars` are those of the whole text."""

    artifact: str
    run: str
    ontology: str
    how: How
    outcome: str
    scripted: bool
    chars: int
    lm_calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    text: str


def guide_settings(settings: LoopSettings) -> LoopSettings:
    """The settings of the run that writes a guide: one run, not judged, nothing learnt, no guide to go by."""
    layers = tuple(layer for layer in settings.layers if layer in ("L0", "L1"))
    return msgspec.structs.replace(
        settings, layers=layers, judge="none", extract=False, rollouts=1, perturbation="none", guide=None
    )


def write_guide(bank: Bank, settings: LoopSettings, source: Source, *, again: bool = False, **options: Any) -> Guide:
    """Have a guide to the source written, and keep it; or give the one that was written under the same settings.

    `again` has another one written; `options` go to `run_closed_loop`, which tells what else is raised.
    Raises `LoopStopped` where the agent handed in no text.
    """
    if not source.id:
        raise BadInput("a guide is about an ontology that has an id")
    task = Task(id=f"guide-{source.id}"[: limits.TASK_ID_CHARS], question=QUESTION, ontology=source.id)
    [result] = run_closed_loop([task], bank, guide_settings(settings), source, again=again, **options)
    if not result.answer.strip():
        raise _without_text(result)
    known = next((event for event in _guides(bank) if event.run == result.run), None)
    made = known or ArtifactMaterialised(
        artifact=f"{GUIDE}-{result.run}",
        kind=GUIDE,
        ontology=source.id,
        run=result.run,
        chars=len(result.answer),
        lm_calls=result.lm_calls,
        tokens_in=result.tokens_in,
        tokens_out=result.tokens_out,
        cost_usd=result.cost_usd,
        text=result.answer,
    )
    if known is None:
        bank.append(made)
    return Guide(
        artifact=made.artifact,
        ontology=source.id,
        text=result.answer,
        chars=made.chars,
        how=result.how if known is not None or result.how == "ran" else "continued",
        **{name: getattr(result, name) for name in _OF_THE_RUN},
    )


def _without_text(result: TaskResult) -> LoopStopped:
    """What is raised of a run that handed in no text: it counts as done, unless it failed of what was not its own."""
    reason = result.error or "the agent handed in no text"
    stopped = LoopStopped(result.run, result.error_code or "no_guide", reason)
    stopped.advice = RUN_ANEW if result.undone else ANOTHER
    return stopped


_OF_THE_RUN = ("run", "outcome", "scripted", "lm_calls", "tokens_in", "tokens_out", "cost_usd")


def _guides(bank: Bank) -> list[ArtifactMaterialised]:
    events = bank.events(types={"artifact_materialised"})
    return [event for event in events if isinstance(event, ArtifactMaterialised) and event.kind == GUIDE]
