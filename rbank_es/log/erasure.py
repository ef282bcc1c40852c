"""Erasure: the search for every place that holds a text, and the lines that are left without it.

Facts, lengths and salted commitments stay. The digest chain is made of those, so heads noted before still verify.
An engine provides a `LineSource` to search, and replaces its lines by the results of `erased_line`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, LogCorruption
from rbank_es.events import ContentErased, ErasedUnit
from rbank_es.events.event_envelope import Ref
from rbank_es.events.vector_text import DIGEST_CHARS, embedded_text, text_digest
from rbank_es.log import lines
from rbank_es.log.protocol import Appended, Erasing, Erasure, Place, Searched

if TYPE_CHECKING:
    from rbank_es.log.escaped_words import SoughtWords

Part = TypeVar("Part", bound=Hashable)
"""A part of a log within which a long text is stored once: a segment, or the whole log."""


class _Facts(msgspec.Struct):
    run: str | None = None


AS_VECTOR = "as a vector"
"""The form of a vector that goes because its text goes."""

_EMBEDDED = b'{"type":"words_embedded"'
_DIGEST = re.compile(rb'"([0-9a-f]{%d}) ' % DIGEST_CHARS)

_FACTS: msgspec.json.Decoder[_Facts] = msgspec.json.Decoder(_Facts)
_REF: msgspec.json.Decoder[Ref] = msgspec.json.Decoder(Ref)


class LineSource(Protocol[Part]):
    """The lines of a log, part by part, as erasure searches them."""

    seed: int

    def parts(self) -> Collection[Part]:
        """Return the parts of the log, in order."""
        ...

    def line_at(self, seq: int) -> tuple[Part, bytes] | None:
        """Return the line at a position and the part that it is in; None where there is none."""
        ...

    def lines_with(self, part: Part, needle: bytes) -> Iterator[bytes]:
        """Yield the lines of a part that hold some bytes."""
        ...

    def blocks(self, part: Part) -> Iterator[tuple[str, bytes]]:
        """Yield all lines of a part, many at a time, each block with its place in words."""
        ...

    def text(self, ref: Ref, part: Part) -> str | None:
        """Return the text that a handle in a part names; None if it was erased."""
        ...


class FoundText(NamedTuple):
    """A text inside an event that is to be erased, with its commitment."""

    place: Place
    digest: str


class Plan(NamedTuple):
    """The texts that are to be erased, the report for people, and the words that were searched for."""

    found: tuple[FoundText, ...]
    erasure: Erasure
    sought: SoughtWords

    def carried_out(self, appended: Appended | None, remains: Mapping[str, int]) -> Plan:
        """Return the plan with the report of what was done; `appended` is None where no event held such a text."""
        done = msgspec.structs.replace(self.erasure, appended=appended, remains=dict(remains))
        return self._replace(erasure=done)


def plan(source: LineSource[Part], what: Erasing, reason: str, by: str | None) -> Plan:
    """Find the named texts, and every text that holds the same words in any form. Changes nothing.

    Raises `BadInput` for words too short to search for, and for a reason or a name that holds them, because both are
    recorded.
    """
    for given in what.words:
        if len(given) < limits.NEEDLE_CHARS:
            raise BadInput(
                f"{given!r} has {len(given)} characters; texts under {limits.NEEDLE_CHARS} are in too many events, "
                "so erase the events instead (--event)"
            )
    search = _Search(source)
    # Whatever is named must go wherever it was copied: a tool's result is a model's input a moment later.
    named = {*search.name(what), *what.words}
    shared = search.leave_to_others(what.run, named) if what.run is not None else set[str]()
    shared |= search.labels_of_others(named)
    words = named - shared
    # Here, because every use of a log comes by this module, and few erase.
    from rbank_es.log.escaped_words import SoughtWords

    sought = SoughtWords(words)
    if sought.form_in(f"{reason}\n{by or ''}".encode("utf-8", "surrogatepass")):
        raise BadInput("the reason, or the name of who asked, holds the text to erase; use other words")
    search.sweep(sought)
    search.follow_handles()
    # A vector is a text too, which may be stored apart: then it is its handles that are erased with it.
    if search.add_vectors(shared):
        search.follow_handles()
    found = tuple(sorted(search.found.values(), key=lambda entry: (entry.place.seq, entry.place.path)))
    erasure = Erasure(
        tuple(entry.place for entry in found),
        tuple(sorted(search.keys)),
        tuple(sorted(search.facts)),
        short=sum(0 < len(text) < limits.NEEDLE_CHARS for text in words),
        shared=len(shared),
        searched=search.searched(),
    )
    return Plan(found, erasure, sought)


class _Search(Generic[Part]):
    """The texts found so far."""

    def __init__(self, source: LineSource[Part]) -> None:
        self._source = source
        self.found: dict[tuple[int, str], FoundText] = {}
        self.keys: dict[str, Part] = {}
        """Keys of the texts stored apart, each with the part that holds it."""
        self._words_of_key: dict[str, set[str]] = {}
        self._labels: set[str] = set()
        self._form_of_key: dict[str, str] = {}
        self.facts: set[int] = set()
        self._form_at: dict[tuple[int, str], str] = {}
        self._size = Counter({"lines": 0, "bytes": 0})

    def name(self, what: Erasing) -> list[str]:
        """Add the named events and texts; return their words."""
        wanted: dict[int, set[str] | None] = {seq: None for seq in what.events}
        for seq, path in what.paths:
            chosen = wanted.setdefault(seq, set())
            if chosen is not None:
                chosen.add(path)
        words: list[str] = []
        for seq in sorted(wanted):
            if (found := self._source.line_at(seq)) is not None:
                words += self._name_units(*found, wanted[seq])
        return words

    def _name_units(self, part: Part, line: bytes, paths: set[str] | None) -> list[str]:
        words: list[str] = []
        for unit in lines.split(line)[2]:
            if (paths is None or unit.path in paths) and not unit.raw.startswith(lines.ERASED):
                own = self._words(unit.raw, part)
                if unit.raw.startswith(lines.REF):
                    self._words_of_key.setdefault(_key_of(unit.raw), set()).update(own)
                words += own
                self._labels.update(self._tags(unit.raw, part))
                self._add(line, unit, part, named=True)
        return words

    def _words(self, raw: bytes, part: Part) -> list[str]:
        value: Any = msgspec.json.decode(raw)
        if raw.startswith(lines.REF):
            text = self._source.text(msgspec.convert(value, Ref), part)
            value = msgspec.json.decode(text) if text and value["dtype"] == "item" else text
        if isinstance(value, dict):
            return [*(str(value.get(name) or "") for name in ("title", "desc", "content")), *value.get("tags", ())]
        return [value] if isinstance(value, str) else []

    def _tags(self, raw: bytes, part: Part) -> list[str]:
        return self._words(raw, part)[3:]  # texts that are no items are one word

    def leave_to_others(self, run: str, words: Collection[str]) -> set[str]:
        """Return those of the words that are the whole of a text of another run too, and stay there.

        If such a text is stored apart, and events that were not named share it, its line stays as well.
        """
        wanted = {text for text in words if len(text) >= limits.NEEDLE_CHARS}
        shared = {text for part in self._source.parts() for text in self._words_of_others(part, run, wanted)}
        for key, part in list(self.keys.items()):
            if self._words_of_key[key] & wanted <= shared and self._is_named_elsewhere(key, part):
                del self.keys[key]
        return shared

    def _words_of_others(self, part: Part, run: str, wanted: Collection[str]) -> Iterator[str]:
        sizes = {len(text) for text in wanted}
        for line in self._source.lines_with(part, b'"run":"'):
            if line.startswith(lines.ANY_TEXT) or not lines.is_intact(line, self._source.seed):
                continue  # the sweep reports a damaged line where it matters
            facts, _, units = lines.split(line)
            if _run_of(facts) not in (None, run):
                for unit in units:
                    if not unit.raw.startswith(lines.REF) or _fits(unit.raw, sizes):
                        yield from (text for text in self._words(unit.raw, part) if text in wanted)

    def labels_of_others(self, words: Collection[str]) -> set[str]:
        """Return those of the words that are tags of a named item, and of an item that was not named, too."""
        labels = {label for label in self._labels if label in words and len(label) >= limits.NEEDLE_CHARS}
        if not labels:
            return set()
        shared = set[str]()
        for part in self._source.parts():
            for mark in (b'"is":"item"', b'"dtype":"item"'):
                for line in self._source.lines_with(part, mark):
                    shared |= labels.intersection(self._tags_of_others(line, part))
        return shared

    def _tags_of_others(self, line: bytes, part: Part) -> Iterator[str]:
        if not line.startswith(lines.UNNUMBERED) and lines.is_intact(line, self._source.seed):
            for unit in lines.split(line)[2]:
                if (lines.seq_of(line), unit.path) not in self.found:
                    yield from self._tags(unit.raw, part)

    def _is_named_elsewhere(self, key: str, part: Part) -> bool:
        return any((lines.seq_of(line), unit.path) not in self.found for line, unit in self._handles_to(key, part))

    def _handles_to(self, key: str, part: Part) -> Iterator[tuple[bytes, lines.TextUnit]]:
        for line in self._source.lines_with(part, b'"key":"%b"' % key.encode()):
            for unit in lines.split(line)[2]:
                if unit.raw.startswith(lines.REF) and key.encode() in unit.raw:
                    yield line, unit

    def _add(self, line: bytes, unit: lines.TextUnit, part: Part, *, named: bool = False, form: str = "") -> None:
        seq = lines.seq_of(line)
        if form:
            self._form_at[seq, unit.path] = form
        if unit.raw.startswith(lines.REF):
            self.keys[_key_of(unit.raw)] = part
        if (seq, unit.path) not in self.found:
            facts, salt, _ = lines.split(line)
            place = Place(seq, unit.path, lines.type_of_line(line).decode(), named, _run_of(facts), form)
            self.found[seq, unit.path] = FoundText(place, lines.commitment(salt, unit))

    def sweep(self, sought: SoughtWords) -> None:
        """Add every text that holds the words. Raises `LogCorruption` for one in a damaged line."""
        for part in self._source.parts():
            for where, block in self._source.blocks(part):
                self._size.update(lines=block.count(b"\n") + 1, bytes=len(block) + 1)
                if sought.may_be_in(block):
                    for line in block.split(b"\n"):
                        if sought.may_be_in(line) and sought.form_in(line, levels=1):
                            self._sweep_line(where, line, sought, part)

    def _sweep_line(self, where: str, line: bytes, sought: SoughtWords, part: Part) -> None:
        if not lines.is_intact(line, self._source.seed):
            raise LogCorruption(where, "a damaged line holds the text to erase")
        if line.startswith(lines.TEXT):
            if form := sought.form_in(lines.raw_text(line), levels=1):
                self.keys[lines.key_of_text(line)] = part
                self._form_of_key[lines.key_of_text(line)] = form
        elif not line.startswith(lines.UNNUMBERED):
            facts, _, units = lines.split(line)
            if sought.form_in(facts, levels=1):  # facts are part of the chain, and can't be erased
                self.facts.add(lines.seq_of(line))
            for unit in units:
                if not unit.raw.startswith(lines.ERASED) and (form := sought.form_in(unit.raw, levels=1)):
                    self._add(line, unit, part, form=form)

    def searched(self) -> Searched:
        """Return the extent of the search, and how often each form was found."""
        return Searched(
            len(self._source.parts()), **self._size, forms=dict(sorted(Counter(self._form_at.values()).items()))
        )

    def follow_handles(self) -> None:
        """Add every text that is a handle to a text to erase."""
        for key, part in list(self.keys.items()):
            for line, unit in self._handles_to(key, part):
                self._add(line, unit, part, form=self._form_of_key.get(key, ""))

    def add_vectors(self, shared: Collection[str]) -> bool:
        """Add the vector of every text found so far, except those that others share; return whether there are any."""
        known = len(self.found)
        marked = [(part, line) for part in self._source.parts() for line in self._source.lines_with(part, _EMBEDDED)]
        digests = self._digests(shared) if marked else frozenset[bytes]()
        for part, line in marked:
            if line.startswith(_EMBEDDED) and lines.is_intact(line, self._source.seed):
                for unit in lines.split(line)[2]:
                    # A handle shows the digest, too, because it is the beginning of the text.
                    if unit.path.startswith("vectors.") and not digests.isdisjoint(_DIGEST.findall(unit.raw)):
                        self._add(line, unit, part, form=AS_VECTOR)
        return len(self.found) > known

    def _digests(self, shared: Collection[str]) -> frozenset[bytes]:
        """Return the digests under which the vectors of the found texts are kept."""
        digests = set[bytes]()
        for seq, path in list(self.found):
            if (found := self._source.line_at(seq)) is not None:
                part, line = found
                unit = next(unit for unit in lines.split(line)[2] if unit.path == path)
                words = self._words(unit.raw, part)
                if not shared or not all(word in shared for word in words):
                    digests.add(text_digest(embedded_text(*words[:3], tags="\n".join(words[3:]))).encode())
        return frozenset(digests)


def _run_of(facts: bytes) -> str | None:
    return _FACTS.decode(facts + b"}").run


def _key_of(raw: bytes) -> str:
    return _REF.decode(raw).key


def _fits(raw: bytes, sizes: Collection[int]) -> bool:
    """Return whether a handle's text may be one of the words of these sizes in characters, alone or in an item."""
    ref = _REF.decode(raw)
    return ref.dtype == "item" or ref.sz in sizes


