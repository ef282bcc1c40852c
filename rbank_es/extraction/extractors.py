"""Extracting: what is learnt of judged attempts at a task, as candidates for the bank. What they become is decided
elsewhere, by the consolidation policy.

Every extraction says why it holds nothing, or less than the model gave, beginning with a code:

    nothing_happened       the agent did nothing that could be learnt from; no model was asked
    ungrounded             a success that names what the ontology doesn't have; no model was asked
    nothing_to_compare     a contrast needs a success and a failure, a pattern two successes; no model was asked
    lm_failed              the model gave no answer; the code of the failure follows
    malformed              no answer of the model held a list
    no_usable_item         they did, but of no entry came an item
    nothing_worth_keeping  the model says that there is nothing, and why
    left_out               there are items, and entries of which none came
    judged_a_failure       of what was proposed in a failed run, nothing says what to avoid
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, LmFailed
from rbank_es.events import MemoriesExtracted
from rbank_es.events.items import Item, Source
from rbank_es.events.memory_events import ExtractionKind
from rbank_es.extraction.candidates import Usable, one_line, usable
from rbank_es.extraction.judged_run import Attempt, Judgment
from rbank_es.extraction.model_call import Asked, ask
from rbank_es.extraction.trajectory import clip, format_trajectory
from rbank_es.policies import SuccessFailure, find_similar

if TYPE_CHECKING:
    from rbank_es.models.router import Lms

PASSING = frozenset(
    {
        "timeout",
        "rate_limited",
        "server_error",
        "unreachable",
        "bad_response",
        "refused",
        "context_too_long",
        "request_too_long",
        "response_too_long",
    }
)
"""Codes of `LmFailed` that concern one extraction; all others concern every call that would follow, and are raised."""

Kind = Literal["success", "failure", "contrastive", "pattern"]

PROMPT_OF: Mapping[Kind, str] = {
    "success": "SuccessExtractor",
    "failure": "FailureExtractor",
    "contrastive": "ContrastiveExtractor",
    "pattern": "PatternExtractor",
}


class Facts(TypedDict, total=False):
    """What is known beside the attempts: the id of the ontology, where they don't say it; tags for each item; which
    sample of the model's answers is wanted.
    """

    domain: str | None
    tags: Sequence[str]
    rollout_id: int | None


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates, or why there are none.

    `code` is that of the reason, empty where all is well. `runs` are the ids of the source runs, `judgment` the id of
    the judgment's event, `extractor` who drew them, as name and version, `tries` how many answers of a model were read.
    """

    kind: ExtractionKind
    items: tuple[Item, ...] = ()
    code: str = ""
    reason: str = ""
    runs: tuple[str, ...] = ()
    judgment: str | None = None
    extractor: str | None = None
    tries: int = 0

    def without(self, code: str, words: str, tries: int = 0) -> Extraction:
        """The same with no items, and why."""
        return msgspec.structs.replace(self, items=(), code=code, reason=_reason(code, words), tries=tries)

    def holding(self, items: tuple[Item, ...], kind: ExtractionKind, left_out: str = "", tries: int = 0) -> Extraction:
        """The same of some kind with items, and what was left out, in words."""
        code, reason = ("left_out", _reason("left_out", left_out)) if left_out else ("", "")
        return msgspec.structs.replace(self, kind=kind, items=items, code=code, reason=reason, tries=tries)

    def event(self, id: str = "") -> MemoriesExtracted:
        """The event that records it; with an id of its own, it can be appended again without being decided again."""
        return MemoriesExtracted(
            id=id,
            kind=self.kind,
            runs=self.runs,
            judgment=self.judgment,
            extractor=self.extractor,
            heads=tuple(item.head for item in self.items),
            candidates=tuple(item.text for item in self.items),
            reason=self.reason,
        )


# ---------------------------------------------------------------- one attempt


def extract(
    result: Any,
    task: str,
    judgment: Any,
    lms: Lms,
    policy: SuccessFailure | None = None,
    **facts: Unpack[Facts],
) -> Extraction:
    """What is learnt of one judged attempt: strategies from a success, guardrails from a failure.

    Args:
        result: the run, as `Attempt.of` takes it.
        judgment: the verdict for learning, as `Judgment.of` takes it.
        lms: the models of the run; the one in the role `extractor` is asked, and every call is recorded.
        policy: how; its defaults unless given.
        facts: see `Facts`.

    Raises `BadInput` for a judgment that is none or that only scores, and `LmFailed` where no model could be asked
    anything any more; whatever a model answers raises nothing.
    """
    rule, attempt, verdict = policy or SuccessFailure(), Attempt.of(result, task), Judgment.of(judgment)
    work = _Work([attempt], rule, "success" if verdict.success else "failure", verdict.event, **facts)
    if attempt.empty:
        return work.blank.without("nothing_happened", "the agent took no step and gave no answer")
    if rule.grounded and verdict.success and not verdict.learnable:
        return work.blank.without("ungrounded", verdict.reason or "it names what the ontology doesn't have")
    inputs = {
        "task": _within(task),
        "trajectory": format_trajectory(attempt.steps, rule.trajectory_chars) or "(no steps were recorded)",
        "answer": _within(attempt.answer),
        "sparql": _within(attempt.sparql),
        "verdict": _verdict(attempt, verdict),
    }
    return work.asked(inputs, lms)


