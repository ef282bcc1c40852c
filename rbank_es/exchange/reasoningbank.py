"""ReasoningBank memory files: JSON Lines, one per run, in the three forms that its code writes.

    full      task_id, query, think_list, action_list, status, memory_items (list), template_id
    short     task_id, query, memory_items (list), status
    scaling   task_id, query, memory_items (one string, or a list), no status

Each line becomes run_started, a step_taken per thought and action, run_finished, run_judged where there is a status,
and memories_extracted; the bank's own policy decides about the candidates. The form doesn't have a run's outcome: the
run is recorded as submitted, and `extra` says that this is unknown. Without a status the items count as contrastive,
because the scaling form draws them from several tries of one task. `task_id`, `template_id` and unknown keys are kept
in the `extra` of run_started, text of `memory_items` that is no item in that of memories_extracted.

What makes a record the run that it is: its name, if it has one; else its task with what was thought and done; where
nothing was noted of that, its task with the words of its items. The verdict is no part of it. So a record with another
`status` is another judgment of the same run, with what was drawn under that verdict; with other items under the same
verdict it differs, and these are left out. `memory_items` is text: `rbank_es.exchange.memory_markdown` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.events import Event, MemoriesExtracted, Reliance, RunFinished, RunJudged, RunStarted, StepTaken
from rbank_es.events.items import Item
from rbank_es.exchange.importer import Importer, ImportUnit, Parsed
from rbank_es.exchange.json_records import JsonRecord, json_records, text_field
from rbank_es.exchange.memory_markdown import MarkdownMemory, memory_of, parse_memories
from rbank_es.exchange.record_identity import (
    MARK,
    Mark,
    Numbers,
    as_name,
    canonical,
    identity,
    mark_of,
    name_in_source,
    name_of,
    part_id,
)

FORM = "reasoningbank"
JUDGE = "reasoningbank"
EXTRACTOR = "reasoningbank"
READ_FIELDS = frozenset({"query", "think_list", "action_list", "status", "memory_items", MARK})
"""Keys that have fields of their own; all others are kept in `extra`."""

Kind = Literal["success", "failure", "contrastive"]
_KINDS: dict[Any, Kind] = {"success": "success", "fail": "failure", None: "contrastive"}


def parse_reasoningbank(path: str, data: bytes) -> Parsed:
    """Parse a memory file into its runs, a unit each. Raises `BadImport` naming the line."""
    numbers = Numbers()
    runs = [_Run(path, record, numbers) for record in json_records(path, data)]
    units: dict[str, ImportUnit] = {}
    for run in runs:
        unit = run.unit()
        units.setdefault(unit.events[0].id, unit)  # a record that has a name is the same one wherever it is repeated
    return Parsed(
        path=path,
        form=FORM,
        units=tuple(units.values()),
        decided=False,
        left_out=sum(len(run.stray) for run in runs),
        notes=tuple(_notes(runs)),
    )


def _notes(runs: list[_Run]) -> Iterator[str]:
    """Yield what can't be known of the records, and what of them is no item."""
    if equal := [run.record.name for run in runs if run.known.equal]:
        yield f"{_listed(equal)}: equal to an earlier record and without a run_id; counted as another run"
    if bare := [run.record.name for run in runs if run.known.by_words]:
        yield (
            f"{_listed(bare)}: neither a run_id nor steps; known again only by task and memory_items, so that other "
            "memory_items will count as another run"
        )
    for run in [run for run in runs if run.stray][: limits.RECORDS_NAMED]:
        yield f"{run.record.name}: text of memory_items that is no item, left out {len(run.stray)}×: {run.stray_begins}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[: limits.RECORDS_NAMED])
    return shown if len(names) <= limits.RECORDS_NAMED else f"{shown} and {len(names) - limits.RECORDS_NAMED:,} more"


class RunIdentity(NamedTuple):
    """The identity of the run that a record tells of: its digest, and the run's name and first event that follow.

    `equal`: the record is like an earlier one of its file. `by_words`: nothing but its items tells it from others of
    its task.
    """

    digest: bytes
    run: str
    started: str
    equal: bool
    by_words: bool


def run_identity(fields: dict[str, Any], numbers: Numbers) -> RunIdentity:
    """Return the identity of a record without a mark, and count it among those of its file in `numbers`.

    Raises `msgspec.ValidationError` if its `memory_items` are neither texts nor items.
    """
    task = [as_name(fields.get("task_id")), fields.get("query")]
    steps = [fields.get(key) or [] for key in ("think_list", "action_list")]
    named = name_in_source(fields)
    by_words = named is None and not any(steps)
    if named is not None:
        key = [*task, *named]
        # Other content under the same name is another record: the name is of the batch, not of the run.
        number = numbers.next_unless_equal(key, fields)
    else:
        # The items as they were read, because tools lay their text out anew.
        key = [*task, *parsed_memories(fields.get("memory_items"))] if by_words else [*task, *steps]
        number = numbers.next(*key)
    digest = identity(FORM, *key, number=number)
    run = name_of(str(as_name(fields.get("task_id", "run"))), digest)
    return RunIdentity(digest, run, part_id(digest, "start"), number > 1, by_words)


