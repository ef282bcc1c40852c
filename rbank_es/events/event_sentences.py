"""One sentence about each event, for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rbank_es import events as ev
from rbank_es import limits
from rbank_es.events.codec import facts_of, texts_of, type_of
from rbank_es.events.event_envelope import text_of, titled
from rbank_es.events.readable_text import count, format_cost, format_names, safe_line
from rbank_es.events.run_events import judge_label


def summary(event: ev.Event) -> str:
    """Return the event's facts on one line of any length, without its position, time, type and run."""
    return safe_line(_SENTENCES.get(type_of(event), _any)(event)) or "nothing more"


def _with(facts: str, text: ev.Text | None) -> str:
    words = text_of(text)
    return f"{facts}: {words}" if words else facts


def _names(names: Sequence[str], noun: str = "item") -> str:
    return f"{count(len(names), noun)}: {format_names(names, limits.NAMES_LISTED)}" if names else f"no {noun}s"


def _parts(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)


def _any(event: ev.Event) -> str:
    """Return the sentence of a plugin's event: its facts by name, then its first text."""
    values = {name: getattr(event, name) for name in facts_of(type(event)) if name != "run"}
    facts = _parts(*(f"{name} {value}" for name, value in values.items() if value not in (None, "", (), {})))
    texts = [getattr(event, name) for name in texts_of(type(event))]
    words = next((text_of(text) for text in texts if isinstance(text, str | ev.Ref | ev.Erased) and text_of(text)), "")
    return f"{facts}: {words}" if facts and words else facts or words


def _policy_set(event: ev.PolicySet) -> str:
    chosen = ", ".join(f"{choice.kind} {choice.name}-{choice.version}" for choice in event.policies)
    return _with(chosen or "no policies", event.why)


def _tallied(counts: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items() if number)


def _ontology(event: ev.OntologyRegistered) -> str:
    triples = count(event.triples, "triple") if event.triples is not None else None
    return _parts(event.ontology, event.format, triples)


def _run_started(event: ev.RunStarted) -> str:
    named = (event.ontology, event.executor, event.model, "scripted" if event.scripted else None)
    how = _parts(*dict.fromkeys(named))
    return f"{text_of(event.task)} ({how})" if how else text_of(event.task)


def _context(event: ev.ContextBuilt) -> str:
    truncated = [layer.layer for layer in event.layers if layer.truncated]
    ends = f"truncated: {' '.join(truncated)}" if truncated else None
    return _parts(count(event.chars, "character"), _names(event.items), ends)


def _retrieved(event: ev.MemoriesRetrieved) -> str:
    filters = _parts(event.polarity, event.ontology, event.role)
    found = _names([hit.id for hit in event.hits])
    return _with(f"{found} ({event.mode}, k={event.k}{', ' + filters if filters else ''})", event.query)


def _tool(event: ev.ToolCalled) -> str:
    returned = count(event.chars, "character") if event.chars is not None else None
    took = f"{event.duration_s:.2f} s" if event.duration_s is not None else None
    failed = f"failed ({event.error_code or 'error'})" if event.error_code or event.error else None
    facts = _parts(failed, returned, "truncated" if event.truncated else None, took)
    call = f"{event.tool}({text_of(event.arguments)})"
    return _with(f"{call} → {facts}" if facts else call, event.error)


def _step(event: ev.StepTaken) -> str:
    failed = f"failed ({event.error_code})" if event.error_code else None
    printed = f"{count(event.stdout_chars, 'character')} printed" if event.stdout_chars is not None else None
    return _with(_parts(f"step {event.index}", failed, printed), event.reasoning or event.code)


def _lm(event: ev.LmCalled) -> str:
    tokens = f"{event.tokens_in or 0:,} → {event.tokens_out or 0:,} tokens" if event.tokens_in is not None else None
    cost = format_cost(event.cost_usd)
    took = f"{event.duration_s:.1f} s" if event.duration_s is not None else None
    failed = f"failed ({event.error_code})" if event.error_code else None
    return _with(_parts(f"{event.role} {event.model}", failed, tokens, cost, took), event.error)


def _finished(event: ev.RunFinished) -> str:
    after = f"after {count(event.iterations, 'iteration')}" if event.iterations is not None else None
    cost = format_cost(event.cost_usd)
    bound = f" ({event.bound})" if event.bound not in (None, "iterations") else ""
    unsent = f"recalled, not sent: {_names(event.recall_unsent)}" if event.recall_unsent else None
    return _with(_parts(event.outcome.replace("_", " ") + bound, after, cost, unsent), event.error or event.answer)


def _judged(event: ev.RunJudged) -> str:
    sure = ", sure" if event.sure else ""
    sure += f", confidence {event.confidence:g}" if event.confidence is not None else ""
    # Most judges are named by their kind.
    kind = "" if event.judge.startswith(event.kind) else f"{event.kind} "
    who = f"{kind}{judge_label(event.judge, event.judge_version)}"
    return _with(f"{event.verdict} ({event.purpose}, {who}{sure})", event.reason)


def _overruled(event: ev.JudgmentOverruled) -> str:
    return _with(f"{event.verdict} ({event.purpose}, {event.kind}), by {event.by}", event.why or event.reason)


