"""Erasure: finding every place where a text stands, and rewriting the segments without it.

What stays are facts, lengths, and salted commitments; the digest chain is made of those, so heads noted before still
verify. The order of steps makes it safe to crash at any instant: a durable marker first, so that the next writer
finds it and does all of it again; every step may be done twice.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, LogCorruption
from rbank_es.events import ContentErased, ErasedUnit
from rbank_es.events.event import Event, Ref
from rbank_es.log.file import lines
from rbank_es.log.file.long_texts import Texts
from rbank_es.log.file.reader import Reader, opened
from rbank_es.log.file.segments import Segment, all_segments, blocks, read_opened, read_sealed, segment_of
from rbank_es.log.file.system_calls import System
from rbank_es.log.protocol import Erasing, Erasure, Place

MARKER = "ERASING"
_DEPTH = 4
"""How often JSON may stand inside a string of JSON: a tool's JSON in a message in a request is twice."""

_UNITS_PER_EVENT = 2_000
_TEXT: msgspec.json.Decoder[lines.TextLine] = msgspec.json.Decoder(lines.TextLine)


class _Facts(msgspec.Struct):
    """What is read of the facts of a line."""

    run: str | None = None


_FACTS: msgspec.json.Decoder[_Facts] = msgspec.json.Decoder(_Facts)
_REF: msgspec.json.Decoder[Ref] = msgspec.json.Decoder(Ref)


class Found(NamedTuple):
    """A text inside an event that is to be erased, with its commitment."""

    place: Place
    digest: str


class Plan(NamedTuple):
    """All that is to be erased, and how to tell people."""

    found: tuple[Found, ...]
    erasure: Erasure