# ---------------------------------------------------------------- several attempts at one task


def contrastive_extract(
    results: Iterable[Any],
    task: str,
    judgments: Iterable[Any],
    lms: Lms,
    policy: SuccessFailure | None = None,
    **facts: Unpack[Facts],
) -> Extraction:
    """What the successful attempts at a task did that the failed ones didn't. Arguments and errors as of `extract`.

    Attempts that can't be learnt from are left out; without a success and a failure there is nothing to compare.
    """
    rule = policy or SuccessFailure()
    pairs = _learnable(results, task, judgments, rule)
    work = _Work([attempt for attempt, _ in pairs], rule, "contrastive", **facts)
    won = [pair for pair in pairs if pair[1].success]
    lost = [pair for pair in pairs if not pair[1].success]
    if not won or not lost:
        return work.blank.without("nothing_to_compare", f"{len(won)} successes and {len(lost)} failures")
    room = _room(rule, len(pairs))
    inputs = {"task": _within(task), "successes": _several(won, room), "failures": _several(lost, room)}
    return work.asked(inputs, lms)


def extract_common_patterns(
    results: Iterable[Any],
    task: str,
    judgments: Iterable[Any],
    lms: Lms,
    policy: SuccessFailure | None = None,
    **facts: Unpack[Facts],
) -> Extraction:
    """What the successful attempts at a task have in common. Arguments and errors as of `extract`.

    Failures, and attempts that can't be learnt from, are left out; there must be two others.
    """
    rule = policy or SuccessFailure()
    won = [pair for pair in _learnable(results, task, judgments, rule) if pair[1].success]
    work = _Work([attempt for attempt, _ in won], rule, "pattern", **facts)
    if len(won) < 2:
        return work.blank.without("nothing_to_compare", f"{len(won)} successes")
    return work.asked({"task": _within(task), "successes": _several(won, _room(rule, len(won)))}, lms)


def extract_from_rollouts(
    results: Sequence[Any],
    task: str,
    judgments: Sequence[Any],
    best: int,
    lms: Lms,
    policy: SuccessFailure | None = None,
    **facts: Unpack[Facts],
) -> tuple[Extraction, ...]:
    """What is learnt of rollouts of one task, by the policy's `extract_from`. Arguments and errors as of `extract`.

    `best`: of the attempt at that index alone. `contrastive`: what sets successes apart from failures, where there are
    both, then what successes share, where there are two; of the best alone, where there is neither. What they share is
    often what the failures lacked: of items that nearly repeat one another, as `find_similar` has it whatever their
    source, the first is kept.
    """
    rule = policy or SuccessFailure()
    if rule.extract_from == "contrastive":
        pairs = _learnable(results, task, judgments, rule)
        won = sum(verdict.success for _, verdict in pairs)
        made: list[Extraction] = []
        if 0 < won < len(pairs):
            made.append(contrastive_extract(results, task, judgments, lms, rule, **facts))
        if won > 1:
            made.append(extract_common_patterns(results, task, judgments, lms, rule, **facts))
        if made:
            return _without_repeats(made)
    return (extract(results[best], task, judgments[best], lms, rule, **facts),)


def _without_repeats(extractions: Iterable[Extraction]) -> tuple[Extraction, ...]:
    """The same, without items that say what one of an earlier extraction said: the runs are the same, and count once.

    Consolidation would take both, for it compares items of one source alone.
    """
    made: list[Extraction] = []
    for each in extractions:
        before = [item for other in made for item in other.items]
        kept = tuple(item for item in each.items if not _is_said(item, before))
        made.append(each if len(kept) == len(each.items) else _shortened(each, kept))
    return tuple(made)


def _is_said(item: Item, before: Iterable[Item]) -> bool:
    alike = (msgspec.structs.replace(old, src=item.src) for old in before)
    return find_similar(item, alike) is not None


