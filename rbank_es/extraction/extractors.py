"""Extractors: candidates drawn by a model from judged runs of a task. The consolidation policy decides about them.

An extraction with no items, or fewer than the model gave, has a reason that begins with a code:

    nothing_happened       the agent did nothing, none of its replies could be read, or it gave no answer and each of
                           its steps failed; no model was asked
    undecided              nobody decided whether the run succeeded; no model was asked
    unsure                 the model that judged was less confident than the judging policy requires; no model was asked
    ungrounded             a success that names terms that the ontology doesn't have; no model was asked
    nothing_to_compare     a contrast needs a success and a failure, a pattern two successes; no model was asked
    lm_failed              the model gave no answer; the code of the failure follows
    malformed              no answer of the model had a list
    no_usable_item         the last list had entries, but no usable one
    nothing_worth_keeping  the model found nothing, and said why
    left_out               there are items, and also entries without one
    judged_a_failure       no proposal of a failed run says what to avoid
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Unpack

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, LmFailed
from rbank_es.events.items import Item
from rbank_es.events.run_events import has_source
from rbank_es.extraction.candidates import Extraction, Usable, usable
from rbank_es.extraction.conversation import ExtractorReply, ask
from rbank_es.extraction.judged_run import Judgment, PastRun, clip, format_trajectory
from rbank_es.law.likeness import is_same
from rbank_es.models.prompt_truncation import ask_with_room
from rbank_es.policies import SuccessFailure

if TYPE_CHECKING:
    from rbank_es.models.run_models import Lms

PASSING = frozenset({"timeout", "rate_limited", "server_error", "unreachable", "bad_response", "refused"}) | frozenset(
    {"context_too_long", "request_too_long", "response_too_long"}
)
"""Codes of `LmFailed` that concern one extraction. Others are raised, because every later call would fail too."""

Kind = Literal["success", "failure", "contrastive", "pattern"]


class ExtractionFacts(TypedDict, total=False):
    """Options of an extraction.

    `domain` is the id of the ontology, for runs that don't name it; `tags` are given to each item; `rollout_id` tells
    apart equal requests of several rollouts.
    """

    domain: str | None
    tags: Sequence[str]
    rollout_id: int | None


# ---------------------------------------------------------------- one run


def extract(
    result: Any,
    task: str,
    judgment: Any,
    lms: Lms,
    policy: SuccessFailure | None = None,
    **facts: Unpack[ExtractionFacts],
) -> Extraction:
    """Draw candidates from one judged run: strategies from a success, guardrails from a failure.

    Args:
        result: the run, as `PastRun.of` takes it.
        judgment: the verdict for learning, as `Judgment.of` takes it.
        lms: the models of the run; the one in the role `extractor` is asked, and every call is recorded.
        policy: the extraction policy; the default one unless given.
        facts: see `ExtractionFacts`.

    Raises `BadInput` for an invalid judgment or one for scoring, and `LmFailed` if every later call would fail too.
    Whatever a model answers raises nothing.
    """
    rule, run, verdict = policy or SuccessFailure(), PastRun.of(result, task), Judgment.of(judgment)
    kind: Kind = "success" if verdict.verdict == "success" else "failure"
    pending = _PendingExtraction(kind, [(run, verdict)], rule, facts)
    if run.empty:
        words = "the agent took no step and gave no answer"
        if run.steps:
            unread = all(step.unread for step in run.steps)
            words = "no reply of the agent could be read" if unread else "each of the agent's steps failed"
        return pending.blank.without("nothing_happened", words)
    barred = verdict.bar(grounded=rule.grounded)
    if barred is not None:
        return pending.blank.without(*barred)
    inputs = {
        "task": _within(task),
        "trajectory": format_trajectory(run.steps, rule.trajectory_chars) or "(no steps were recorded)",
        "answer": _within(run.answer),
        "sparql": _within(run.sparql),
        "verdict": _verdict(run, verdict),
    }
    return pending.ask_model(inputs, lms)


# ---------------------------------------------------------------- several runs of one task


def contrastive_extract(
    results: Iterable[Any],
    task: str,
    judgments: Iterable[Any],
    lms: Lms,
    policy: SuccessFailure | None = None,
    **facts: Unpack[ExtractionFacts],
) -> Extraction:
    """Draw candidates from the contrast of successful and failed runs of a task. Arguments and errors as `extract`.

    Runs that may not be learned from are left out. Without a success and a failure, no model is asked.
    """
    rule = policy or SuccessFailure()
    pairs = _learnable(results, task, judgments, rule)
    pending = _PendingExtraction("contrastive", pairs, rule, facts)
    won = [pair for pair in pairs if pair[1].verdict == "success"]
    lost = [pair for pair in pairs if pair[1].verdict == "failure"]
    if not won or not lost:
        return pending.blank.without("nothing_to_compare", f"{len(won)} successes and {len(lost)} failures")
    room = _room(rule, len(pairs))
    inputs = {"task": _within(task), "successes": _several(won, room), "failures": _several(lost, room)}
    return pending.ask_model(inputs, lms)


def extract_common_patterns(
    results: Iterable[Any],
    task: str,
    judgments: Iterable[Any],
    lms: Lms,
    policy: SuccessFailure | None = None,
    **facts: Unpack[ExtractionFacts],
) -> Extraction:
    """Draw candidates from what successful runs of a task have in common. Arguments and errors as `extract`.

    Failures, and runs that may not be learned from, are left out. With fewer than two others, no model is asked.
    """
    rule = policy or SuccessFailure()
    won = [pair for pair in _learnable(results, task, judgments, rule) if pair[1].verdict == "success"]
    pending = _PendingExtraction("pattern", won, rule, facts)
    if len(won) < 2:
        return pending.blank.without("nothing_to_compare", f"{len(won)} successes")
    return pending.ask_model({"task": _within(task), "successes": _several(won, _room(rule, len(won)))}, lms)


def extract_from_rollouts(
    results: Sequence[Any],
    task: str,
    judgments: Sequence[Any],
    best: int,
    lms: Lms,
    policy: SuccessFailure | None = None,
    **facts: Unpack[ExtractionFacts],
) -> tuple[Extraction, ...]:
    """Draw candidates from rollouts of one task, by the policy's `extract_from`. Arguments and errors as `extract`.

    `best`: from the run at the index `best` alone. `contrastive`: from the contrast if there are successes and
    failures, then from the pattern if there are two successes; without either, from the best run alone. What states the
    same as an earlier item is left out, whatever its source: what successes share is often what failures lacked.
    """
    rule = policy or SuccessFailure()
    if rule.extract_from == "contrastive":
        pairs = _learnable(results, task, judgments, rule)
        won = sum(verdict.verdict == "success" for _, verdict in pairs)
        made: list[Extraction] = []
        # The contrast first, because its items are kept where the pattern states the same.
        if 0 < won < len(pairs):
            made.append(contrastive_extract(results, task, judgments, lms, rule, **facts))
        if won > 1:
            made.append(extract_common_patterns(results, task, judgments, lms, rule, **facts))
        if made:
            return _without_repeats(made)
    return (extract(results[best], task, judgments[best], lms, rule, **facts),)


def _without_repeats(extractions: Iterable[Extraction]) -> tuple[Extraction, ...]:
    """Return the extractions without items that state the same as one of an earlier extraction."""
    # Consolidation would keep both, because it compares only items of one source; but the same runs count once.
    made: list[Extraction] = []
    for each in extractions:
        before = [item for other in made for item in other.items]
        kept = tuple(item for item in each.items if not _repeats(item, before))
        made.append(each if len(kept) == len(each.items) else _shortened(each, kept))
    return tuple(made)


def _repeats(item: Item, before: Iterable[Item]) -> bool:
    return any((item.polarity, item.domain) == (old.polarity, old.domain) and is_same(item, old) for old in before)


def _shortened(extraction: Extraction, kept: tuple[Item, ...]) -> Extraction:
    flaws = ["repeated"] * (len(extraction.items) - len(kept))
    words = ", ".join(filter(None, (extraction.reason.removeprefix("left_out: "), *flaws)))
    if kept:
        return extraction.holding(kept, extraction.kind, words, extraction.tries)
    return extraction.without("no_usable_item", words, extraction.tries)


# ---------------------------------------------------------------- shared parts


class _PendingExtraction(NamedTuple):
    """An extraction whose model was not asked yet."""

    kind: Kind
    judged: Sequence[tuple[PastRun, Judgment]]
    policy: SuccessFailure
    facts: ExtractionFacts

    @property
    def over_source(self) -> bool:
        """Whether any of the runs is about an ontology or an endpoint."""
        given = self.facts.get("domain")
        return any(run.over_source or (not run.domain and has_source(given)) for run, _ in self.judged)

    @property
    def blank(self) -> Extraction:
        """The extraction without items or a reason. Its extractor names the prompts: those in general words by that."""
        named = [(run.run, verdict) for run, verdict in self.judged if run.run]
        return Extraction(
            kind=self.kind,
            runs=tuple(run for run, _ in named),
            relied=tuple(verdict.relied(run) for run, verdict in named),
            extractor=self.policy.label if self.over_source else f"{self.policy.label}-general",
        )

    def ask_model(self, inputs: Mapping[str, str], lms: Lms) -> Extraction:
        """Ask the model, and return the extraction of its answer."""
        known = {run.domain for run, _ in self.judged if run.domain}
        domain = self.facts.get("domain") or (known.pop() if len(known) == 1 else None)
        tags, most, before = self.facts.get("tags", ()), self.policy.items_max, len(lms.calls.ids)

        def make(entries: list[Any]) -> Usable:
            return usable(entries, self.kind, domain=domain, tags=tags, most=most)

        try:
            rollout, over_source = self.facts.get("rollout_id"), self.over_source
            found = ask_with_room(
                inputs, lambda given: ask(self.kind, given, lms, make, self.policy, rollout, over_source=over_source)
            )
            made = self._made(found)
        except LmFailed as failure:
            if failure.code not in PASSING:
                raise
            made = self.blank.without("lm_failed", f"{failure.code}: {failure.message}")
        return msgspec.structs.replace(made, calls=tuple(lms.calls.ids[before:]))

    def _made(self, found: ExtractorReply) -> Extraction:
        items, flaws = found.usable.items, ", ".join([*found.usable.flaws, *(["cut_off"] if found.cut else [])])
        if items:
            return self.blank.holding(items, self.kind, flaws, found.tries)
        if not found.readable:
            of_last = f"; of the last one: {found.problem}" if found.problem else ""
            return self.blank.without("malformed", f"{found.tries} answers held no list of items{of_last}", found.tries)
        if flaws:
            return self.blank.without("no_usable_item", flaws, found.tries)
        return self.blank.without("nothing_worth_keeping", found.reason or "the model gave no reason", found.tries)


def _learnable(
    results: Iterable[Any], task: str, judgments: Iterable[Any], policy: SuccessFailure
) -> list[tuple[PastRun, Judgment]]:
    """Return the runs that may be learned from, each with its judgment. Raises `BadInput` if one has no judgment."""
    runs = [PastRun.of(result, task) for result in results]
    verdicts = [Judgment.of(judgment) for judgment in judgments]
    if len(runs) != len(verdicts):
        raise BadInput(f"{len(runs)} runs and {len(verdicts)} judgments; give one judgment for each run")
    return [
        (run, verdict)
        for run, verdict in zip(runs, verdicts, strict=True)
        if not run.empty and verdict.bar(grounded=policy.grounded) is None
    ]


def _room(policy: SuccessFailure, runs: int) -> int:
    """Return the characters for the steps of each of several runs."""
    return min(policy.trajectory_chars, limits.EXTRACTION_ROLLOUTS_CHARS // runs)


def _several(pairs: Sequence[tuple[PastRun, Judgment]], room: int) -> str:
    return "\n\n\n".join(_described(number, *pair, room) for number, pair in enumerate(pairs, 1))


def _described(number: int, run: PastRun, verdict: Judgment, room: int) -> str:
    # Leave out the ids of runs: the prompt must not depend on them, or a recorded answer would never match it again.
    parts = {
        "Verdict": _verdict(run, verdict),
        "Answer": _within(run.answer),
        "Query": _within(run.sparql),
        "Steps": format_trajectory(run.steps, room),
    }
    return "\n".join([f"Attempt {number}", *(f"{name}:\n{text}" for name, text in parts.items() if text)])


def _verdict(run: PastRun, verdict: Judgment) -> str:
    decided = "a success" if verdict.verdict == "success" else "a failure"
    because = f": {verdict.reason}" if verdict.reason else ""
    return _within(f"How it ended: {run.ending}. The judge decided that it is {decided}{because}")


def _within(text: str) -> str:
    # Lone surrogates can't be encoded, so no request could hold them.
    return clip(text.encode("utf-8", "replace").decode().strip(), limits.EXTRACTION_TEXT_CHARS)
