"""Recall: the lessons of a bank that fit a question at a point, and the events that record it.

The searches are exact for `check(retrievals=True)`: they are appended only while the bank is as it was searched.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rbank_es.bank.agent_run import Lessons
from rbank_es.context.layer import SEPARATOR
from rbank_es.context.procedures import procedures
from rbank_es.errors import LogError, PositionConflict, ProjectionError
from rbank_es.events import ContextBuilt, Event, LayerUse, type_of
from rbank_es.events.redaction import redact_event
from rbank_es.policies.packed_text import Packed

if TYPE_CHECKING:
    from rbank_es.bank import Bank


UNSEARCHED = frozenset(
    {"tool_called", "step_taken", "lm_called", "note_logged", "memories_retrieved", "run_finished", "memory_proposed"}
)
"""The types of events that change nothing for a search: what agents side by side record most."""


class Recall(NamedTuple):
    """Lessons, the events to append at their position, and the context that the run has then."""

    lessons: Lessons
    events: tuple[Event, ...]
    context: ContextBuilt


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
    # Searches are faster on read models that are up to date, and need not be able to write them.
    with suppress(ProjectionError, LogError, OSError):
        bank.project()
    position = bank.position
    known = frozenset(before.items) if before is not None else frozenset[str]()
    found = procedures(bank, question, point=position, run=run, domain=domain, level=level, known=known)
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


def append_recall(bank: Bank, found: Recall) -> bool:
    """Append the events of a recall; return False, with nothing appended, if the bank that was searched has changed.

    Raises as `Bank.append`.
    """
    events, expected = [redact_event(event) for event in found.events], found.lessons.position
    while True:
        try:
            bank.append(events, expected=expected)
        except PositionConflict as moved:
            between = bank.events(after=expected, point=moved.actual)
            if any(type_of(event) not in UNSEARCHED for event in between):
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
