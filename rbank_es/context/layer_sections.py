"""Layers of a context: their table, and the fitting of text into a layer's budget of characters.

Budgets count every character that reaches the prompt, titles and markup included. Entries and sentences that don't fit
are dropped whole; only one long quoted text is truncated, and ends in `…`. A budget too small for anything useful gives
an empty text.

To add a layer: one module with a function `layer(request, budget_chars)`, and its row in `LAYER_TABLE`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, cast

import msgspec
from msgspec import Meta

from rbank_es import limits
from rbank_es.context.layer_text import LayerText
from rbank_es.errors import BadContextFile, BadInput, LimitExceeded
from rbank_es.policies.packed_text import Packed, checked_budget, fair_shares
from rbank_es.system.input_file import read_given
from rbank_es.system.text_cuts import ELLIPSIS

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.events.run_events import Mode
    from rbank_es.ontology.schema_model import Schema
    from rbank_es.sparql.endpoint_profiles import Profile

Preset = Literal["full", "lean"]
CuratedKind = Literal["constraint", "anti_pattern", "rubric"]


# A full stop that ends an abbreviation or numbers a list ends no sentence.
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_`]*\s+(?=[^\sa-z])")
_NO_END = re.compile(r"(?:\b(?:e\.g|i\.e|cf|vs|al|fig|approx)|^\d{1,3}|\b[A-Z])\.$", re.IGNORECASE)
_TAIL_CHARS = 12  # longer than any match of _NO_END, so that the search stays linear


class Subject(NamedTuple):
    """The ontology or endpoint of a context: its schema, its prefixes, its id, and the profile of an endpoint."""

    schema: Schema
    prefixes: Mapping[str, str]
    id: str
    endpoint: Profile | None = None


class CuratedLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One curated line: its words, the terms that it is about, and its priority (1 first, 9 last)."""

    kind: CuratedKind
    text: Annotated[str, Meta(min_length=1, max_length=limits.CURATED_TEXT_CHARS)]
    terms: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=limits.CURATED_TEXT_CHARS)], ...],
        Meta(max_length=limits.CURATED_TERMS),
    ] = ()
    priority: Annotated[int, Meta(ge=1, le=limits.CURATED_PRIORITY)] = 5


class ContextRequest(NamedTuple):
    """The input of every layer of one context: the arguments of `build_context`, resolved. Layers only read it."""

    task: str
    subject: Subject | None
    bank: Bank | None
    position: int | None
    mode: Mode
    run: str | None
    curated: Sequence[CuratedLine] | Path | str | None
    guide: Path | str | None
    domain: str | None
    observed: bool
    task_slice: bool
    memory_graph: bool
    without_task: str | None = None
    level: int | None = None

    @property
    def slice_of(self) -> str | None:
        """The task where its terms come first in a layer, else None."""
        return self.task if self.task_slice else None


Packer = Callable[[ContextRequest, int], LayerText | None]
"""Returns a layer within its budget in characters; None if the request has nothing that the layer is made from."""


class Layer(NamedTuple):
    """One layer: its budgets in characters by preset, its module, and why its text may differ in a rerun."""

    full: int
    lean: int
    home: str
    differs_because: str

    @property
    def pack(self) -> Packer:
        """The function `layer` of the module, imported now: a layer that is off costs no start-up time."""
        return cast("Packer", import_module(f"rbank_es.context.{self.home}").layer)


