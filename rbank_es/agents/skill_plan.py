"""What a place is to hold: the files as they are and as they were written, against what the bank says now. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

from rbank_es.agents.skill_files import PLUGIN, SKILL, Files, front_matter
from rbank_es.agents.skill_lines import ITEM, SkillLine, digest_of
from rbank_es.agents.skill_manifest import Manifest, ManifestFile, text_of, written_file
from rbank_es.agents.skill_merge import (
    Own,
    ReadFile,
    can_be_taken_out,
    item_digests,
    lines_of,
    merged,
    own_of,
    read_file,
    scoped,
)
from rbank_es.errors import BadInput

Change = Literal["added", "changed", "removed", "same", "kept"]
_NOTHING = ReadFile((), frozenset(), frozenset())
_KEPT = "A person's own words, which stood beside lessons that are not here any more."


class PlannedFile(NamedTuple):
    """A file as it is and is to be; None: it is not there. `kept`: it is left as it is, whatever the bank says."""

    path: str
    change: Change
    before: str | None
    after: str | None
    written: ManifestFile | None


class PlacePlan(NamedTuple):
    """All files of a place, a person's words in them, and the keys of the lines that a person took out."""

    files: tuple[PlannedFile, ...]
    own: tuple[Own, ...]
    taken_out: tuple[str, ...]

    @property
    def written(self) -> tuple[ManifestFile, ...]:
        """The entries of the files that are there afterwards."""
        return tuple(file.written for file in self.files if file.written is not None)


class ReadPlace(NamedTuple):
    """The files of a place as they are (None: missing), with what people changed. `odd` are those that are no text."""

    manifest: Manifest
    texts: Mapping[str, str | None]
    files: Mapping[str, ReadFile]
    odd: frozenset[str]

    @classmethod
    def of(cls, manifest: Manifest, found: Mapping[str, bytes | None]) -> ReadPlace:
        """Return what is in the files of a place that a manifest names, or that are to be written."""
        texts, odd = dict[str, str | None](), set[str]()
        for path, data in found.items():
            try:
                texts[path] = None if data is None else data.decode()
            except UnicodeDecodeError:
                odd.add(path)
        bases = manifest.bases()
        anywhere = item_digests((*manifest.files, *manifest.before))
        files = {
            path: read_file(text, bases[path], anywhere)
            for path, text in texts.items()
            if text is not None and path in bases and not _is_whole(path)
        }
        return cls(manifest, texts, files, frozenset(odd))

    @property
    def own(self) -> tuple[Own, ...]:
        """All words of a person, in order."""
        return tuple(own for path, file in sorted(self.files.items()) for own in own_of(path, file))


def _is_whole(path: str) -> bool:
    """Return whether a file is a person's as a whole once it was edited: lines of JSON can't be merged."""
    return path == PLUGIN


def plan(
    read: ReadPlace, wanted: Files, standing: Collection[str], *, fresh: bool, adopted: Collection[str] = ()
) -> PlacePlan:
    """Return what a place is to hold.

    `standing` are the ids of all active items; `adopted` are the digests of a person's words that are in the bank now.
    With `fresh`, lines that a person took out come back. Raises `BadInput` for a file that is somebody else's.
    """
    taken_out = frozenset() if fresh else _taken_out(read, wanted, standing)
    dropped = {
        (number, line)
        for own in read.own
        if own.digest in adopted
        for number, line in enumerate(own.text.split("\n"), own.number)
    }
    files = list[PlannedFile | None]()
    for path in sorted({*wanted, *read.texts, *read.odd}):
        if path in read.odd or (_is_whole(path) and _edited(read, path)):
            files.append(_left_alone(read, path))
            continue
        _check_ours(read, path, wanted)
        out = {key for key in (line.key for line in wanted.get(path, ())) if scoped(path, key) in taken_out}
        file = read.files.get(path, _NOTHING)
        lines = merged(wanted.get(path) or _rest(path), file, out, standing, dropped)
        files.append(_planned(path, read.texts.get(path), lines if path in wanted or _has_own(lines) else None))
    return PlacePlan(tuple(each for each in files if each), tuple(read.own), tuple(sorted(taken_out)))


def _taken_out(read: ReadPlace, wanted: Files, standing: Collection[str]) -> frozenset[str]:
    seen = {key for file in read.files.values() for key in file.seen}
    missing = {
        scoped(path, key)
        for path, file in read.files.items()
        for key in file.missing
        # A line of an item that stands in another file was moved by a person.
        if can_be_taken_out(key) and not (key.startswith(ITEM) and key in seen)
    }
    kept = {scoped(path, line.key) for path, lines in wanted.items() for line in lines}
    return frozenset(
        key
        for key in (*read.manifest.taken_out, *missing)
        if (key.removeprefix(ITEM) in standing if key.startswith(ITEM) else key in kept)
    )


def _edited(read: ReadPlace, path: str) -> bool:
    text, bases = read.texts.get(path), read.manifest.bases().get(path, [])
    # An entry without lines is of a file that was found edited before.
    return text is not None and bool(bases) and digest_of(text) not in {each.digest for each in bases if each.lines}


def _left_alone(read: ReadPlace, path: str) -> PlannedFile:
    text = read.texts.get(path)
    entry = ManifestFile(path=path, digest="" if text is None else digest_of(text), lines=())
    return PlannedFile(path, "kept", text, text, entry)


def _check_ours(read: ReadPlace, path: str, wanted: Files) -> None:
    text = read.texts.get(path)
    if text is None or path in read.manifest.bases() or text == text_of(wanted[path]):
        return
    what = "has lessons of another bank or export" if read.manifest.form == "agents-md" else "is there already"
    raise BadInput(
        f"{path} {what}, and no manifest here says that this export wrote it; remove it, or name another folder"
    )


def _rest(path: str) -> list[SkillLine]:
    """Return the frame of a file that has a person's words and no lessons any more."""
    folders, _, name = path.rpartition("/")
    if name != SKILL:
        return []
    return [*front_matter(folders.rpartition("/")[2], _KEPT), SkillLine("# A person's own words", "title")]


def _has_own(lines: list[SkillLine]) -> bool:
    return any(not line.key and line.text.strip() for line in lines)


def _planned(path: str, before: str | None, lines: list[SkillLine] | None) -> PlannedFile | None:
    if lines is None:
        return None if before is None else PlannedFile(path, "removed", before, None, None)
    after = text_of(lines)
    change: Change = "added" if before is None else "same" if before == after else "changed"
    return PlannedFile(path, change, before, after, written_file(path, lines))


def difference_of(file: PlannedFile) -> str:
    """Return the lines that change in a file, as a unified difference; empty if none does."""
    from difflib import unified_diff

    before, after = (lines_of(text or "") for text in (file.before, file.after))
    return "\n".join(unified_diff(before, after, file.path, file.path, "now", "then", n=1, lineterm=""))