class _Run:
    """One record as the events of a run."""

    def __init__(self, path: str, record: JsonRecord, numbers: Numbers) -> None:
        self._path, self.record, self._fields = path, record, record.fields
        try:
            self._mark = mark_of(record.fields)
        except BadInput as error:
            raise record.bad(path, str(error)) from None
        self._task = text_field(path, record, "query")
        self._kind: Kind = self._kind_of()
        self._steps = list(zip_longest(self._texts("think_list"), self._texts("action_list")))
        try:
            self._memories, self.stray = parsed_memories(record.fields.get("memory_items"))
        except msgspec.ValidationError as error:
            raise record.bad(path, f"memory_items: {error}") from None
        self.known = self._marked(self._mark) if self._mark else run_identity(record.fields, numbers)
        self.run, self._digest = self.known.run, self.known.digest

    def _marked(self, mark: Mark) -> RunIdentity:
        return RunIdentity(identity(MARK, mark.started), mark.run, mark.started, equal=False, by_words=False)

    @property
    def stray_begins(self) -> str:
        """The beginning of the first text that is no item."""
        return repr(" ".join(self.stray[0].split())[: limits.GIVEN_CHARS])

    def unit(self) -> ImportUnit:
        """Return the record as events."""
        events = tuple(self._events())
        if self._mark:
            events = tuple(replace(event, origin=self._mark.bank) for event in events)
            return ImportUnit(events, record=self.record.name, copy=True)
        judged = frozenset(id for kind in ("success", "failure") for id in self._drawn_ids(kind))
        return ImportUnit(
            events,
            record=self.record.name,
            replaces=frozenset() if self._kind == "contrastive" else frozenset(self._drawn_ids("contrastive")),
            replaced_by=judged if self._kind == "contrastive" else frozenset(),
        )

    def _drawn_ids(self, kind: str) -> tuple[str, str]:
        """Return the ids of what is drawn under a verdict, or without one: with items, and with none."""
        return part_id(self._digest, "drawn", kind, True), part_id(self._digest, "drawn", kind, False)

    def _events(self) -> Iterator[Event]:
        mark = self._mark
        rest = {key: value for key, value in self._fields.items() if key not in READ_FIELDS}
        yield RunStarted(id=self.known.started, run=self.run, task=self._task, extra=_json(rest))
        # The lists differ in length where a model gave a thought without an action, or none.
        for index, (thought, action) in enumerate(self._steps, 1):
            given = mark.steps[index - 1] if mark and index <= len(mark.steps) else None
            event_id = given or part_id(self._digest, "step", index)
            yield StepTaken(id=event_id, run=self.run, index=index, reasoning=thought, code=action)
        if mark is None or mark.finished:
            event_id = mark.finished if mark and mark.finished else part_id(self._digest, "end")
            yield RunFinished(id=event_id, run=self.run, outcome="submitted", extra=_json({"outcome": "unknown"}))
        judgment = self._judged()
        if judgment is not None:
            yield judgment
        yield from self._extracted(judgment)

    def _kind_of(self) -> Kind:
        status = self._fields.get("status")
        if not isinstance(status, str | None) or status not in _KINDS:
            raise self.record.bad(self._path, f"status is {status!r}, expected 'success' or 'fail'")
        return _KINDS[status]

    def _texts(self, key: str) -> list[str | None]:
        value = self._fields.get(key)
        try:
            return msgspec.convert(value, type=list[str | None]) if value is not None else []
        except msgspec.ValidationError as error:
            raise self.record.bad(self._path, f"{key}: {error}") from None

    def _judged(self) -> RunJudged | None:
        if self._kind == "contrastive":
            return None
        given = self._mark.judgment if self._mark else None
        return RunJudged(
            id=given or part_id(self._digest, "judged", self._kind),
            run=self.run,
            purpose="learning",
            verdict=self._kind,
            judge=JUDGE,
            judge_version="unknown",
            kind="lm",
        )

    def _extracted(self, judgment: RunJudged | None) -> Iterator[MemoriesExtracted]:
        items = [Item.make(memory.title, memory.content, self._kind, desc=memory.desc) for memory in self._memories]
        given = self._mark.extractions if self._mark else {}
        if not given:
            event_id = self._drawn_ids(self._kind)[0 if items else 1]
            if items or self.stray or not self._mark:
                yield self._extraction(event_id, items, judgment)
            return
        whole = sum(map(len, given.values())) == len(items)
        for event_id, ids in given.items():
            # Items that were edited since belong to the first, whose words they are compared with.
            own = items[: len(ids)] if whole else items
            named = [replace(item, id=id) for item, id in zip(own, ids, strict=True)] if whole else own
            yield self._extraction(event_id, named, judgment)
            items = items[len(ids) :] if whole else []

    def _extraction(self, event_id: str, items: list[Item], judgment: RunJudged | None) -> MemoriesExtracted:
        return MemoriesExtracted(
            id=event_id,
            kind=self._kind,
            runs=(self.run,),
            relied=(Reliance(run=self.run, verdict=judgment.verdict, judgment=judgment.id),) if judgment else (),
            extractor=EXTRACTOR,
            heads=tuple(item.head for item in items),
            candidates=tuple(item.text for item in items),
            reason="" if items else "memory_items holds no item with a title",
            extra=_json({"stray": "\n".join(self.stray)} if self.stray else {}),
        )


def parsed_memories(value: Any) -> tuple[list[MarkdownMemory], list[str]]:
    """Return the items of `memory_items`, and its texts that are none. Its elements are pieces between blank lines.

    Raises `msgspec.ValidationError` for anything but texts and objects with a title.
    """
    if value is None or isinstance(value, str):
        return parse_memories(value or "")
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        made = [memory_of(each) for each in value]
        none = [canonical(each) for each, memory in zip(value, made, strict=True) if memory is None]
        return [each for each in made if each is not None], none
    return parse_memories("\n\n".join(msgspec.convert(value, type=list[str])))


def _json(value: dict[str, Any]) -> str | None:
    return msgspec.json.encode(value).decode() if value else None


IMPORTER = Importer(
    form=FORM,
    about="a ReasoningBank file (task_id, memory_items)",
    recognise=lambda opening: not {"memory_items", "task_id"}.isdisjoint(opening.fields),
    parse=parse_reasoningbank,
)
