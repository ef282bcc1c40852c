"""Curated constraints: what people know about an ontology and no file says. A TOML beside the ontology.

[[constraint]]                 # what holds
text = "A keeper watches at most one light at a time."
terms = ["lt:keeps"]           # optional: names that it is about; such entries come first where a task names them
priority = 1                   # optional: 1 (first) to 9, default 5

[[anti_pattern]]               # what to avoid
text = "Don't count beacons by lt:Light alone: they are typed with subclasses."

[[rubric]]                     # what to check before an answer is given
text = "Every light in the answer has a name."
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rbank_es.context.budget import plain
from rbank_es.context.files import read_text
from rbank_es.errors import BadContextFile

Kind = Literal["constraint", "anti_pattern", "rubric"]

TEXT_CHARS = 240
"""Characters of one curated line: at a third of the layer's budget, two of them leave room for what is derived."""

TERMS = 20
ENTRIES = 200
"""Terms of one entry and entries of one file; more than anyone curates by hand for a layer of 1,000 characters."""

BESIDE = ("{stem}.constraints.toml", "{stem}_constraints.toml", "constraints.toml")
"""How the file beside an ontology may be called, the first that is there; `{stem}` is the ontology's name."""


class CuratedLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry: its words, the names that it is about, and how soon it comes (1 first, 9 last)."""

    kind: Kind
    text: Annotated[str, Meta(min_length=1, max_length=TEXT_CHARS)]
    terms: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=TEXT_CHARS)], ...], Meta(max_length=TERMS)] = ()
    priority: Annotated[int, Meta(ge=1, le=9)] = 5


def load_curated(path: str | Path) -> tuple[CuratedLine, ...]:
    """The entries of a file: by priority, then constraints, anti-patterns, rubrics, then as they stand.

    Raises `BadContextFile`, naming the entry, for what is not of the form above.
    """
    return parse_curated(read_text(path), str(path))


def parse_curated(text: str, name: str = "constraints") -> tuple[CuratedLine, ...]:
    """As `load_curated`, of a text; `name` is what errors call it."""
    import tomllib  # only those who bring a file pay for it

    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadContextFile(name, f"it is not TOML: {error}") from None
    lines = list(_entries(tables, name))
    if len(lines) > ENTRIES:
        raise BadContextFile(name, f"it has {len(lines)} entries; give at most {ENTRIES}")
    return in_order(lines)


def in_order(lines: Iterable[CuratedLine]) -> tuple[CuratedLine, ...]:
    """By priority, then constraints, anti-patterns, rubrics, then as they came."""
    return tuple(sorted(lines, key=lambda line: (line.priority, _KINDS.index(line.kind))))


def curated_beside(path: str | Path) -> Path | None:
    """The file of curated constraints beside an ontology's file, or in its folder; None if there is none."""
    place = Path(path)
    folder = place if place.is_dir() else place.parent
    found = (folder / name.format(stem=place.stem) for name in BESIDE)
    return next((file for file in found if file.is_file()), None)


_KINDS: tuple[Kind, ...] = ("constraint", "anti_pattern", "rubric")


def _entries(tables: dict[str, Any], name: str) -> Iterator[CuratedLine]:
    for kind, entries in tables.items():
        if kind not in _KINDS:
            raise BadContextFile(name, f"unknown key {kind!r}; it may have: {', '.join(_KINDS)}")
        if not isinstance(entries, list):
            raise BadContextFile(name, f"{kind} must be a list of tables: begin each entry with [[{kind}]]")
        for number, entry in enumerate(entries, 1):
            yield _entry(kind, entry, f"{kind} {number}", name)


def _entry(kind: str, entry: Any, place: str, name: str) -> CuratedLine:
    if not isinstance(entry, dict):
        raise BadContextFile(name, f"{place} must be a table with a text, not {type(entry).__name__}")
    if "kind" in entry:
        raise BadContextFile(name, f"{place}: unknown key 'kind'; it may have: text, terms, priority")
    if isinstance(entry.get("text"), str):
        entry = {**entry, "text": plain(entry["text"])}
    try:
        return msgspec.convert({**entry, "kind": kind}, CuratedLine)
    except msgspec.ValidationError as error:
        raise BadContextFile(name, f"{place}: {str(error).replace('$.', '')}") from None