LAYER_TABLE: Mapping[str, Layer] = {
    "base": Layer(
        limits.CONTEXT_BASE_CHARS,
        limits.CONTEXT_BASE_CHARS,
        "base_instructions",
        "the base instructions are part of the code: another release words them otherwise",
    ),
    "L0": Layer(
        limits.CONTEXT_L0_CHARS,
        limits.CONTEXT_L0_CHARS,
        "ontology_card",
        "the sense card is made of the ontology: it, or the code that describes it, may have changed",
    ),
    "L1": Layer(
        limits.CONTEXT_L1_CHARS,
        limits.CONTEXT_LEAN_L1_CHARS,
        "constraints",
        "constraints are made of the ontology and a curated file: one of them, or the code, may have changed",
    ),
    "L2": Layer(
        limits.CONTEXT_L2_CHARS,
        limits.CONTEXT_L2_CHARS,
        "procedures",
        "procedures are chosen by the retrieval policy: it, or the code that packs them, may have changed",
    ),
    "L3": Layer(
        limits.CONTEXT_L3_CHARS,
        limits.CONTEXT_LEAN_L3_CHARS,
        "guide_summary",
        "the guide, or the code that packs it, may have changed",
    ),
}
"""Every layer, in the order of the prompt. With either preset, the whole stays under `FLAG_CONTEXT_CHARS`."""

LAYERS = tuple(name for name in LAYER_TABLE if name != "base")
"""The layers that can be switched off: the base instructions can't."""

BUDGETS: Mapping[str, Mapping[str, int]] = {
    "full": {name: layer.full for name, layer in LAYER_TABLE.items()},
    "lean": {name: layer.lean for name, layer in LAYER_TABLE.items()},
}


def check_layers(names: Collection[str]) -> None:
    """Raise `BadInput` for an unknown layer, listing the known ones."""
    unknown = sorted(set(names) - set(LAYERS))
    if unknown:
        raise BadInput(f"no layer is called {unknown[0]!r}; there are: {', '.join(LAYERS)}")


def budgets_of(preset: str, given: Mapping[str, int]) -> dict[str, int]:
    """Return the budget of each layer in characters: the preset's, replaced by those given. Raises `BadInput`."""
    if preset not in BUDGETS:
        raise BadInput(f"no preset is called {preset!r}; there are: {', '.join(BUDGETS)}")
    budgets = BUDGETS[preset]
    unknown = sorted(given.keys() - budgets.keys())
    if unknown:
        raise BadInput(f"no layer is called {unknown[0]!r}; budgets are for: {', '.join(budgets)}")
    return {**budgets, **{layer: checked_budget(chars) for layer, chars in given.items()}}


def read_text(path: str | Path) -> str:
    """Return the text of a file given to a context. Raises `BadContextFile`: missing, too large, or not UTF-8."""
    place = Path(path)
    try:
        content = read_given(place, limits.CONTEXT_FILE_BYTES)
    except LimitExceeded:
        raise BadContextFile(str(place), f"it is larger than {limits.CONTEXT_FILE_BYTES:,} bytes") from None
    except OSError as error:
        raise BadContextFile(str(place), f"it can't be read: {error.strerror or error}") from None
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise BadContextFile(str(place), f"it is not UTF-8 (byte {error.start:,})") from None


# ---------------------------------------------------------------- text


def sentences(text: str) -> list[str]:
    """Return the sentences of a one-line text, unchanged. A text without a full stop is one sentence."""
    found: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        stop = end.start()
        if not _NO_END.search(text[max(start, stop - _TAIL_CHARS) : stop]):
            found.append(text[start : end.end()].rstrip())
            start = end.end()
    rest = text[start:].strip()
    return [*found, rest] if rest else found


def whole_words(text: str, max_chars: int) -> str:
    """Return the text, or as many whole words as fit with `…` behind them; empty if not one fits."""
    if len(text) <= max_chars:
        return text
    room = text[: max(max_chars - 1, 0)]
    end = len(room) if text[len(room) : len(room) + 1].isspace() else room.rfind(" ")
    kept = room[: max(end, 0)].rstrip()
    return kept + ELLIPSIS if kept else ""


# ---------------------------------------------------------------- sections


class Section(NamedTuple):
    """A line of a layer: a title, then entries, of which the last are left out first.

    A section first gets room for its `fewest` entries (None: all) before later sections get any; the rest is shared by
    `weight`. `name` stands for the section in the report of what was left out (default: the title). `notes`, if given,
    has one note for each entry; entries with the same note share it.
    """

    title: str
    entries: Sequence[str]
    separator: str = ", "
    weight: int = 1
    fewest: int | None = 1
    name: str = ""
    notes: Sequence[str] = ()


