"""What people changed in exported files, and files that hold both their words and what the bank says now. Pure.

A line that is as it was written is the bank's; any other is a person's, and stays behind the line that it stood behind.
A line of the bank that a person removed stays out. A person's version of a lesson that left the bank is marked as such.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rbank_es.agents.skill_files import FRONT_END
from rbank_es.agents.skill_lines import ITEM, SkillLine, digest_of
from rbank_es.agents.skill_manifest import ManifestFile
from rbank_es.events.items import Polarity

_MARK = "mark"
_FRONT, _HEADING = "front:", "heading:"
_YAML_KEY = re.compile(r"([A-Za-z-]+):")
_BULLET = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[(?P<id>[^\]\s]{1,200})\]\s*)?")


class OwnLine(NamedTuple):
    """A line of a person's, with its number in the file."""

    number: int
    text: str


class OwnBlock(NamedTuple):
    """Lines of a person's, one below the other, and the keys of the bank's lines above them, in order."""

    above: tuple[str, ...]
    lines: tuple[OwnLine, ...]

    @property
    def in_front(self) -> bool:
        """Whether they stand in the front matter."""
        return f"{_FRONT}begin" in self.above and FRONT_END not in self.above

    @property
    def polarity(self) -> Polarity:
        """The polarity of the heading above them; success without one."""
        headings = [key for key in self.above if key.startswith(_HEADING)]
        return "failure" if headings and headings[-1] == f"{_HEADING}failure" else "success"


class Own(NamedTuple):
    """A piece of a person's words: a bullet, a paragraph, a heading or a line of the front matter.

    `item` is the id that it begins with, if any. `offered`: it can become an item.
    """

    path: str
    number: int
    text: str
    item: str | None
    polarity: Polarity
    offered: bool

    @property
    def digest(self) -> str:
        """The digest by which the piece is known again."""
        return digest_of(self.text)

    @property
    def words(self) -> str:
        """The words on one line, without a bullet and an id."""
        return " ".join(_BULLET.sub("", self.text, count=1).split())


class ReadFile(NamedTuple):
    """A file against how it was written: a person's lines, and the keys of the bank's that are there or missing."""

    blocks: tuple[OwnBlock, ...]
    seen: frozenset[str]
    missing: frozenset[str]

    def own_bytes(self) -> int:
        """Return the size of a person's lines."""
        return sum(len(line.text.encode()) + 1 for block in self.blocks for line in block.lines)


def lines_of(text: str) -> list[str]:
    """Return the lines of a file, whatever its line ends are."""
    return (
        [line.removesuffix("\r") for line in text.removeprefix("\ufeff").removesuffix("\n").split("\n")] if text else []
    )


def item_digests(files: Iterable[ManifestFile]) -> dict[str, str]:
    """Return the key of each item's line in any file by its digest: a line that was moved is still the bank's."""
    return {line.digest: line.key for file in files for line in file.lines if line.items}


def read_file(text: str, bases: Sequence[ManifestFile], anywhere: Mapping[str, str]) -> ReadFile:
    """Return what a person changed in a file. `bases` are the ways in which it may have been written."""
    exact = [base for base in bases if base.digest == digest_of(text)]
    bases = exact[:1] or bases
    written: dict[str, list[str]] = {}
    for base in bases:
        for each in base.lines:
            keys = written.setdefault(each.digest, [])
            if each.key not in keys:
                keys.append(each.key)
    above, blocks, run, seen = list[str](), list[OwnBlock](), list[OwnLine](), set[str]()
    for number, line in enumerate(lines_of(text), 1):
        digest = digest_of(line)
        keys = written.get(digest, [])
        if keys and keys[0].startswith(_MARK):
            continue  # made again above the line that it is about, whose block it must not part
        if line.strip() and (keys or digest in anywhere):
            _close(run, above, blocks)
            key = next((each for each in keys if each not in seen), keys[-1] if keys else anywhere[digest])
            seen.add(key)
            above += [key] if keys else []
        else:
            run.append(OwnLine(number, line))
    _close(run, above, blocks)
    common = set.intersection(*({line.key for line in base.lines} for base in bases)) if bases else set()
    return ReadFile(tuple(blocks), frozenset(seen), frozenset(common - seen))


def _close(run: list[OwnLine], above: list[str], blocks: list[OwnBlock]) -> None:
    """Add the lines of a run as a block, without blank ones below, unless they are all blank."""
    while run and not run[-1].text.strip():
        run.pop()
    if run:
        blocks.append(OwnBlock(tuple(above), tuple(run)))
    run.clear()


def own_of(path: str, file: ReadFile) -> Iterator[Own]:
    """Yield a person's words in a file, piece by piece."""
    for block in file.blocks:
        piece: list[OwnLine] = []
        for line in (*block.lines, OwnLine(0, "")):
            begins = not line.text.strip() or line.text.startswith("#") or _BULLET.match(line.text) or block.in_front
            if piece and (begins or piece[-1].text.startswith("#")):
                yield _own(path, block, piece)
                piece = []
            piece += [line] if line.text.strip() else []


def _own(path: str, block: OwnBlock, piece: Sequence[OwnLine]) -> Own:
    found = _BULLET.match(piece[0].text)
    item = found["id"] if found else None
    offered = not block.in_front and not piece[0].text.startswith(("#", "<!--", "```", "~~~"))
    text = "\n".join(line.text for line in piece)
    return Own(path, piece[0].number, text, item, block.polarity, offered)


def merged(
    wanted: Sequence[SkillLine],
    file: ReadFile,
    taken_out: Collection[str],
    standing: Collection[str],
    dropped: Collection[tuple[int, str]] = (),
) -> list[SkillLine]:
    """Return the lines of a file: what the bank says, without what a person took out, with a person's lines in place.

    `taken_out` are keys, `standing` the ids of the active items; `dropped` are the number and text of a person's lines
    that are left out, because they are in the bank now.
    """
    theirs = {
        f"{_FRONT}{found[1]}"
        for block in file.blocks
        if block.in_front
        for line in block.lines
        if (found := _YAML_KEY.match(line.text))
    }
    bank = [line for line in wanted if line.key not in theirs and line.key not in taken_out]
    places = {line.key: number for number, line in enumerate(bank) if line.key}
    # Above everything, but behind the front matter, which must begin a file.
    first = places.get(FRONT_END, -1)
    behind: dict[int, list[SkillLine]] = {}
    for block in file.blocks:
        at = next((places[key] for key in reversed(block.above) if key in places), first)
        kept = [line for line in block.lines if (line.number, line.text) not in dropped]
        if any(line.text.strip() for line in kept):
            behind.setdefault(at, []).extend(_marked(kept, standing))
    made = list(behind.get(-1, ()))
    for number, line in enumerate(bank):
        made += (line, *behind.get(number, ()))
    return made


def _marked(lines: Iterable[OwnLine], standing: Collection[str]) -> Iterator[SkillLine]:
    for line in lines:
        found = _BULLET.match(line.text)
        if found and found["id"] and found["id"] not in standing:
            text = f"<!-- rbank-es: [{found['id']}] is not active in the bank; the next line is a person's -->"
            yield SkillLine(text, f"{_MARK}:{found['id']}")
        yield SkillLine(line.text)


def scoped(path: str, key: str) -> str:
    """Return a key as it is in a manifest: that of an item's line is the same in all files of a place."""
    return key if key.startswith(ITEM) else f"{path}#{key}"


def can_be_taken_out(key: str) -> bool:
    """Return whether a line may be missing: not one of the front matter, a marker of the block, or a mark."""
    return not key.startswith((_FRONT, _MARK)) and key not in ("begin", "end")
