"""Recall: the lessons of a bank that fit a question at a point, and the events that record it.

The searches are exact for `check(retrievals=True)`: they are appended only while the bank is as it was searched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from rbank_es.bank.agent_run import Lessons
from rbank_es.context.layer import SEPARATOR
from rbank_es.context.procedures import procedures_in
from rbank_es.errors import LogError, PositionConflict, ProjectionError
from rbank_es.events import (
    ContextBuilt,
    Event,
    JudgmentOverruled,
    LayerUse,
    LmCalled,
    MemoriesRead,
    MemoriesRetrieved,
    MemoryProposed,
    NoteLogged,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.events.redaction import redact_event
from rbank_es.limits import agent_limits
from rbank_es.policies.packed_text import Packed

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.policies import RetrievalPolicy
    from rbank_es.projections.view import View


_SILENT = (ToolCalled, StepTaken, LmCalled, NoteLogged, MemoriesRetrieved, RunFinished, MemoryProposed)
"""Events that change no search: what agents record most."""

_SILENT_FOR_WORDS = (*_SILENT, RunStarted, ContextBuilt, MemoriesRead)
"""Events that change no search by a policy that weighs words alone."""

_projected: WeakKeyDictionary[Bank, int] = WeakKeyDictionary()
"""The position to which a recall in this process brought the read models of a bank last."""


class Recall(NamedTuple):
    """Lessons, the events to append at their position, the context that the run has then, and the policy that chose."""

    lessons: Lessons
    events: tuple[Event, ...]
    context: ContextBuilt
    policy: RetrievalPolicy


def recall(
    bank: Bank,
    question: str,
    *,
    run: str,
    domain: str | None = None,
    level: int | None = None,
    before: ContextBuilt | None = None,
) -> Recall:
    """Return the lessons that fit a question, by the retrieval policy in force at the head.

    `before` is the context that the run has already, with its texts: what it holds is not given again, and the new
    context holds it too. Raises as `Bank.as_of`, `BadPolicy`.
    """
    position = bank.position
    known = frozenset(before.items) if before is not None else frozenset[str]()
    with _searched(bank, position) as view:
        policy = view.retrieval_policy()
        found = procedures_in(view, question, run=run, domain=domain, level=level, known=known)
    context = _context(run, found.packed, before)
    given = known.union(found.packed.items)
    lessons = Lessons(
        text=found.packed.text,
        items=tuple(item for item in found.items if item.id in given),
        added=found.packed.items,
        position=position,
    )
    built = () if context is before else (context,)
    return Recall(lessons, (*found.retrievals, *built), context, policy)


@contextmanager
def _searched(bank: Bank, position: int) -> Iterator[View]:
    """Give a view that shows what a search at a position, the head, finds.

    To bring the read models up to date takes longer than all else, so the view may be of an earlier position, if what
    was recorded since changes no search.
    """
    point = _projected.get(bank, 0)
    if point and position - point <= agent_limits.RECALL_TAIL_EVENTS:
        with bank.as_of(point) as view:
            if not _is_changed(bank, view, point, position):
                yield view
                return
    # A bank whose read models can't be written is searched in a temporary copy.
    with suppress(ProjectionError, LogError, OSError):
        _projected[bank] = min(bank.project().position, position)
    with bank.as_of(position) as view:
        yield view


def _is_changed(bank: Bank, view: View, after: int, upto: int) -> bool:
    """Return whether a search at a position may find anything else than in a view of an earlier one."""
    found = changes_of_search(bank, view.retrieval_policy(), after, upto)
    if found is None:
        return True
    # A verdict changes no item where none was drawn from its run.
    return any(map(view.is_relied_on, found))


def changes_of_search(bank: Bank, policy: RetrievalPolicy, after: int, upto: int) -> frozenset[str] | None:
    """Return the runs whose verdicts alone may change what a search by a policy finds; None where other events may."""
    by_words = not policy.weighs_outcomes and policy.level_bound(1) is None
    silent, judged = _SILENT_FOR_WORDS if by_words else _SILENT, set[str]()
    for event in bank.events(after=after, point=upto):
        if by_words and isinstance(event, RunJudged | JudgmentOverruled):
            judged.add(event.run)
        elif not isinstance(event, silent):
            return None
    return frozenset(judged)


def append_recall(bank: Bank, found: Recall) -> bool:
    """Append the events of a recall; return False, with nothing appended, if the bank that was searched has changed.

    Raises as `Bank.append`.
    """
    events, expected = [redact_event(event) for event in found.events], found.lessons.position
    while True:
        try:
            bank.append(events, expected=expected)
        except PositionConflict as moved:
            if changes_of_search(bank, found.policy, expected, moved.actual) != frozenset():
                return False
            expected = moved.actual
        else:
            return True


def _context(run: str, packed: Packed, before: ContextBuilt | None) -> ContextBuilt:
    """Return the whole context of a run: a layer for each recall that gave it something."""
    use = LayerUse(layer=packed.layer, chars=len(packed.text), budget=packed.budget_chars, truncated=packed.truncated)
    if before is None:
        return ContextBuilt(run=run, chars=len(packed.text), layers=(use,), items=packed.items, texts=(packed.text,))
    if not packed.text:
        return before
    gap = len(SEPARATOR) if before.chars else 0
    return ContextBuilt(
        run=run,
        chars=before.chars + gap + len(packed.text),
        layers=(*before.layers, use),
        items=tuple(dict.fromkeys((*before.items, *packed.items))),
        texts=(*before.texts, packed.text),
    )
