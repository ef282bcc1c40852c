"""Recall: the lessons of a bank that fit a question at a point, and the events that record it.

The searches are exact for `check(retrievals=True)`, whoever writes beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from rbank_es.bank.agent_run import Lessons
from rbank_es.context.layer_text import SEPARATOR
from rbank_es.context.procedures import procedures
from rbank_es.errors import LogError, PositionConflict, ProjectionError
from rbank_es.events import (
    ContextBuilt,
    Event,
    JudgmentOverruled,
    LayerUse,
    MemoriesRetrieved,
    RunJudged,
)
from rbank_es.events.codec import event_types
from rbank_es.events.redaction import redact_event
from rbank_es.limits import recorder_limits
from rbank_es.policies.packed_text import Packed
from rbank_es.policies.retrieval_protocol import SILENT_EVENTS, SILENT_EVENTS_FOR_WORDS

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.projections.view import View


class LastSearch(NamedTuple):
    """The position of the view that a recall searched, and the position up to which no later event changes that."""

    view: int
    unchanged: int


_searched_last: WeakKeyDictionary[Bank, LastSearch] = WeakKeyDictionary()
"""What the last recall of this process searched in each bank."""


class Recall(NamedTuple):
    """Lessons, the events that record them, and the context that the run has then."""

    lessons: Lessons
    events: tuple[Event, ...]
    context: ContextBuilt


def recall(bank: Bank, question: str, *, first: Sequence[Event] = (), **facts: Any) -> tuple[Lessons, ContextBuilt]:
    """Find and record the lessons of a run as `find_recall` does; return them, and the context that the run has then.

    Events that change no search may come `first`, in the same group. Raises as `find_recall` and `Bank.append`.
    """
    found = find_recall(bank, question, **facts)
    append_recall(bank, found._replace(events=(*first, *found.events)))
    return found.lessons, found.context


def find_recall(
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
        found = procedures(view, question, run=run, domain=domain, level=level, known=known)
    context = _context(run, found.packed, before)
    given = known.union(found.packed.items)
    lessons = Lessons(
        text=found.packed.text,
        items=tuple(item for item in found.items if item.id in given),
        added=found.packed.items,
        position=position,
    )
    built = () if context is before else (context,)
    return Recall(lessons, (*found.retrievals, *built), context)


@contextmanager
def _searched(bank: Bank, position: int) -> Iterator[View]:
    """Give a view that shows what a search at a position, the head, finds.

    To bring the read models up to date takes longer than all else, so the view may be of an earlier position, if what
    was recorded since changes no search.
    """
    point, unchanged = _searched_last.get(bank) or (bank.read_models().position(bank.log) or 0,) * 2
    if 0 < point <= position <= point + recorder_limits.RECALL_TAIL_EVENTS:
        with bank.as_of(point) as view:
            if not _is_changed(bank, view, unchanged, position):
                _searched_last[bank] = LastSearch(point, max(unchanged, position))
                yield view
                return
    # A bank whose read models can't be written is searched in a temporary copy.
    with suppress(ProjectionError, LogError, OSError):
        point = min(bank.project().position, position)
        _searched_last[bank] = LastSearch(point, point)
    with bank.as_of(position) as view:
        yield view


def _is_changed(bank: Bank, view: View, after: int, upto: int) -> bool:
    """Return whether the events between two positions may change what a search in an earlier view finds."""
    policy = view.retrieval_policy()
    by_words = not policy.weighs_outcomes and policy.level_bound(1) is None
    silent, judged = SILENT_EVENTS_FOR_WORDS if by_words else SILENT_EVENTS, set[str]()
    # By types, because to skip a line takes a hundredth of the time of decoding it, and most are silent.
    for event in bank.events(after=after, point=upto, types=event_types().keys() - silent):
        if not by_words or not isinstance(event, RunJudged | JudgmentOverruled):
            return True
        judged.add(event.run)
    # A verdict changes no item where none was drawn from its run.
    return any(map(view.is_relied_on, judged))


def append_recall(bank: Bank, found: Recall) -> None:
    """Append the events of a recall; where another writer was faster, they name the position that was searched.

    Raises as `Bank.append`.
    """
    events, position = [redact_event(event) for event in found.events], found.lessons.position
    try:
        bank.append(events, expected=position)
    except PositionConflict:
        bank.append(
            replace(event, as_of=position) if isinstance(event, MemoriesRetrieved) else event for event in events
        )


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