class Job(msgspec.Struct, frozen=True):
    """The durable marker of an erasure under way: the events that record it. It holds commitments, no text."""

    records: tuple[msgspec.Raw, ...]

    @classmethod
    def of(cls, events: Iterable[Event]) -> Job:
        """The job that these events record."""
        return cls(tuple(msgspec.Raw(msgspec.json.encode(event)) for event in events))

    @classmethod
    def read(cls, path: Path) -> Job | None:
        """The job that a marker holds; None if there is no marker any more."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return None

    def events(self) -> list[ContentErased]:
        """The events that record the erasure."""
        return [msgspec.json.decode(record, type=ContentErased) for record in self.records]


def plan(directory: Path, reader: Reader, texts: Texts, what: Erasing, said: str) -> Plan:
    """Find what is named, and everything that holds the same words. Changes nothing.

    `said` is all that the record of it will say. Raises `BadInput` for words too short to look for, or a record that
    holds them.
    """
    for given in what.words:
        if len(given) < limits.NEEDLE_CHARS:
            raise BadInput(
                f"{given!r} has {len(given)} characters; texts under {limits.NEEDLE_CHARS} stand everywhere, "
                "so erase the events instead (--event)"
            )
    search = _Search(directory, reader, texts)
    named = set(search.name(what))
    shared = search.leave_to_others(what.run, named) if what.run is not None else set()
    words = {*named, *what.words} - shared
    needles = sorted(text for text in words if len(text) >= limits.NEEDLE_CHARS)
    forms = {pattern for needle in needles for pattern in patterns(needle)}
    if any(needle in said for needle in needles) or any(form in said.encode() for form in forms):
        raise BadInput("the reason, or who asked, holds the text that is to be erased; put it in other words")
    search.sweep(forms)
    search.follow_handles()
    found = tuple(sorted(search.found.values(), key=lambda entry: (entry.place.seq, entry.place.path)))
    places = tuple(entry.place for entry in found)
    erasure = Erasure(
        places,
        tuple(sorted(search.keys)),
        tuple(sorted(search.facts)),
        short=sum(0 < len(text) < limits.NEEDLE_CHARS for text in words),
        dry_run=True,
        shared=len(shared),
    )
    return Plan(found, erasure)


def patterns(text: str) -> set[bytes]:
    """How a text looks inside a line: as a JSON string, and as one inside JSON inside a string, `_DEPTH` times over."""
    forms, inner = {_escaped(text)}, {text}
    for _ in range(_DEPTH):
        inner = {form(part) for part in inner for form in (_escaped, _ascii)}
        forms |= {_escaped(part) for part in inner}
    return {form.encode() for form in forms}


def _escaped(text: str) -> str:
    return msgspec.json.encode(text)[1:-1].decode()


def _ascii(text: str) -> str:
    import json  # an append loads this module, and needs neither this nor shutil

    return json.dumps(text)[1:-1]


@contextmanager
def _mapped(segment: Segment) -> Iterator[mmap.mmap]:
    with opened(segment.path) as fd, mmap.mmap(fd, 0, prot=mmap.PROT_READ) as whole:
        yield whole


class _Search:
    """What has been found so far."""

    def __init__(self, directory: Path, reader: Reader, texts: Texts) -> None:
        self._segments, self._reader, self._texts = all_segments(directory), reader, texts
        self.found: dict[tuple[int, str], Found] = {}
        self.keys: dict[str, Segment] = {}
        self._said: dict[str, set[str]] = {}
        """The words of the texts stored apart that were named, by key."""
        self.facts: set[int] = set()

    def name(self, what: Erasing) -> list[str]:
        """Take in the events and texts that were named; returns their words."""
        wanted: dict[int, set[str] | None] = {seq: None for seq in what.events}
        for seq, path in what.paths:
            chosen = wanted.setdefault(seq, set())
            if chosen is not None:
                chosen.add(path)
        words: list[str] = []
        for seq in sorted(wanted):
            found = self._reader.line_at(seq)
            if found is not None:
                words += self._name_units(found[2], found[0], wanted[seq])
        return words

    def _name_units(self, line: bytes, segment: Segment, paths: set[str] | None) -> list[str]:
        words: list[str] = []
        for unit in lines.split(line)[2]:
            if (paths is None or unit.path in paths) and not unit.raw.startswith(lines.ERASED):
                said = self._words(unit.raw, segment)
                if unit.raw.startswith(lines.REF):
                    self._said.setdefault(_key_of(unit.raw), set()).update(said)
                words += said
                self._take(line, unit, segment, named=True)
        return words

    def _words(self, raw: bytes, segment: Segment) -> list[str]:
        value: Any = msgspec.json.decode(raw)
        if raw.startswith(lines.REF):
            text = self._texts.read(msgspec.convert(value, Ref), segment)
            value = msgspec.json.decode(text) if text and value["dtype"] == "item" else text
        if isinstance(value, dict):
            return [str(value.get(name) or "") for name in ("title", "desc", "content")]
        return [value] if isinstance(value, str) else []

    def leave_to_others(self, run: str, words: Collection[str]) -> set[str]:
        """Which of these words are the whole of a text of another run too, and so are not this run's alone.

        Where such a text is stored apart, and events that were not named share it, it is no more taken.
        """
        wanted = {text for text in words if len(text) >= limits.NEEDLE_CHARS}
        shared = {text for segment in self._segments for text in self._said_by_others(segment, run, wanted)}
        for key, segment in list(self.keys.items()):
            if self._said[key] & wanted <= shared and self._is_named_elsewhere(key, segment):
                del self.keys[key]
        return shared

    def _said_by_others(self, segment: Segment, run: str, wanted: Collection[str]) -> Iterator[str]:
        """Those of the wanted words that events of other runs have as whole texts, in one segment."""
        sizes = {len(text) for text in wanted}
        for line in self._lines(segment, b'"run":"'):
            if line.startswith(lines.ANY_TEXT) or not lines.is_intact(line, self._reader.seed):
                continue  # the sweep says so where a damaged line matters
            facts, _, units = lines.split(line)
            if _run_of(facts) not in (None, run):
                for unit in units:
                    if not unit.raw.startswith(lines.REF) or _fits(unit.raw, sizes):
                        yield from (text for text in self._words(unit.raw, segment) if text in wanted)

    def _is_named_elsewhere(self, key: str, segment: Segment) -> bool:
        """Whether a text that was not named is a handle to this one."""
        return any(
            unit.raw.startswith(lines.REF)
            and key.encode() in unit.raw
            and (lines.seq_of(line), unit.path) not in self.found
            for line in self._lines(segment, _handle(key))
            for unit in lines.split(line)[2]
        )

    def _lines(self, segment: Segment, needle: bytes) -> Iterator[bytes]:
        with _mapped(segment) as whole:
            end = self._reader.tail(segment).offset if segment == self._segments[-1] else len(whole)
            yield from (line for _, line in _lines_with(whole, needle, end))

    def _take(self, line: bytes, unit: lines.Unit, segment: Segment, *, named: bool) -> None:
        seq = lines.seq_of(line)
        if unit.raw.startswith(lines.REF):
            self.keys[_key_of(unit.raw)] = segment
        if (seq, unit.path) not in self.found:
            facts, salt, _ = lines.split(line)
            type_ = line[9 : line.find(b'"', 9)].decode()
            place = Place(seq, unit.path, type_, named, _run_of(facts))
            self.found[seq, unit.path] = Found(place, lines.commitment(salt, unit))

    def sweep(self, needles: set[bytes]) -> None:
        """Take in every text that holds one of the needles. Raises `LogCorruption` for one in a damaged line."""
        for segment in self._segments:
            last = segment == self._segments[-1]
            with _mapped(segment) as whole:
                end = self._reader.tail(segment).offset if last else len(whole)
                for needle in needles:
                    for at, line in _lines_with(whole, needle, end):
                        if not lines.is_intact(line, self._reader.seed):
                            raise LogCorruption(segment.name, 0, at, "a damaged line holds what is to be erased")
                        self._sweep_line(line, needle, segment)

    def _sweep_line(self, line: bytes, needle: bytes, segment: Segment) -> None:
        if line.startswith(lines.TEXT):
            if needle in bytes(_TEXT.decode(line).text):
                self.keys[lines.key_of_text(line)] = segment
        elif not line.startswith((lines.ANY_TEXT, lines.SEGMENT)):
            facts, _, units = lines.split(line)
            if needle in facts:
                self.facts.add(lines.seq_of(line))
            for unit in units:
                if needle in unit.raw and not unit.raw.startswith(lines.ERASED):
                    self._take(line, unit, segment, named=False)

    def follow_handles(self) -> None:
        """Take in every text that is a handle to one that goes."""
        for key, segment in list(self.keys.items()):
            with _mapped(segment) as whole:
                for _, line in _lines_with(whole, _handle(key), len(whole)):
                    for unit in lines.split(line)[2]:
                        if unit.raw.startswith(lines.REF) and key.encode() in unit.raw:
                            self._take(line, unit, segment, named=False)


def _run_of(facts: bytes) -> str | None:
    return _FACTS.decode(facts + b"}").run


def _key_of(raw: bytes) -> str:
    return _REF.decode(raw).key


def _fits(raw: bytes, sizes: Collection[int]) -> bool:
    """Whether a handle's text may be one of the words of these sizes in characters: alone, or in an item."""
    ref = _REF.decode(raw)
    return ref.dtype == "item" or ref.sz in sizes


