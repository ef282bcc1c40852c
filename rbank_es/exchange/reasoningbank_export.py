"""A bank as ReasoningBank memory: a line per run, with the active items that were drawn from it.

A line has the mark of its run: `rbank_es.exchange.record_identity.Mark`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import NotInBank
from rbank_es.events import MemoriesExtracted, RunStarted
from rbank_es.events.items import Item
from rbank_es.exchange.exported_runs import begun_runs, extra_of
from rbank_es.exchange.memory_markdown import write_memories
from rbank_es.exchange.record_identity import MARK, Mark
from rbank_es.law import State
from rbank_es.law.validity import witnesses_of
from rbank_es.log.run_reader import RunEvents, run_starts

_TYPES = ("run_started", "step_taken", "run_finished")
Drawn = dict[str, list[Item]]
"""The items of a run by the extraction that brought them."""


def memory_lines(bank: Bank, upto: int, only: str | None) -> Iterator[bytes]:
    """Yield a line for each run that began up to a position, or for one. Raises `NotInBank` if that one didn't."""
    state = bank.state(upto)
    drawn = _items_by_run(bank, upto, state)
    judged = _judgments(bank, upto, state)
    found = False
    for run in begun_runs(bank, upto, only, _TYPES):
        found = True
        line = _Line(bank, state, run, drawn.get(run.run, {}), judged.get(run.run))
        fields = line.fields() | {MARK: msgspec.to_builtins(line.mark())}
        yield json.dumps(fields, ensure_ascii=False).encode() + b"\n"
    if only is not None and not found:
        raise NotInBank(only, upto)


def without_run(bank: Bank, point: str | int | None) -> int:
    """Return how many active items are left out: no run that began in this bank brought or supports them.

    Those whose words are erased are not among them. Raises `BadPoint`, and as reading the log does.
    """
    upto = bank.resolve(point)
    state = bank.state(upto)
    began = {each.run for each in run_starts(bank.log, upto)}
    drawn = _items_by_run(bank, upto, state)
    written = {item.id for run, items in drawn.items() if run in began for each in items.values() for item in each}
    return sum(entry.state == "active" and not entry.erased and id not in written for id, entry in state.items.items())


class _Line(NamedTuple):
    """What the line of a run is made of. `judgment` is the id of the judgment that stands."""

    bank: Bank
    state: State
    run: RunEvents
    drawn: Drawn
    judgment: str | None

    def fields(self) -> dict[str, Any]:
        """Return the line's keys, without a mark."""
        start, steps = self._start(), self.run.steps
        extra = extra_of(start)
        # A run that was imported from this form goes out under the keys of its own line.
        fields: dict[str, Any] = extra if "task_id" in extra else {"task_id": self.run.run}
        fields["query"] = start.task if isinstance(start.task, str) else ""
        if steps:
            fields["think_list"] = [_word(step.reasoning) for step in steps]
            fields["action_list"] = [_word(step.code) for step in steps]
        verdict = self.state.verdicts.get((self.run.run, "learning"))
        status = {"success": "success", "failure": "fail"}.get(verdict.verdict) if verdict else None
        if status is not None:
            fields["status"] = status
        items = [item for each in self.drawn.values() for item in each]
        return fields | {"memory_items": list(write_memories(items))}

    def mark(self) -> Mark:
        """Return the ids of the events that the line tells of."""
        start, end = self._start(), self.run.end
        return Mark(
            bank=start.origin or self.bank.log.bank_id,
            run=self.run.run,
            started=start.id,
            steps=tuple(step.id for step in self.run.steps),
            finished=None if end is None else end.id,
            judgment=self.judgment,
            extractions={id: tuple(item.id for item in items) for id, items in self.drawn.items()},
        )

    def _start(self) -> RunStarted:
        start = self.run.started
        assert start is not None  # `begun_runs` gives no others
        return start


def _word(text: Any) -> str | None:
    return text if isinstance(text, str) else None


def _judgments(bank: Bank, upto: int, state: State) -> dict[str, str]:
    """Return the id of the judgment that stands of each run, where it is success or failure."""
    standing = {
        verdict.seq: run
        for (run, purpose), verdict in state.verdicts.items()
        if purpose == "learning" and verdict.verdict != "undecided"
    }
    read = bank.log.read(upto=upto, types=("run_judged", "judgment_overruled"))
    return {standing[event.seq]: event.id for event in read if event.seq in standing}


def _items_by_run(bank: Bank, upto: int, state: State) -> dict[str, Drawn]:
    """Return the active items that each run brought or supports under their own id, in order of extraction.

    What a verdict took back is none: under the verdict of today it would come back as another lesson of the run.
    """
    runs: dict[str, str] = {}
    drawn: dict[str, Drawn] = {}
    for event in bank.log.read(upto=upto, types=("memories_extracted",)):
        if isinstance(event, MemoriesExtracted) and event.runs:
            # A line is of one run: a lesson of several goes out with the first of them, and only once.
            runs[event.id] = event.runs[0]
    for (extraction, index), candidate in state.candidates.items():
        entry = state.items.get(candidate.item.id)
        record = state.records.get(candidate.item.id)
        landed = record is not None and (extraction, index) in record.landed
        counts = landed and extraction in runs and bool(witnesses_of((extraction, index), state))
        if entry is not None and entry.state == "active" and counts and not candidate.erased:
            drawn.setdefault(runs[extraction], {}).setdefault(extraction, []).append(candidate.item)
    return drawn
