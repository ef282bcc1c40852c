"""Events of memory: extractions, decisions about candidates, and ends and returns of items."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from rbank_es import limits
from rbank_es.events.event_envelope import Candidate, Count, Event, Names, Salt, Seconds, Text
from rbank_es.events.items import ItemHead, Name
from rbank_es.events.run_events import Extra, Trial, Usd, VerdictValue

ExtractionKind = Literal["success", "failure", "contrastive", "pattern", "seed", "manual"]
Action = Literal["add", "skip", "merge", "supersede", "discard"]
EventId = Annotated[Name, Meta(description="Id of an event.")]
By = Annotated[Name | None, Meta(description="Who did it.")]
Correction = Annotated[
    Name | None, Meta(description="Id of the correction that it is part of; it holds once that is completed.")
]
EndKind = Literal["rejected", "withdrawn", "tainted"]
ReturnKind = Literal["vouched", "supported"]

BY_HAND = "by-hand-1"
"""The `policy` of what a person decided: none would decide it again."""


class Reliance(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The verdict on a source run that an extraction relied on."""

    run: Annotated[Name, Meta(description="Id of the run.")]
    verdict: Annotated[VerdictValue, Meta(description="The verdict.")]
    judgment: Annotated[Name | None, Meta(description="Id of the event with the judgment that gave it.")] = None


LM_FAILED = "lm_failed:"
"""Begins the reason of an extraction that no model answered."""

FLAWS = (LM_FAILED, "malformed:", "no_usable_item:")
"""Begin the reasons of extractions that are empty because of the model."""


class MemoriesExtracted(Event, frozen=True, kw_only=True, tag="memories_extracted"):
    """Candidates were drawn from runs, or given by a person; nothing is in the bank yet."""

    kind: Annotated[ExtractionKind, Meta(description="How they were drawn.")]
    runs: Annotated[Names, Meta(description="Ids of the source runs.")] = ()
    relied: Annotated[
        tuple[Reliance, ...],
        Meta(max_length=limits.NAMES, description="Verdicts that it relied on; it stands while they stand."),
    ] = ()
    pending: Annotated[bool, Meta(description="Whether its items wait until somebody admits or confirms them.")] = False
    extractor: Annotated[Name | None, Meta(description="Extractor, as name and version.")] = None
    calls: Annotated[Names, Meta(description="Ids of the calls of a model that gave the candidates.")] = ()
    heads: Annotated[tuple[ItemHead, ...], Meta(description="Facts of each candidate.")] = ()
    copy_of: Annotated[
        tuple[Names, ...],
        Meta(
            max_length=limits.NAMES,
            description="In the order of `heads`: ids of the extractions of which a candidate that came by a list is a "
            "copy; it falls with them where all are known. None where it is no copy.",
        ),
    ] = ()
    salt: Salt = ""
    candidates: Annotated[tuple[Candidate, ...], Meta(description="Words of each, in the order of `heads`.")] = ()
    reason: Annotated[Text, Meta(description="Why there are none, or why some were left out.")] = ""
    extra: Extra = None


