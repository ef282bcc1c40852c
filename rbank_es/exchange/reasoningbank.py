"""ReasoningBank memory files: JSON Lines, one per run, in the three forms that its code writes.

    full      task_id, query, think_list, action_list, status, memory_items (list), template_id
    short     task_id, query, memory_items (list), status
    scaling   task_id, query, memory_items (one string, or a list), no status

Each line becomes run_started, a step_taken per thought and action, run_finished, run_judged where there is a status,
and memories_extracted; the bank's own policy decides about the candidates. The form doesn't have a run's outcome: the
run is recorded as submitted, and `extra` says that this is unknown. Without a status the items count as contrastive,
because the scaling form draws them from several tries of one task. `task_id`, `template_id` and unknown keys are kept
in the `extra` of run_started, stray text of `memory_items` in that of memories_extracted.

`memory_items` is Markdown as models write it: `# Memory Item i`, `## Title`, `## Description`, `## Content`. A value is
on its heading's line or below it. Text before the first item, and items without a title, are stray text: returned,
never guessed at. Code fences round the whole or round an item go; those inside a content stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

import msgspec

from rbank_es.errors import BadImport
from rbank_es.events import Event, MemoriesExtracted, Reliance, RunFinished, RunJudged, RunStarted, StepTaken
from rbank_es.events.derived_ids import derived_id
from rbank_es.events.items import Item
from rbank_es.exchange.importer import Importer, ImportUnit, JsonLine, Parsed, json_lines, name_of, text_field

JUDGE = "reasoningbank"
EXTRACTOR = "reasoningbank"
READ_FIELDS = frozenset({"query", "think_list", "action_list", "status", "memory_items"})
"""Keys that have fields of their own; all others are kept in `extra`."""

Kind = Literal["success", "failure", "contrastive"]
_KINDS: dict[Any, Kind] = {"success": "success", "fail": "failure", None: "contrastive"}


def parse_reasoningbank(path: str, data: bytes) -> Parsed:
    """Parse a memory file into its runs, a unit each. Raises `BadImport` naming the line."""
    digest = sha256(data).digest()
    units = tuple(ImportUnit(tuple(_Run(path, line, digest).events())) for line in json_lines(path, data))
    return Parsed(path=path, form="reasoningbank", units=units, decided=False)


class _Run:
    """One line as the events of a run."""

    def __init__(self, path: str, line: JsonLine, digest: bytes) -> None:
        self._path, self._line, self._digest = path, line, digest
        self._parts = 0
        # With the line's number: the same task may occur twice in a file.
        own = sha256(digest + str(line.number).encode()).digest()
        self.run = name_of(str(line.fields.get("task_id", "run")), own)

    def events(self) -> Iterator[Event]:
        fields = self._line.fields
        kind = self._kind()
        rest = {key: value for key, value in fields.items() if key not in READ_FIELDS}
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
        # The lists differ in length where a model gave a thought without an action, or none.
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
            verdict="success" if success else "failure",
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
            relied=(Reliance(run=self.run, verdict=judgment.verdict, judgment=judgment.id),) if judgment else (),
            extractor=EXTRACTOR,
            heads=tuple(item.head for item in items),
            candidates=tuple(item.text for item in items),
            reason="" if items else "memory_items holds no item with a title",
            extra=_json({"stray": stray} if stray else {}),
        )

    def _memory_text(self) -> str:
        """Return the raw text, whose elements are pieces between blank lines, not items."""
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


_HEADING = re.compile(
    r"#{1,6}[ \t]*\**[ \t]*(?P<name>Memory Item|Title|Description|Content)\b[ \t]*(?P<number>\d*)[ \t]*\**[ \t]*[:：]?"
    r"[ \t]*\**[ \t]*(?P<rest>.*)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"[ \t]*```[\w-]*[ \t]*")


class MarkdownMemory(NamedTuple):
    """One item's words."""

    title: str
    desc: str
    content: str


class _Draft:
    """An unfinished item: the lines of each of its parts."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}

    def text(self, part: str) -> str:
        lines = self.lines.get(part, [])
        kept = _without_outer_fences(lines) if part == "content" else [line for line in lines if not _is_fence(line)]
        return "\n".join(kept).strip()

    def raw(self) -> str:
        return "\n".join(line for lines in self.lines.values() for line in lines).strip()


def parse_memories(text: str) -> tuple[list[MarkdownMemory], str]:
    """Return the items of a text, in order, and the stray text outside of them (without fences)."""
    drafts, before = _drafts(text)
    stray = [line for line in before if not _is_fence(line)]
    found: list[MarkdownMemory] = []
    for draft in drafts:
        # Models also write the title on the heading of the item itself.
        memory = MarkdownMemory(
            draft.text("title") or draft.text("memory item"), draft.text("description"), draft.text("content")
        )
        if memory.title:
            found.append(memory)
        else:
            stray.append(draft.raw())
    return found, "\n".join(stray).strip()


def _drafts(text: str) -> tuple[list[_Draft], list[str]]:
    drafts: list[_Draft] = []
    before: list[str] = []
    here = before
    for line in text.replace("\r\n", "\n").split("\n"):
        heading = _HEADING.fullmatch(line.strip())
        if heading is None:
            here.append(line)
            continue
        part = heading["name"].lower()
        # A second title begins another item, because models leave out the heading of the item.
        if not drafts or part == "memory item" or (part == "title" and "title" in drafts[-1].lines):
            drafts.append(_Draft())
        here = drafts[-1].lines.setdefault(part, [])
        here += [heading["rest"]] if heading["rest"].strip() else []
    return drafts, before


def _is_fence(line: str) -> bool:
    return _FENCE.fullmatch(line) is not None


def _without_outer_fences(lines: list[str]) -> list[str]:
    """Return the lines without empty fences: a pair with no text between, and one without a partner."""
    dropped: set[int] = set()
    opened: int | None = None
    for index, line in enumerate(lines):
        if not _is_fence(line):
            continue
        if opened is None:
            opened = index
        elif line.strip() != "```":  # a fence that names a language opens, so the one before it closed something else
            dropped.add(opened)
            opened = index
        else:
            dropped |= set() if "".join(lines[opened + 1 : index]).strip() else {opened, index}
            opened = None
    return [line for index, line in enumerate(lines) if index not in dropped | {opened}]


def write_memories(items: list[Item]) -> Iterator[str]:
    """Yield the items as ReasoningBank files hold them, one string each."""
    for number, item in enumerate(items, 1):
        yield f"# Memory Item {number}\n## Title {item.title}\n## Description {item.desc}\n## Content {item.content}"


IMPORTER = Importer(
    form="reasoningbank",
    about="a ReasoningBank file (task_id, memory_items)",
    recognise=lambda opening: not {"memory_items", "task_id"}.isdisjoint(opening.fields),
    parse=parse_reasoningbank,
)
