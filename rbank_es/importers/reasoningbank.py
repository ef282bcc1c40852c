"""ReasoningBank memory files: JSON Lines, one per run, in the three forms that its code writes.

    full      task_id, query, think_list, action_list, status, memory_items (list), template_id
    short     task_id, query, memory_items (list), status
    scaling   task_id, query, memory_items (one string, or a list), no status

Each line becomes run_started, a step_taken per thought and action, run_finished, run_judged where there is a status,
and memories_extracted; what becomes of the candidates is decided by the bank's own policy. The form does not tell how
a run ended: it is recorded as submitted, and `extra` says that this is not known. Without a status the items count as
contrastive: the scaling form draws them from several tries of one task. `task_id`, `template_id` and keys that the
form doesn't have are kept in the `extra` of run_started, stray text of `memory_items` in that of memories_extracted.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import zip_longest
from typing import Any, Literal

import msgspec

from rbank_es.errors import BadImport
from rbank_es.events import Event, MemoriesExtracted, RunFinished, RunJudged, RunStarted, StepTaken
from rbank_es.events.items import Item
from rbank_es.importers.memory_markdown import parse_memories
from rbank_es.importers.units import Line, Parsed, Unit, json_lines, name_of, text_field
from rbank_es.log.groups import derived_id

JUDGE = "reasoningbank"
EXTRACTOR = "reasoningbank"
TOLD = frozenset({"query", "think_list", "action_list", "status", "memory_items"})
"""Keys that have fields of their own; all others are kept as they are."""

Kind = Literal["success", "failure", "contrastive"]
_KINDS: dict[Any, Kind] = {"success": "success", "fail": "failure", None: "contrastive"}


def parse_reasoningbank(path: str, data: bytes) -> Parsed:
    """The runs of a memory file, a unit each. Raises `BadImport` naming the line."""
    digest = sha256(data).digest()
    units = tuple(Unit(tuple(_Run(path, line, digest).events())) for line in json_lines(path, data))
    return Parsed(path=path, form="reasoningbank", units=units, decided=False)


class _Run:
    """One line as the events of a run."""

    def __init__(self, path: str, line: Line, digest: bytes) -> None:
        self._path, self._line, self._digest = path, line, digest
        self._parts = 0
        own = sha256(digest + str(line.number).encode()).digest()
        self.run = name_of(str(line.fields.get("task_id", "run")), own)

    def events(self) -> Iterator[Event]:
        fields = self._line.fields
        kind = self._kind()
        rest = {key: value for key, value in fields.items() if key not in TOLD}
        task = text_field(self._path, self._line, "query")
        yield RunStarted(id=self._id(), run=self.run, task=task, extra=_json(rest))
        yield from self._steps()
        yield RunFinished(id=self._id(), run=self.run, outcome="submitted", extra=_json({"outcome": "unknown"}))
        judgment = None
        if kind != "contrastive":
            judgment = self._judged(kind == "success")
            yield judgment
        yield self._extracted(kind, judgment)

    def _id(self) -> str:
        self._parts += 1
        return derived_id(self._digest, self._line.number, self._parts)

    def _bad(self, reason: str) -> BadImport:
        return BadImport(self._path, reason, line=self._line.number)

    def _kind(self) -> Kind:
        status = self._line.fields.get("status")
        if not isinstance(status, str | None) or status not in _KINDS:
            raise self._bad(f"status is {status!r}, expected 'success' or 'fail'")
        return _KINDS[status]

    def _steps(self) -> Iterator[StepTaken]:
        thoughts, actions = self._texts("think_list"), self._texts("action_list")
        for index, (thought, action) in enumerate(zip_longest(thoughts, actions), 1):
            yield StepTaken(id=self._id(), run=self.run, index=index, reasoning=thought, code=action)

    def _texts(self, key: str) -> list[str | None]:
        value = self._line.fields.get(key)
        try:
            return msgspec.convert(value, type=list[str | None]) if value is not None else []
        except msgspec.ValidationError as error:
            raise self._bad(f"{key}: {error}") from None

    def _judged(self, success: bool) -> RunJudged:
        return RunJudged(
            id=self._id(),
            run=self.run,
            purpose="learning",
            success=success,
            judge=JUDGE,
            judge_version="unknown",
            kind="lm",
        )

    def _extracted(self, kind: Kind, judgment: RunJudged | None) -> MemoriesExtracted:
        memories, stray = parse_memories(self._memory_text())
        items = [Item.make(memory.title, memory.content, kind, desc=memory.desc) for memory in memories]
        return MemoriesExtracted(
            id=self._id(),
            kind=kind,
            runs=(self.run,),
            judgment=judgment.id if judgment else None,
            extractor=EXTRACTOR,
            heads=tuple(item.head for item in items),
            candidates=tuple(item.text for item in items),
            reason="" if items else "memory_items holds no item with a title",
            extra=_json({"stray": stray} if stray else {}),
        )

    def _memory_text(self) -> str:
        """The raw text: its elements are pieces between blank lines, not items."""
        value = self._line.fields.get("memory_items")
        if value is None:
            return ""
        try:
            pieces = [value] if isinstance(value, str) else msgspec.convert(value, type=list[str])
        except msgspec.ValidationError as error:
            raise self._bad(f"memory_items: {error}") from None
        return "\n\n".join(pieces)


def _json(value: dict[str, Any]) -> str | None:
    return msgspec.json.encode(value).decode() if value else None