class Decision(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The decision about one candidate."""

    extraction: Annotated[
        Name | None, Meta(description="Id of its `memories_extracted` event, where the decision was made again.")
    ] = None
    candidate: Annotated[Count, Meta(description="Index in the extraction, from 0.")]
    action: Annotated[
        Action,
        Meta(
            description="add: it is active now. skip: it supports the target. merge, supersede: it is active and "
            "the targets end. discard: it is dropped."
        ),
    ]
    item: Annotated[Name, Meta(description="Id of the candidate.")]
    targets: Annotated[Names, Meta(description="Ids of the items it was weighed against.")] = ()
    title_similarity: Annotated[float | None, Meta(description="difflib ratio of titles, 0 to 1.")] = None
    content_similarity: Annotated[float | None, Meta(description="Jaccard of content words, 0 to 1.")] = None
    pending: Annotated[
        bool,
        Meta(
            description="Whether its item waits until a person admits it, because it is near to rejected words: those "
            "of the target."
        ),
    ] = False
    reason: Annotated[Name, Meta(description="Code of the reason, such as same-id.")] = ""


class MemoriesConsolidated(Event, frozen=True, kw_only=True, tag="memories_consolidated"):
    """A decision per candidate of an extraction, in their order; or decisions that a correction made again."""

    extraction: Annotated[
        EventId | None, Meta(description="Id of the `memories_extracted` event; none where decisions name theirs.")
    ] = None
    again: Annotated[bool, Meta(description="Whether a correction made these decisions again.")] = False
    correction: Correction = None
    policy: Annotated[Name, Meta(description="Consolidation policy, as name and version: dedup-1.")]
    decisions: Annotated[tuple[Decision, ...], Meta(description="One per candidate.")] = ()


class MemoryProposed(Event, frozen=True, kw_only=True, tag="memory_proposed"):
    """A tool or a model proposed an item; it is never stored unjudged."""

    run: Annotated[Name | None, Meta(description="Id of the run, if in one.")] = None
    by: Annotated[Name, Meta(description="The tool or model that proposed it.")]
    call: Annotated[Name | None, Meta(description="Id of the tool call.")] = None
    head: Annotated[ItemHead, Meta(description="Facts of the candidate.")]
    salt: Salt = ""
    candidate: Annotated[Candidate, Meta(description="Its words.")]
    why: Annotated[Text, Meta(description="Why.")] = ""
    extra: Extra = None


class WordsEmbedded(Event, frozen=True, kw_only=True, tag="words_embedded"):
    """A model gave the vectors of texts, or failed: of items' words, or of queries."""

    run: Annotated[Name | None, Meta(description="Id of the run, if in one.")] = None
    purpose: Annotated[Literal["item", "query"], Meta(description="What the texts are.")]
    model: Annotated[Name, Meta(description="Name of the model.")]
    dimensions: Annotated[Count | None, Meta(description="Numbers of each vector.")] = None
    items: Annotated[Names, Meta(description="Ids of the items, in the order of `vectors`.")] = ()
    attempts: Annotated[Count | None, Meta(description="Requests that were sent.")] = None
    tokens_in: Annotated[Count | None, Meta(description="Tokens of the texts.")] = None
    duration_s: Seconds | None = None
    error_code: Annotated[Name | None, Meta(description="Code of the error, if it failed.")] = None
    salt: Salt = ""
    # Texts, because a vector gives its text away, and a digest confirms a guess of it.
    vectors: Annotated[
        tuple[Text, ...],
        Meta(
            max_length=limits.NAMES,
            description="Of each text its SHA-256 in hex, a space, and its vector: base64 of little-endian float32.",
        ),
    ] = ()
    error: Annotated[Text | None, Meta(description="The error's message.")] = None
    extra: Extra = None


class ItemsLinked(Event, frozen=True, kw_only=True, tag="items_linked"):
    """Two items were related."""

    source: Annotated[Name, Meta(description="Item id.")]
    target: Annotated[Name, Meta(description="Item id.")]
    how: Annotated[Name, Meta(description="The relation, such as contradicts.")]
    by: Annotated[Name | None, Meta(description="Who linked them.")] = None


class MemoriesForgotten(Event, frozen=True, kw_only=True, tag="memories_forgotten"):
    """A forgetting policy ended items."""

    ids: Annotated[Names, Meta(description="Item ids.")]
    policy: Annotated[Name, Meta(description="Forgetting policy, as name and version.")]
    correction: Correction = None
    salt: Salt = ""
    why: Annotated[Text, Meta(description="Why.")] = ""


class MemoriesRetracted(Event, frozen=True, kw_only=True, tag="memories_retracted"):
    """Items were ended because of a later finding."""

    ids: Annotated[Names, Meta(description="Item ids.")] = ()
    how: Annotated[
        EndKind,
        Meta(
            description="rejected: their words are barred, from any source. withdrawn: these ids end. tainted: "
            "the extractions don't stand while the verdict on the run stands."
        ),
    ] = "withdrawn"
    extractions: Annotated[Names, Meta(description="Where tainted: ids of `memories_extracted` events.")] = ()
    run: Annotated[Name | None, Meta(description="Where tainted: the run whose verdict is the reason.")] = None
    verdict: Annotated[VerdictValue | None, Meta(description="Where tainted: that verdict.")] = None
    by: By = None
    because: Annotated[Name | None, Meta(description="Id of the event that is the reason.")] = None
    salt: Salt = ""
    why: Annotated[Text, Meta(description="Why.")] = ""


class MemoriesRestored(Event, frozen=True, kw_only=True, tag="memories_restored"):
    """Ended items are active again."""

    ids: Annotated[Names, Meta(description="Item ids.")]
    how: Annotated[
        ReturnKind,
        Meta(description="vouched: on somebody's word, with or without support. supported: no longer forgotten."),
    ] = "vouched"
    by: By = None
    correction: Correction = None
    because: Annotated[Name | None, Meta(description="Id of the event that is the reason.")] = None
    salt: Salt = ""
    why: Annotated[Text, Meta(description="Why.")] = ""


class MemoriesAdmitted(Event, frozen=True, kw_only=True, tag="memories_admitted"):
    """A person admitted pending items."""

    ids: Annotated[Names, Meta(description="Item ids.")]
    by: By = None
    salt: Salt = ""
    why: Annotated[Text, Meta(description="Why.")] = ""


class ConsolidationProposed(Event, frozen=True, kw_only=True, tag="consolidation_proposed"):
    """A model proposed what to do with a candidate; the consolidation policy decides."""

    extraction: Annotated[EventId, Meta(description="Id of the `memories_extracted` event.")]
    candidate: Annotated[Count, Meta(description="Index in the extraction, from 0.")]
    action: Annotated[Action, Meta(description="What it proposes.")]
    targets: Annotated[Names, Meta(description="Ids of items.")] = ()
    by: By = None
    salt: Salt = ""
    why: Annotated[Text, Meta(description="Why.")] = ""


class DecisionUndone(Event, frozen=True, kw_only=True, tag="decision_undone"):
    """One candidate counts as never extracted; or, if `lifted`, counts again."""

    extraction: Annotated[EventId, Meta(description="Id of the `memories_extracted` event.")]
    candidate: Annotated[Count, Meta(description="Index in the extraction, from 0.")]
    lifted: Annotated[bool, Meta(description="Whether an earlier undoing is taken back.")] = False
    by: By = None
    salt: Salt = ""
    why: Annotated[Text, Meta(description="Why.")] = ""


class CorrectionCompleted(Event, frozen=True, kw_only=True, tag="correction_completed"):
    """A correction is complete: its parts hold from here on, and the bank is canonical by the rule of that version."""

    correction: Annotated[Name, Meta(description="Id of the correction, as its parts name it.")]
    rule: Annotated[int, Meta(ge=1, description="Version of the law of correction.")]
    causes: Annotated[Names, Meta(description="Ids of the events that it answers.")] = ()
    counts: Annotated[dict[Name, Count], Meta(description="Number of items by what became of them.")] = {}


class ArtifactMaterialised(Event, frozen=True, kw_only=True, tag="artifact_materialised"):
    """Something costly was made once, to be used often: a guide, for instance."""

    artifact: Annotated[Name, Meta(description="Id of the artifact.")]
    kind: Annotated[Name, Meta(description="guide, …")]
    ontology: Annotated[Name | None, Meta(description="Id of the ontology it is about.")] = None
    run: Annotated[Name | None, Meta(description="Id of the run that made it.")] = None
    chars: Annotated[Count, Meta(description="Characters of the whole text.")]
    lm_calls: Annotated[Count | None, Meta(description="Calls of models that it took.")] = None
    tokens_in: Annotated[Count | None, Meta(description="Tokens of all requests.")] = None
    tokens_out: Annotated[Count | None, Meta(description="Tokens of all responses.")] = None
    cost_usd: Usd | None = None
    salt: Salt = ""
    text: Annotated[Text, Meta(description="The whole artifact.")] = ""


class ExperimentStarted(Event, frozen=True, kw_only=True, tag="experiment_started"):
    """A trial of an experiment began in this bank."""

    trial: Trial
    config_digest: Annotated[Name, Meta(description="SHA-256 of the condition, hex.")]
    suite: Annotated[Name, Meta(description="SHA-256 of its task suite, hex.")]
    tasks: Annotated[Names, Meta(description="Ids of its tasks, in their order.")] = ()
    definition: Annotated[Name | None, Meta(description="SHA-256 of the whole definition, hex.")] = None
    environment: Annotated[Name | None, Meta(description="SHA-256 of the facts beside it: code, packages, …")] = None
    common: Annotated[Name | None, Meta(description="Head of the bank that all trials share, before this one.")] = None
    earlier: Annotated[Count, Meta(description="Times that this trial had begun before, in banks that are gone.")] = 0
    salt: Salt = ""
    config: Annotated[Text | None, Meta(description="The whole definition of the experiment, in TOML.")] = None


class ExperimentFinished(Event, frozen=True, kw_only=True, tag="experiment_finished"):
    """A trial of an experiment ended: each of its tasks was run."""

    trial: Trial
    config_digest: Annotated[Name, Meta(description="SHA-256 of the condition, hex.")]
    suite: Annotated[Name, Meta(description="SHA-256 of its task suite, hex.")]
    result_digest: Annotated[Name, Meta(description="SHA-256 of its results, hex.")]
    salt: Salt = ""
    result: Annotated[Text | None, Meta(description="JSON of the results.")] = None


def flaw_of(event: MemoriesExtracted) -> str:
    """Return the fault of the model's answer if it gave no candidate; empty if nothing was."""
    reason = reason_known(event)
    return reason if not event.heads and reason.startswith(FLAWS) else ""


def reason_known(event: MemoriesExtracted) -> str:
    """Return the reason of an extraction, of a long one that is not resolved the beginning, which holds its code."""
    return event.reason if isinstance(event.reason, str) else getattr(event.reason, "prev", "")