# ---------------------------------------------------------------- recording and rewriting


def records_of(planned: Plan, reason: str, by: str | None) -> list[ContentErased]:
    """Return the events that record an erasure; more than one where a line would grow too long."""
    units = [ErasedUnit(seq=entry.place.seq, path=entry.place.path, digest=entry.digest) for entry in planned.found]
    texts = list(planned.erasure.texts)
    return [
        ContentErased(
            units=tuple(units[start : start + limits.ERASED_UNITS]),
            texts=tuple(texts[start : start + limits.ERASED_UNITS]),
            by=by,
            reason=reason,
        )
        for start in range(0, max(len(units), len(texts), 1), limits.ERASED_UNITS)
    ]


class Targets(NamedTuple):
    """The paths to erase by position, and the keys of the text lines to erase."""

    paths: Mapping[int, set[str]]
    keys: set[str]

    @classmethod
    def of(cls, records: Iterable[ContentErased]) -> Targets:
        """Return the targets that the events of one erasure list."""
        paths: dict[int, set[str]] = {}
        keys: set[str] = set()
        for event in records:
            keys |= set(event.texts)
            for unit in event.units:
                paths.setdefault(unit.seq, set()).add(unit.path)
        return cls(paths, keys)

    def erased_line(self, line: bytes, seed: int) -> bytes:
        """Return an event's or a text's line, ended by a newline, without the texts to erase."""
        if line.startswith(lines.ANY_TEXT):
            key = lines.key_of_text(line)
            return lines.text_erased_line(key, seed) if key in self.keys else line + b"\n"
        chosen = self.paths.get(lines.seq_of(line))
        return lines.erase_units(line, chosen, seed) if chosen else line + b"\n"


def paths_of_item(events: Iterable[Any], item: str) -> Iterator[tuple[int, str]]:
    """Yield position and path of the words of an item, from the events that propose and extract items."""
    for event in events:
        heads = (
            {"candidate": event.head}
            if hasattr(event, "head")
            else {f"candidates.{index}": head for index, head in enumerate(event.heads[: len(event.candidates)])}
        )
        yield from ((event.seq, path) for path, head in heads.items() if head.id == item)
