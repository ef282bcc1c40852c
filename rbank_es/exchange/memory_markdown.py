"""Memory items as models write them in text, and as ReasoningBank files hold them.

    # Memory Item 1          headings, in any level that the text keeps
    ## Title …               a value is on the line of its label or below it
    **Title:** …             labels in bold, on lines of their own or all on one
    Title: …                 bare labels
    [{"title": …}]           JSON

A text keeps to the labels with which it begins: in a text with headings, `Title:` in a content is content. A heading in
fenced code is code. Fences round the whole or round an item go; those inside a content stay. A text without a title,
and text outside of items, is stray: returned in pieces, never guessed at and never dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from rbank_es.events.items import Item

# A number belongs to the label of an item, to another label only before a colon: `Title 3 steps` is a title.
_NAMES = r"(?P<name>Memory Item|Title|Description|Content)\b(?:(?<=Item)[ \t]*\d+|[ \t]*\d+(?=[ \t*_]*[:：]))?"
_BULLET = r"(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?"
_STYLES = {
    # Stars behind a label are its own only where there are stars before it.
    "heading": re.compile(
        rf"(?P<mark>#{{1,6}})[ \t]*(?P<bold>\*\*)?[ \t]*{_NAMES}[ \t]*[:：]?(?(bold)[ \t]*\*\*[ \t]*[:：]?)"
        r"[ \t]*(?P<rest>.*)",
        re.I,
    ),
    "bold": re.compile(
        rf"{_BULLET}(?P<mark>\*\*|__){_NAMES}[ \t]*[:：]?[ \t]*(?P=mark)[ \t]*[:：]?[ \t]*(?P<rest>.*)", re.I
    ),
    "bare": re.compile(rf"{_BULLET}(?P<mark>){_NAMES}[ \t]*[:：][ \t]*(?P<rest>.*)", re.I),
}
_INLINE = {
    "heading": re.compile(r"[ \t]+(?=#{1,6}[ \t]*(?:Description|Content)\b)", re.I),
    "bold": re.compile(r"[ \t]+(?=(?:\*\*|__)(?:Description|Content)\b)", re.I),
    "bare": re.compile(r"[ \t]+(?=(?:Description|Content)[ \t]*[:：])", re.I),
}
_ITEM = "memory item"
_FENCE = re.compile(r"[ \t]*(?P<ticks>`{3,}|~{3,})[ \t]*(?P<info>[^`]*?)[ \t]*")
_JSON_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<json>.*)\n```", re.S | re.I)
_ESCAPED = re.compile(r"\\+(?=#)")
_PLAIN_INFO = frozenset({"", "markdown", "md", "text", "txt"})


class MarkdownMemory(NamedTuple):
    """One item's words."""

    title: str
    desc: str
    content: str


class _Label(NamedTuple):
    """A label of a part of an item, and the text behind it."""

    name: str
    mark: str
    rest: str