def _handle(key: str) -> bytes:
    """How a handle names a text."""
    return b'"key":"%b"' % key.encode()


def _lines_with(whole: mmap.mmap, needle: bytes, end: int) -> Iterator[tuple[int, bytes]]:
    """The lines before `end` that hold the needle, with their offsets."""
    at = whole.find(needle, 0, end)
    while at >= 0:
        begin, newline = whole.rfind(b"\n", 0, at) + 1, whole.find(b"\n", at, end)
        if newline < 0:
            return
        yield begin, whole[begin:newline]
        at = whole.find(needle, newline, end)


def events_of(found: Plan, reason: str, by: str | None) -> list[Event]:
    """The events that record an erasure; more than one where a line would grow too long."""
    units = [ErasedUnit(seq=entry.place.seq, path=entry.place.path, digest=entry.digest) for entry in found.found]
    texts = list(found.erasure.texts)
    starts = range(0, max(len(units), len(texts), 1), _UNITS_PER_EVENT)
    return [
        ContentErased(
            units=tuple(units[start : start + _UNITS_PER_EVENT]),
            texts=tuple(texts[start : start + _UNITS_PER_EVENT]),
            by=by,
            reason=reason,
        )
        for start in starts
    ]


def rewrite(directory: Path, job: Job, bank_id: str, calls: System) -> None:
    """Rewrite every closed segment that holds what goes. Raises `LogCorruption` rather than change a head."""
    segments = all_segments(directory)
    paths: dict[int, dict[int, set[str]]] = {}
    keys: set[str] = set()
    for event in job.events():
        keys |= set(event.texts)
        for unit in event.units:
            paths.setdefault(segment_of(segments, unit.seq), {}).setdefault(unit.seq, set()).add(unit.path)
    for index in sorted(paths):
        _rewrite_segment(segments[index], paths[index], keys, lines.seed_of(bank_id), calls)


