"""Contamination: what a run was given that could hold the answer to its own task.

Two questions, asked of every item that was given to a run, in full or as an excerpt. Where did it come from: from an
earlier run of the very same task? What does it hold: the right query, a row of the right answer, or a literal of the
right query that the question doesn't mention? Either can make a memory look useful that only repeats. Words are
compared in one case, without punctuation; so a short number may be found by chance, and a row of only such values
doesn't count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from rbank_es.errors import BadInput, QueryRefused
from rbank_es.lab.leading_questions import plain_words, rows_said
from rbank_es.law import State

if TYPE_CHECKING:
    from rbank_es.loop.tasks import Task
    from rbank_es.sparql.results import Answer

Kind = Literal["same task", "right query", "right answer", "literal"]
LITERAL_CHARS = 3
"""The shortest literal, and the shortest row of an answer, that is taken for more than chance. Our own choice."""


class Contamination(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way in which an item could hold the answer. `run` is the earlier run that it was drawn from, empty for none.

    `same task`: it was drawn from a run of the task; the others say what its words hold.
    """

    item: str
    kind: Kind
    run: str = ""


def contamination_of(state: State, task: Task, given: Sequence[str], began: int) -> tuple[Contamination, ...]:
    """Return how items that were given to a run of a task could hold its answer, in the order of the items.

    `began` is the position at which the run began: what was drawn from runs later is no source of what it was given.
    """
    found: list[Contamination] = []
    for item in given:
        runs = list(_sources(state, item, began))
        same = [run for run in runs if state.runs[run].task_id == task.id]
        if same:
            found.append(Contamination(item=item, kind="same task", run=same[0]))
        entry = state.items.get(item)
        if entry is not None and not entry.erased:
            words = "\n".join((entry.item.title, entry.item.desc, entry.item.content))
            source = runs[0] if runs else ""
            found += (Contamination(item=item, kind=kind, run=source) for kind in _held(task, words))
    return tuple(found)


def _sources(state: State, item: str, began: int) -> Iterator[str]:
    """Yield the runs from which an item was drawn before a position: those of the candidates that landed on it."""
    record = state.records.get(item)
    if record is None:
        return
    for extraction in dict.fromkeys(pair[0] for pair in (*record.pairs, *record.landed)):
        known = state.extractions.get(extraction)
        if known is not None and known.seq < began:
            yield from (run for run in known.runs if run in state.runs)


def _held(task: Task, words: str) -> Iterator[Kind]:
    said = plain_words(words)
    if task.gold_sparql and plain_words(task.gold_sparql) in said:
        yield "right query"
    if _tells_answer(task, words, said):
        yield "right answer"
    # Between blanks, so that only whole words count.
    if any(f" {literal} " in f" {said} " for literal in _telling_literals(task)):
        yield "literal"


def _tells_answer(task: Task, words: str, said: str) -> bool:
    if isinstance(task.answer, str):
        return len(task.answer) >= LITERAL_CHARS and plain_words(task.answer) in said
    answer = _right_answer(task)
    rows = rows_said(words, answer) if answer is not None else ()
    return any(sum(len(cell.value) for cell in row if cell is not None) >= LITERAL_CHARS for row in rows)


def _right_answer(task: Task) -> Answer | None:
    from rbank_es.judging.gold_answers import gold_of

    if not isinstance(task.answer, list):
        return None
    try:
        gold = gold_of(None, task.answer)
    except BadInput:
        return None
    return gold.answer if gold is not None else None


def _telling_literals(task: Task) -> Iterable[str]:
    """Return the literals of the right query that the question doesn't mention, in plain words."""
    return _literals(task.gold_sparql, task.question) if task.gold_sparql else ()


# Kept, because each item that any run of a task was given asks for the literals of the same query.
@lru_cache(maxsize=1024)
def _literals(sparql: str, question: str) -> tuple[str, ...]:
    from rbank_es.sparql.parser.parsed_query import parse_query

    try:
        tokens = parse_query(sparql).tokens
    except QueryRefused:
        return ()
    asked = f" {plain_words(question)} "
    literals = (plain_words(token.text) for token in tokens if token.kind == "string")
    return tuple(each for each in literals if len(each) >= LITERAL_CHARS and f" {each} " not in asked)
