"""A task never gets a lesson of its own: a search without a task finds nothing that was drawn from a run of it."""

from __future__ import annotations

from hypothesis import given, settings

from rbank_es.events import Event, MemoriesExtracted, RunStarted
from rbank_es.law import items_of_task
from tests.effort import examples
from tests.laws.bank_lives import PEOPLE, Life, Op, lives

TASK_OF = {"r1": "a", "r2": "a", "r3": "b"}


def own_words(log: list[Event], task: str) -> set[str]:
    """The items that extractions from a run of a task brought: the plain definition of what must never be found."""
    extractions = (each for each in log if isinstance(each, MemoriesExtracted))
    return {
        head.id
        for each in extractions
        if any(TASK_OF.get(run) == task for run in (*each.runs, *(pair.run for pair in each.relied)))
        for head in each.heads
    }


@settings(max_examples=examples(100))
@given(lives(PEOPLE))
def test_nothing_is_found_that_was_drawn_from_a_run_of_the_task(ops: list[Op]) -> None:
    """In any bank, at its head and before; the view and the fold agree on what is left out."""
    life = Life()
    life.bank.append([RunStarted(run=run, task_id=task) for run, task in TASK_OF.items()])
    for op in ops:
        life.do(op)
    for position in {life.groups[len(life.groups) // 2], life.bank.position}:
        log = [event for event in life.log if event.seq <= position]
        with life.bank.as_of(position) as view:
            for task in ("a", "b", "c"):
                left_out = view.items_of_task(task)
                assert left_out == items_of_task(life.bank.state(position), task) >= own_words(log, task)
                every = [hit.id for hit in view.search("abcd efgh a b c d e", 50)]
                found = [hit.id for hit in view.search("abcd efgh a b c d e", 50, without_task=task)]
                assert found == [id for id in every if id not in left_out]