def _rewrite_segment(segment: Segment, paths: dict[int, set[str]], keys: set[str], seed: int, calls: System) -> None:
    scratch = segment.path.with_suffix(".tmp")
    target = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        with opened(segment.path) as fd:
            first, offset = read_opened(segment, fd)
            calls.write(target, os.pread(fd, offset, 0))
            digest = bytes.fromhex(first.head)
            for base, complete in blocks(fd, offset):
                rewritten = []
                for line in complete:
                    digest, new = _rewrite_line(line, digest, paths, keys, seed, segment, base)
                    rewritten.append(new)
                calls.write(target, b"".join(rewritten))
        calls.sync_data(target)
    finally:
        os.close(target)
    calls.replace(scratch, segment.path)


def _rewrite_line(
    line: bytes, digest: bytes, paths: dict[int, set[str]], keys: set[str], seed: int, segment: Segment, offset: int
) -> tuple[bytes, bytes]:
    if line.startswith(lines.ANY_TEXT):
        key = lines.key_of_text(line)
        return digest, lines.text_erased_line(key, seed) if key in keys else line + b"\n"
    if line.startswith(lines.SEGMENT):
        seal = read_sealed(line, seed)
        if seal is None or seal.head != digest.hex():
            raise LogCorruption(segment.name, 0, offset, "erasing would change the head; the segment was left as it is")
        return digest, line + b"\n"
    chosen = paths.get(lines.seq_of(line))
    new = lines.erase_units(line, chosen, seed) if chosen else line + b"\n"
    return lines.chain(digest, new[:-1]), new


def clear(directory: Path, folder: Path, keep: str, calls: System) -> None:
    """Remove all derived files, and what dead processes left: they may hold what was erased. Under the bank's lock."""
    import shutil

    for path in directory.glob("*.tmp"):
        path.unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != keep:
            path.unlink(missing_ok=True)
    calls.sync_directory(folder)


def stored_texts(segment: Segment, seed: int, after: int) -> dict[bytes, str]:
    """The texts that a segment holds from an offset on: SHA-256 of the raw JSON to key."""
    with opened(segment.path) as fd:
        return {
            sha256(bytes(_TEXT.decode(line).text)).digest(): lines.key_of_text(line)
            for _, complete in blocks(fd, after)
            for line in complete
            if line.startswith(lines.TEXT) and lines.is_intact(line, seed)
        }