class _Draft:
    """An unfinished item: the lines of each of its parts."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}

    def text(self, part: str) -> str:
        lines = self.lines.get(part, [])
        return "\n".join(lines if part == "content" else _without_fences(lines)).strip()

    def raw(self) -> str:
        return "\n".join(line for lines in self.lines.values() for line in lines).strip()


def parse_memories(text: str) -> tuple[list[MarkdownMemory], list[str]]:
    """Return the items of a text, in order, and the pieces of stray text."""
    listed = _listed(text)
    if listed is not None:
        return listed, []
    drafts, before = _drafts(text.replace("\r\n", "\n").split("\n"))
    found: list[MarkdownMemory] = []
    stray = ["\n".join(_without_fences(before)).strip()]
    for draft in drafts:
        # Models also write the title on the heading of the item itself.
        title = draft.text("title") or draft.text(_ITEM)
        if title:
            found.append(MarkdownMemory(title, draft.text("description"), draft.text("content")))
        else:
            stray.append(draft.raw())
    return found, [piece for piece in stray if piece]


def _listed(text: str) -> list[MarkdownMemory] | None:
    """Return the items of a text that is JSON, in a fence or not; None where it is none."""
    bare = _JSON_FENCE.fullmatch(text.strip())
    try:
        value = msgspec.json.decode(bare["json"] if bare else text)
    except (msgspec.DecodeError, RecursionError):
        return None
    made = [memory_of(each) for each in (value if isinstance(value, list) else [value])]
    found = [each for each in made if each is not None]
    return found if found and len(found) == len(made) else None


def memory_of(value: Any) -> MarkdownMemory | None:
    """Return the item that a JSON object describes; None where it has no title, or anything but texts."""
    if not isinstance(value, dict):
        return None
    words: list[Any] = [value.get("title"), value.get("description", value.get("desc", "")), value.get("content", "")]
    if not all(isinstance(each, str) for each in words) or not words[0].strip():
        return None
    return MarkdownMemory(*(each.strip() for each in words))


def _drafts(lines: list[str]) -> tuple[list[_Draft], list[str]]:
    style = _style(lines)
    lines = [part for line in lines for part in _split(line, style)]
    levels = _levels(lines, style)
    code, dropped = _fenced(lines, style, levels)
    drafts: list[_Draft] = []
    before: list[str] = []
    here = before
    for index, line in enumerate(lines):
        label = None if index in code else _label(line, style, levels)
        if label is None:
            here += [] if index in dropped else [_unescaped(line)]
            continue
        # A second title begins another item, because models leave out the heading of the item.
        if not drafts or label.name == _ITEM or (label.name == "title" and "title" in drafts[-1].lines):
            drafts.append(_Draft())
        here = drafts[-1].lines.setdefault(label.name, [])
        here += [_unescaped(label.rest)] if label.rest.strip() else []
    return drafts, before


def _style(lines: Iterable[str]) -> str:
    """Return the style of the first title of a text, else of its first label."""
    found = [(label.name != "title", style) for line in lines for style in _STYLES for label in _labels([line], style)]
    return min(found, key=lambda each: each[0])[1] if found else "heading"


def _labels(lines: Iterable[str], style: str) -> Iterator[_Label]:
    """Yield the labels of parts in a style, wherever they are."""
    for line in lines:
        label = _label(line, style, None)
        if label is not None and label.name != _ITEM:
            yield label


def _levels(lines: Iterable[str], style: str) -> dict[str, str]:
    """Return the mark (such as `##`) with which each label first occurs."""
    levels: dict[str, str] = {}
    for label in _labels(lines, style):
        levels.setdefault(label.name, label.mark)
    return levels


def _label(line: str, style: str, levels: dict[str, str] | None) -> _Label | None:
    """Return the label with which a line begins. That of an item may have another style than those of its parts."""
    for each in (style, "heading", "bold"):
        found = _STYLES[each].fullmatch(line.strip())
        # Four spaces begin code, but for the inner points of a list.
        if found is None or (each != "bold" and line.expandtabs(4).startswith("    ")):
            continue
        name = found["name"].lower()
        if name == _ITEM or (each == style and (levels is None or levels.get(name) == found["mark"])):
            return _Label(name, found["mark"], found["rest"])
    return None


def _split(line: str, style: str) -> list[str]:
    """Return a line whose title is followed by the other labels as a line for each; a fence behind a label too."""
    label = _label(line, style, None)
    if label is not None and _FENCE.fullmatch(label.rest):
        return [line.removesuffix(label.rest), label.rest]
    return _INLINE[style].split(line) if label is not None and label.name == "title" else [line]


# ---------------------------------------------------------------- fences


def _fenced(lines: Sequence[str], style: str, levels: dict[str, str]) -> tuple[set[int], set[int]]:
    """Return the lines that are code or its fences, and the fences that are dropped: wrappers, empty and lone ones."""
    code: set[int] = set()
    dropped: set[int] = set()
    index = 0
    while index < len(lines):
        fence = _FENCE.fullmatch(lines[index])
        if fence is None:
            index += 1
            continue
        end = _closing(lines, index)
        inside, info = lines[index + 1 : end], fence["info"].lower()
        if _holds_items(inside, style, levels, info) or (end is None and info in _PLAIN_INFO):
            dropped.add(index)
            index += 1
        elif end is None:  # the text was cut inside of code
            code |= set(range(index, len(lines)))
            break
        else:
            if "".join(inside).strip():
                code |= set(range(index, end + 1))
            else:
                dropped |= {index, end}
            index = end + 1
    return code, dropped


def _closing(lines: Sequence[str], opened: int) -> int | None:
    """Return the line that closes the fence opened at one; fences that name a language nest."""
    ticks: list[str] = []
    for index in range(opened, len(lines)):
        fence = _FENCE.fullmatch(lines[index])
        if fence is None:
            continue
        if index == opened or fence["info"]:
            ticks.append(fence["ticks"])
        elif fence["ticks"].startswith(ticks[-1]):
            ticks.pop()
            if not ticks:
                return index
    return None


def _holds_items(inside: Sequence[str], style: str, levels: dict[str, str], info: str) -> bool:
    """Return whether a fence goes round items: it has the heading and the title of one, or begins with either of them
    in no language and has a content."""
    found = [_label(line, style, levels) for line in inside if line.strip()]
    names = [label.name for label in found if label is not None]
    if any(pair == (_ITEM, "title") for pair in pairwise(names)):
        return True
    begins = bool(found) and found[0] is not None and found[0].name in (_ITEM, "title")
    return info in _PLAIN_INFO and begins and "content" in names


def _without_fences(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if _FENCE.fullmatch(line) is None]


# ---------------------------------------------------------------- writing


def write_memories(items: Iterable[Item]) -> Iterator[str]:
    """Yield the items as ReasoningBank files hold them, one string each. What a content has of headings is escaped."""
    for number, item in enumerate(items, 1):
        first, *more = map(_escaped, item.content.split("\n"))
        # A fence counts at the beginning of a line only.
        content = "\n".join([f"\n{first}" if _FENCE.fullmatch(first) else f" {first}", *more])
        yield f"# Memory Item {number}\n## Title {item.title}\n## Description {item.desc}\n## Content{content}"


def _escaped(line: str) -> str:
    bare = line.lstrip("\\ \t")
    code = line.expandtabs(4).startswith("    ")
    return "\\" + line.lstrip() if not code and _STYLES["heading"].fullmatch(bare.strip()) else line


def _unescaped(line: str) -> str:
    found = _ESCAPED.match(line)
    return line[1:] if found and _STYLES["heading"].fullmatch(line[found.end() :].strip()) else line
