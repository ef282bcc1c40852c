"""Lessons that could be drawn and were not yet: decided runs from which nothing that stands was drawn.

A run teaches alone. Rollouts of one task teach together, as the extraction policy says: by the contrast of successes
and failures, by what successes share, or by the best of them alone. So an overruled verdict may leave a whole group to
be drawn from again. Pure: which candidates there are, only a model can say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct

from rbank_es.errors import BadPolicy
from rbank_es.events import Decision
from rbank_es.events.bank_events import PolicyKind
from rbank_es.law.bank_state import State
from rbank_es.law.misled_runs import verdict_on
from rbank_es.policies import BestOf, Policy, SuccessFailure, governing

Decided = Literal["success", "failure"]
LessonKind = Literal["success", "failure", "contrastive", "pattern"]

COMPARED = frozenset({"contrastive", "pattern"})
"""Kinds of extraction that compare rollouts."""


class LessonToDraw(NamedTuple):
    """Candidates that no standing extraction gave yet: their kind, and the runs to draw them from together."""

    kind: LessonKind
    runs: tuple[str, ...]


class LateLessons(Struct, frozen=True, kw_only=True):
    """The lessons from a run, or from comparing several, under the verdicts that stand.

    `kind` is that of the extraction: success and failure are of one run. `code` and `reason` say why there is nothing,
    or less than the model gave; `extraction` is the id of the event that records it, empty if the model gave no answer:
    then nothing was recorded but its calls.
    """

    runs: tuple[str, ...]
    kind: LessonKind
    extraction: str = ""
    titles: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    code: str = ""
    reason: str = ""


class _DecidedRun(Struct, frozen=True):
    """A run with its verdict, as a selection policy compares rollouts."""

    run: str
    index: int
    verdict: Decided
    outcome: str
    iterations: int


def lessons_to_draw(
    state: State, runs: Iterable[str], unread: Collection[str] = frozenset()
) -> tuple[LessonToDraw, ...]:
    """Return the lessons left to draw from some runs, each with the other rollouts of its task; in order of runs.

    Nothing is drawn from a run that nobody judged or that is undecided. The extractions in `unread` count as none,
    because no answer of a model could be used in them.
    """
    found = dict[LessonToDraw, None]()
    # Found when the first rollout comes: most runs are none, and all runs must be gone through.
    groups: Mapping[str, list[str]] | None = None
    for run in runs:
        known = state.runs.get(run)
        if known is None or known.rollout_group is None:
            verdict = _decided(state, run)
            planned = [] if verdict is None else [LessonToDraw(verdict, (run,))]
        else:
            groups = _rollouts(state) if groups is None else groups
            planned = _together(state, groups[known.rollout_group])
        found |= dict.fromkeys(each for each in planned if not _is_drawn(state, each, unread))
    return tuple(found)


def _rollouts(state: State) -> Mapping[str, list[str]]:
    groups = defaultdict[str, list[str]](list)
    for run, known in state.runs.items():
        if known.rollout_group is not None:
            groups[known.rollout_group].append(run)
    return groups


def _decided(state: State, run: str) -> Decided | None:
    verdict = verdict_on(state, run)
    return None if verdict is None or verdict == "undecided" else verdict


def _together(state: State, runs: Iterable[str]) -> list[LessonToDraw]:
    """Return the lessons that the rollouts of a task can teach, drawn or not."""
    verdicts = dict[str, Decided]()
    for run in runs:
        if (verdict := _decided(state, run)) is not None:
            verdicts[run] = verdict
    decided = [_run(state, run, verdict) for run, verdict in verdicts.items()]
    won = [each.run for each in decided if each.verdict == "success"]
    made: list[LessonToDraw] = []
    if _compares(state, verdicts):
        if 0 < len(won) < len(decided):
            made.append(LessonToDraw("contrastive", tuple(verdicts)))
        if len(won) > 1:
            made.append(LessonToDraw("pattern", tuple(won)))
    if decided and not made:
        best = _policy(state, "selection", BestOf()).best(decided)
        made.append(LessonToDraw(best.verdict, (best.run,)))
    return made


def _run(state: State, run: str, verdict: Decided) -> _DecidedRun:
    known = state.runs[run]
    return _DecidedRun(run, known.rollout_index or 0, verdict, known.outcome or "failed", known.iterations)


def _compares(state: State, runs: Iterable[str]) -> bool:
    """Return whether rollouts are compared: by the policy in force, or because they were by their loop's choice."""
    if _policy(state, "extraction", SuccessFailure()).extract_from == "contrastive":
        return True
    return any(state.extractions[id].kind in COMPARED for run in runs for id in state.relying.get(run, ()))


Rule = TypeVar("Rule", bound=Policy)


def _policy(state: State, kind: PolicyKind, usual: Rule) -> Rule:
    """Return the policy in force; the usual one where this release doesn't know it, as only a report follows."""
    try:
        found = governing(kind, state.policies.get(kind))
    except BadPolicy:
        return usual
    return found if isinstance(found, type(usual)) else usual


def _is_drawn(state: State, lesson: LessonToDraw, unread: Collection[str]) -> bool:
    """Return whether a standing extraction has these runs; a comparison must be of the same kind."""
    for id in state.relying.get(lesson.runs[0], ()):
        known = state.extractions[id]
        if id in unread:
            continue
        alike = lesson.kind not in COMPARED or known.kind == lesson.kind
        if known.stands and alike and {*lesson.runs} <= {*known.runs, *(run for run, _ in known.relied)}:
            return True
    return False
