"""Memory items as models write them: Markdown with `# Memory Item i`, `## Title`, `## Description`, `## Content`.

A value stands on its heading's line or below it. Whatever stands before the first item, and items without a title, are
stray text: returned, never guessed at. Code fences round the whole or round an item go; those inside a content stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rbank_es.events.items import Item

_HEADING = re.compile(
    r"#{1,6}[ \t]*\**[ \t]*(?P<name>Memory Item|Title|Description|Content)\b[ \t]*(?P<number>\d*)[ \t]*\**[ \t]*[:：]?"
    r"[ \t]*\**[ \t]*(?P<rest>.*)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"[ \t]*```[\w-]*[ \t]*")


class Memory(NamedTuple):
    """One item's words as they were found."""

    title: str
    desc: str
    content: str


class _Draft:
    """An item while it is being read: the lines of each of its parts."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}

    def text(self, part: str) -> str:
        lines = self.lines.get(part, [])
        kept = _without_outer_fences(lines) if part == "content" else [line for line in lines if not _is_fence(line)]
        return "\n".join(kept).strip()

    def raw(self) -> str:
        return "\n".join(line for lines in self.lines.values() for line in lines).strip()


def parse_memories(text: str) -> tuple[list[Memory], str]:
    """The items of a text, in order, and what stands outside of them (fences left out)."""
    drafts, before = _drafts(text)
    stray = [line for line in before if not _is_fence(line)]
    found: list[Memory] = []
    for draft in drafts:
        memory = Memory(
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
        if not drafts or part == "memory item" or (part == "title" and "title" in drafts[-1].lines):
            drafts.append(_Draft())
        here = drafts[-1].lines.setdefault(part, [])
        here += [heading["rest"]] if heading["rest"].strip() else []
    return drafts, before


def _is_fence(line: str) -> bool:
    return _FENCE.fullmatch(line) is not None


def _without_outer_fences(lines: list[str]) -> list[str]:
    """The lines without the fences that hold nothing: a pair with no text between, and one that has no partner."""
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
    """The items as ReasoningBank files hold them, one string each."""
    for number, item in enumerate(items, 1):
        yield f"# Memory Item {number}\n## Title {item.title}\n## Description {item.desc}\n## Content {item.content}"