def _shortened(extraction: Extraction, kept: tuple[Item, ...]) -> Extraction:
    flaws = ["repeated"] * (len(extraction.items) - len(kept))
    words = ", ".join(filter(None, (extraction.reason.removeprefix("left_out: "), *flaws)))
    if kept:
        return extraction.holding(kept, extraction.kind, words, extraction.tries)
    return extraction.without("no_usable_item", words, extraction.tries)


# ---------------------------------------------------------------- what they share


class _Work:
    """One extraction in the making: from which attempts, of which kind, and by which policy."""

    def __init__(
        self,
        attempts: Sequence[Attempt],
        policy: SuccessFailure,
        kind: Kind,
        judgment: str | None = None,
        *,
        domain: str | None = None,
        tags: Sequence[str] = (),
        rollout_id: int | None = None,
    ) -> None:
        self._kind: Kind = kind
        self._policy, self._tags, self._rollout_id = policy, tags, rollout_id
        known = {attempt.domain for attempt in attempts if attempt.domain}
        self._domain = domain or (known.pop() if len(known) == 1 else None)
        runs = tuple(attempt.run for attempt in attempts if attempt.run)
        self.blank = Extraction(kind=kind, runs=runs, judgment=judgment, extractor=policy.label)

    def asked(self, inputs: Mapping[str, str], lms: Lms) -> Extraction:
        """What the model makes of it."""
        try:
            found = ask(
                PROMPT_OF[self._kind],
                inputs,
                lms,
                self._usable,
                most=self._policy.items_max,
                temperature=self._policy.temperature,
                tries=self._policy.tries,
                rollout_id=self._rollout_id,
            )
        except LmFailed as failure:
            if failure.code not in PASSING:
                raise
            return self.blank.without("lm_failed", f"{failure.code}: {failure.message}")
        return self._made(found)

    def _usable(self, entries: list[Any]) -> Usable:
        source: Source = self._kind
        return usable(entries, source, domain=self._domain, tags=self._tags, most=self._policy.items_max)

    def _made(self, found: Asked) -> Extraction:
        items, flaws = found.usable.items, ", ".join(found.usable.flaws)
        if items:
            return self.blank.holding(items, self._kind, flaws, found.tries)
        if not found.readable:
            return self.blank.without("malformed", f"{found.tries} answers held no list of items", found.tries)
        if flaws:
            return self.blank.without("no_usable_item", flaws, found.tries)
        return self.blank.without("nothing_worth_keeping", found.reason or "the model gave no reason", found.tries)


def _reason(code: str, words: str) -> str:
    return f"{code}: {one_line(words)}"[: limits.ERROR_CHARS]


def _learnable(
    results: Iterable[Any], task: str, judgments: Iterable[Any], policy: SuccessFailure
) -> list[tuple[Attempt, Judgment]]:
    """The attempts that something may be learnt from, each with its judgment. Raises `BadInput` if one has none."""
    attempts = [Attempt.of(result, task) for result in results]
    verdicts = [Judgment.of(judgment) for judgment in judgments]
    if len(attempts) != len(verdicts):
        raise BadInput(f"{len(attempts)} attempts and {len(verdicts)} judgments; give one judgment for each attempt")
    return [
        (attempt, verdict)
        for attempt, verdict in zip(attempts, verdicts, strict=True)
        if not attempt.empty and (verdict.learnable or not verdict.success or not policy.grounded)
    ]


def _room(policy: SuccessFailure, attempts: int) -> int:
    """Characters for the steps of each of several attempts."""
    return min(policy.trajectory_chars, limits.EXTRACTION_ROLLOUTS_CHARS // attempts)


def _several(pairs: Sequence[tuple[Attempt, Judgment]], room: int) -> str:
    return "\n\n\n".join(_described(number, *pair, room) for number, pair in enumerate(pairs, 1))


def _described(number: int, attempt: Attempt, verdict: Judgment, room: int) -> str:
    # Runs have ids, which are left out: what is asked must not depend on them, or it could never be replayed.
    parts = {
        "Verdict": _verdict(attempt, verdict),
        "Answer": _within(attempt.answer),
        "Query": _within(attempt.sparql),
        "Steps": format_trajectory(attempt.steps, room),
    }
    return "\n".join([f"Attempt {number}", *(f"{name}:\n{text}" for name, text in parts.items() if text)])


def _verdict(attempt: Attempt, verdict: Judgment) -> str:
    decided = "a success" if verdict.success else "a failure"
    because = f": {verdict.reason}" if verdict.reason else ""
    return _within(f"How it ended: {attempt.ending}. The judge decided that it is {decided}{because}")


def _within(text: str) -> str:
    return clip(text.encode("utf-8", "replace").decode().strip(), limits.EXTRACTION_TEXT_CHARS)