def _extracted(event: ev.MemoriesExtracted) -> str:
    source = (
        f" of {', '.join(event.runs[: limits.NAMES_LISTED])}{'…' if len(event.runs) > limits.NAMES_LISTED else ''}"
        if event.runs
        else ""
    )
    facts = f"{count(len(event.heads), 'candidate')} from {event.kind}{source}"
    titles = "; ".join(titled(candidate) for candidate in event.candidates[: limits.NAMES_LISTED])
    return _with(facts, titles or event.reason)


def _consolidated(event: ev.MemoriesConsolidated) -> str:
    again = ", made again" if event.again else ""
    return f"{'; '.join(map(decided, event.decisions)) or 'nothing to decide'} ({event.policy}{again})"


def decided(decision: ev.Decision) -> str:
    """Return a decision in a few words: `skip a1 for b2 (same-id)`."""
    joint = {"skip": "for", "merge": "with", "supersede": "in place of"}.get(decision.action, "beside")
    targets = [target for target in decision.targets if target != decision.item]
    against = f" {joint} {', '.join(targets)}" if targets else ""
    return f"{decision.action} {decision.item}{against}{f' ({decision.reason})' if decision.reason else ''}"


def _undone(event: ev.DecisionUndone) -> str:
    what = "holds again" if event.lifted else "is taken back"
    return _with(f"the decision about candidate {event.candidate} of {event.extraction} {what}", event.why)


def _retracted(event: ev.MemoriesRetracted) -> str:
    if event.how == "tainted":
        return _with(
            f"{_names(event.extractions, 'extraction')} set aside while {event.run} is a {event.verdict}", event.why
        )
    return _with(f"{_names(event.ids)} ({event.how})", event.why)


def _proposed(event: ev.ConsolidationProposed) -> str:
    targets = f" {', '.join(event.targets)}" if event.targets else ""
    by = f" by {event.by}" if event.by else ""
    return _with(f"{event.action}{targets} for candidate {event.candidate} of {event.extraction}{by}", event.why)


def _corrected(event: ev.CorrectionCompleted) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in event.counts.items()) or "nothing else changed"


def _artifact(event: ev.ArtifactMaterialised) -> str:
    name = f"{event.kind} {event.artifact}"
    tokens = f"{event.tokens_in:,} → {event.tokens_out or 0:,} tokens" if event.tokens_in is not None else None
    cost = format_cost(event.cost_usd)
    return _with(_parts(name, event.ontology, count(event.chars, "character"), tokens, cost), event.text)


def _embedded(event: ev.WordsEmbedded) -> str:
    size = f"{event.dimensions:,} dimensions" if event.dimensions is not None else None
    failure = f"failed: {event.error_code}" if event.error_code else None
    facts = _parts(event.model, count(len(event.vectors), f"{event.purpose} vector"), size, failure)
    return _with(facts, event.error)


def _erased(event: ev.ContentErased) -> str:
    where = len({unit.seq for unit in event.units})
    return _with(f"{count(len(event.units), 'text')} in {count(where, 'event')}", event.reason)


def _experiment(event: ev.ExperimentStarted | ev.ExperimentFinished) -> str:
    trial = f"{event.trial.experiment}, {event.trial.condition} {event.trial.order}.{event.trial.repetition}"
    return f"{trial}, configuration {event.config_digest[:12]}, suite {event.suite[:12]}"


_SENTENCES: dict[str, Callable[[Any], str]] = {
    "bank_created": lambda event: _with(event.name, event.purpose),
    "policy_set": _policy_set,
    "bank_absorbed": lambda event: f"{event.bank} up to position {event.upto:,}: {_tallied(event.counts)}",
    "bank_forked": lambda event: _parts(event.name, f"from {event.parent} at position {event.parent_seq:,}", event.by),
    "ontology_registered": _ontology,
    "run_started": _run_started,
    "context_built": _context,
    "memories_retrieved": _retrieved,
    "memories_read": lambda event: f"{event.how} {_names(event.ids)}, {count(event.chars, 'character')}",
    "tool_called": _tool,
    "step_taken": _step,
    "lm_called": _lm,
    "run_finished": _finished,
    "note_logged": lambda event: _with(event.by or "note", event.note),
    "run_judged": _judged,
    "judgment_overruled": _overruled,
    "memories_extracted": _extracted,
    "memories_consolidated": _consolidated,
    "memory_proposed": lambda event: f"by {event.by}: {titled(event.candidate)}",
    "items_linked": lambda event: f"{event.source} {event.how} {event.target}",
    "memories_forgotten": lambda event: _with(f"{_names(event.ids)} ({event.policy})", event.why),
    "memories_retracted": _retracted,
    "memories_restored": lambda event: _with(f"{_names(event.ids)} ({event.how})", event.why),
    "memories_admitted": lambda event: _with(_names(event.ids), event.why),
    "consolidation_proposed": _proposed,
    "decision_undone": _undone,
    "correction_completed": _corrected,
    "words_embedded": _embedded,
    "artifact_materialised": _artifact,
    "experiment_started": _experiment,
    "experiment_finished": _experiment,
    "content_erased": _erased,
}