def pack_sections(layer: str, heading: str, sections: Sequence[Section], budget_chars: int) -> Packed:
    """Return a heading and a line per section within the budget; the last sections are left out first.

    Each section present shows at least one whole entry, and the number of those left out.
    """
    given = [section for section in sections if section.entries]
    chosen, counts = _share_out(given, checked_budget(budget_chars) - len(heading))
    shown = list(zip(chosen, counts, strict=True))
    cut = whole_words("; ".join(_left_out(shown, given)), limits.CONTEXT_LEFT_OUT_CHARS)
    lines = [_line(section, count) for section, count in shown]
    text = "\n".join([heading, *lines]) if lines else ""
    return Packed(layer=layer, text=text, budget_chars=budget_chars, truncated=bool(cut), cut=cut)


def _share_out(sections: Sequence[Section], room: int) -> tuple[list[Section], list[int]]:
    """Return the sections that can show an entry, earlier ones served first, and how many entries each shows."""
    chosen: list[Section] = []
    counts: list[int] = []
    # First pass: every section gets its fewest entries, the earlier ones first.
    for section in sections:
        fewest = len(section.entries) if section.fewest is None else section.fewest
        count = _fitting(section, 0, room - 1, fewest)
        if count:
            chosen.append(section)
            counts.append(count)
            room -= len(_line(section, count)) + 1
    sizes = [len(_line(section, count)) for section, count in zip(chosen, counts, strict=True)]
    # Second pass: the rest of the room is shared by weight.
    wishes = [len(_line(section, len(section.entries))) - size for section, size in zip(chosen, sizes, strict=True)]
    shares = fair_shares(wishes, room, [section.weight for section in chosen])
    for index, section in enumerate(chosen):
        counts[index] = _fitting(section, counts[index], sizes[index] + shares[index])
        room -= len(_line(section, counts[index])) - sizes[index]
    # Because entries are whole, every share leaves a remainder; the heaviest sections get it.
    for index, section in sorted(enumerate(chosen), key=lambda pair: -pair[1].weight):
        size = len(_line(section, counts[index]))
        counts[index] = _fitting(section, counts[index], size + room)
        room -= len(_line(section, counts[index])) - size
    return chosen, counts


def _left_out(shown: Sequence[tuple[Section, int]], given: Sequence[Section]) -> Iterator[str]:
    for section, count in shown:
        if count < len(section.entries):
            yield f"{len(section.entries) - count} of {len(section.entries)} in {_name(section)}"
    # By identity, because two sections may be equal.
    there = {id(section) for section, _ in shown}
    dropped = [section for section in given if id(section) not in there]
    if dropped:
        yield f"without {', '.join(map(_name, dropped))}"


def _name(section: Section) -> str:
    return section.name or section.title.strip(" -:") or "a line"


def _fitting(section: Section, count: int, max_chars: int, most: int | None = None) -> int:
    """Return how many entries fit, at least `count` and at most `most`."""
    total = len(section.entries)
    most = total if most is None else min(most, total)
    while count < most and len(_line(section, count + 1)) <= max_chars:
        count += 1
    # The note on entries left out goes with the last entry, so all may fit where all but one don't.
    return total if most == total and len(_line(section, total)) <= max_chars else count


def _line(section: Section, count: int) -> str:
    more = len(section.entries) - count
    tail = f" {ELLIPSIS} +{more:,}" if more else ""
    entries = section.entries[:count]
    return section.title + section.separator.join(_noted(entries, section.notes) if section.notes else entries) + tail


def _noted(entries: Sequence[str], notes: Sequence[str]) -> Iterator[str]:
    """Return the entries grouped by note, in the order of each note's first entry: `a, b (note)`."""
    groups: dict[str, list[str]] = {}
    for entry, note in zip(entries, notes, strict=False):
        groups.setdefault(note, []).append(entry)
    return (", ".join(group) + (f" ({note})" if note else "") for note, group in groups.items())
