"""L1, constraints: facts about an ontology and likely mistakes with it. Curated lines come first, then derived ones.

Derived lines come from the schema alone, whichever vocabulary states it: rdfs:domain and range, OWL restrictions and
unions, schema.org's includes, SHACL shapes, a VoID description. Curated lines come from people, in a TOML beside the
ontology:

    [[constraint]]                 # what holds
    text = "A keeper watches at most one light at a time."
    terms = ["lt:keeps"]           # optional: names that it is about; such lines come first if a task names them
    priority = 1                   # optional: 1 (first) to 9, default 5

    [[anti_pattern]]               # what to avoid
    text = "Don't count beacons by lt:Light alone: they are typed with subclasses."

    [[rubric]]                     # what to check before an answer is given
    text = "Every light in the answer has a name."
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.context.layer_sections import (
    ContextRequest,
    CuratedKind,
    CuratedLine,
    Section,
    pack_sections,
    read_text,
    sentences,
    whole_words,
)
from rbank_es.context.layer_text import LayerText
from rbank_es.context.term_order import RankedTerms, TaskWords, hidden_instances
from rbank_es.errors import BadContextFile
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
from rbank_es.policies.packed_text import Packed, checked_budget, plain, short_count
from rbank_es.system.toml_input import parse_toml
from rbank_es.system.validation_messages import reason_of

if TYPE_CHECKING:
    from rbank_es.sparql.endpoint_profiles import Profile


CURATED_SHARE = (1, 2)
"""The part of the budget that curated lines may take if there are derived ones too."""

_KIND_WORDS = {"constraint": "", "anti_pattern": "Avoid: ", "rubric": "Check: "}

# As on the card: the entries for which a section gets room first.
_FEWEST = 3

Pair = tuple[PropertyInfo, PropertyInfo]


def constraints(
    schema: Schema,
    prefixes: Mapping[str, str],
    curated: Sequence[CuratedLine] | None = None,
    budget_chars: int = limits.CONTEXT_L1_CHARS,
    task: str | None = None,
    *,
    endpoint: Profile | None = None,
) -> Packed:
    """Return the constraints and anti-patterns of a schema, on whole entries, within the budget.

    Args:
        schema: what is known about the ontology.
        prefixes: prefix to namespace IRI.
        curated: lines that come first (`load_curated`); they take at most half of the budget.
        budget_chars: characters of the whole layer.
        task: if given, entries about the terms that it names come first within each line.
        endpoint: the profile of the endpoint that the schema describes; its warnings follow the curated lines.

    Raises `BadInput` for a budget below 0.
    """
    derived = _Derived(RankedTerms(schema, prefixes), TaskWords(task) if task is not None else None)
    naming = derived.ranked.naming
    heading = "# Constraints" + (f" (names without a prefix: {naming.prefix})" if naming.prefix else "")
    sections = [section for section in (*_endpoint(endpoint), *derived.sections()) if section.entries]
    # Without derived lines there is nothing to keep the other half for.
    share = checked_budget(budget_chars) if not sections else budget_chars * CURATED_SHARE[0] // CURATED_SHARE[1]
    lines = _curated(curated or (), derived.task)
    curated_sections = _fitting(lines, share - len(heading))
    packed = pack_sections("L1", heading, [*curated_sections, *sections], budget_chars)
    if len(curated_sections) == len(lines):
        return packed
    cut = "; ".join(filter(None, [f"{len(curated_sections)} of {len(lines)} curated lines", packed.cut]))
    return replace(packed, truncated=True, cut=whole_words(cut, limits.CONTEXT_LEFT_OUT_CHARS))


def layer(request: ContextRequest, budget_chars: int) -> LayerText | None:
    """Pack the constraints of the subject: see `Packer`."""
    subject, lines = request.subject, request.curated
    if subject is None:
        return None
    if isinstance(lines, Path):
        lines = load_curated(lines)
    elif isinstance(lines, str):
        lines = parse_curated(lines)
    return LayerText(
        constraints(subject.schema, subject.prefixes, lines, budget_chars, request.slice_of, endpoint=subject.endpoint)
    )


def _curated(lines: Sequence[CuratedLine], task: TaskWords | None) -> list[Section]:
    """Return the curated lines in order, those about a term of the task first."""
    ordered = sorted(in_order(lines), key=lambda line: not (task and any(task.fit(term) for term in line.terms)))
    texts = [(_KIND_WORDS[line.kind], plain(line.text)) for line in ordered]
    return [Section("", [f"- {kind}{text}"], name="a curated line") for kind, text in texts if text]


def _fitting(sections: Sequence[Section], room: int) -> list[Section]:
    """Return the sections of one entry that have room; later ones may fit where a long one doesn't."""
    chosen = []
    for section in sections:
        size = len(section.entries[0]) + 1
        if size <= room:
            chosen.append(section)
            room -= size
    return chosen


def _endpoint(profile: Profile | None) -> Iterator[Section]:
    """Yield the forms of query that an endpoint is too slow for, then the notes of its profile."""
    if profile is not None:
        slow = [plain(code.replace("_", " ")) for code in profile.refuses]
        yield Section("- Refused here as too slow: ", slow, fewest=None)
        yield Section("- At this endpoint: ", sentences(plain(profile.notes)), " ", 4)


class _Derived:
    """The derived lines of a schema, one section each, the most useful first."""

    def __init__(self, ranked: RankedTerms, task: TaskWords | None) -> None:
        self.ranked, self.task = ranked, task
        self._schema = ranked.schema
        self._name = ranked.naming.name
        self._properties = {info.iri: info for info in ranked.schema.properties}
        self._links = ranked.links_of

    def sections(self) -> Iterator[Section]:
        """Yield every kind of line, some of them empty."""
        one_way, apart, either = self._inverses()
        properties, steps = self._bounds()
        valued, numbers = self._cardinalities()
        crosswise, alike = self._confusable()
        in_use, out_of_use = self._deprecated()
        yield Section("- ", self._data_warning(), name="the warning about data")
        yield Section("- Inverses, each stored for some classes only: ", apart, "; ", 3, 2, "inverses stored apart")
        yield Section("- Stored one way only (^ turns round): ", one_way, ", ", 2, _FEWEST, "inverses stored one way")
        yield Section(
            "- Typed with subclasses, ask ?x a/rdfs:subClassOf* C (own+below): ",
            self._hidden(),
            weight=2,
            fewest=_FEWEST,
            name="subclasses",
        )
        yield Section("- Domain→range: ", properties, "; ", 4, _FEWEST, notes=steps)
        yield Section("- Inverses, ask both ways (p|^q): ", either, ", ", 2, _FEWEST, "inverses")
        yield Section("- Disjoint: ", self._disjoint(), fewest=_FEWEST)
        yield Section("- Values: ", valued, "; ", 2, _FEWEST, notes=numbers)
        yield Section("- Values shared by no two things: ", self._flagged("inverse_functional"), name="unique values")
        yield Section("- Transitive (ask p+): ", self._flagged("transitive"), fewest=_FEWEST, name="transitive")
        yield Section("- Symmetric (ask p|^p): ", self._flagged("symmetric"), fewest=_FEWEST, name="symmetric")
        yield Section("- Deprecated, yet in use here: ", in_use, fewest=_FEWEST, name="deprecated, in use")
        yield Section("- Class and property, differing by case only: ", crosswise, fewest=_FEWEST, name="alike names")
        yield Section("- Differing by case only: ", alike, fewest=_FEWEST, name="alike names")
        yield Section(f"- Deprecated ({len(out_of_use):,}), avoid: ", out_of_use, fewest=_FEWEST, name="deprecated")

    # ---------------------------------------------------------------- data

    def _data_warning(self) -> list[str]:
        ranked, counts = self.ranked, [info.instances for info in self._schema.classes]
        # One unknown count is enough: its class may have instances.
        if ranked.has_data or not ranked.terms or None in counts:
            return []
        if not any(counts):
            return ["Schema only, no class has instances: ask about classes and properties, not about things."]
        filled = sorted(
            (info for info in self._schema.classes if info.instances), key=lambda info: -(info.instances or 0)
        )
        named = ", ".join(
            f"{self._name(info.iri)}×{short_count(info.instances or 0)}" for info in filled[: limits.CONTEXT_STEPS]
        )
        rest = ", …" if len(filled) > limits.CONTEXT_STEPS else "."
        have, own = ("has", "its") if len(filled) == 1 else ("have", "their")
        return [f"Only {len(filled):,} of {len(counts):,} classes {have} instances of {own} own: {named}{rest}"]

    def _hidden(self) -> list[str]:
        found = hidden_instances(self._schema)
        return self._by_task(
            ([info.iri], f"{self._name(info.iri)} {short_count(info.instances or 0)}+{short_count(below)}")
            for info, below in found
        )

    # ---------------------------------------------------------------- inverses

    def _inverses(self) -> tuple[list[str], list[str], list[str]]:
        """Return the inverse pairs stored one way only, those stored apart by class, and those to ask both ways."""
        one_way, apart, either = [], [], []
        for first, second in self._pairs():
            how = self._held(first, second)
            if how == "apart":
                apart.append(
                    (self._about(first, second), f"{self._example_steps(first)}, but {self._example_steps(second)}")
                )
            elif how == "either":
                either.append(([first.iri, second.iri], f"{self._name(first.iri)}/{self._name(second.iri)}"))
            elif how == "one way":
                used, unused = (first, second) if first.triples else (second, first)
                one_way.append(([used.iri], f"{self._name(used.iri)} not {self._name(unused.iri)}"))
        return self._by_task(one_way), self._by_task(apart), self._by_task(either)

    def _held(self, first: PropertyInfo, second: PropertyInfo) -> Literal["one way", "apart", "either", "mirrored"]:
        """Return how data hold a pair: by one property; each for other classes; mixed or not at all; by both."""
        if None in (first.triples, second.triples) or not (first.triples or second.triples):
            return "either"
        if not first.triples or not second.triples:
            return "one way"
        there = {(link.subject, link.object): link.uses for link in self._links(first.iri)}
        # Turned round, so that the same two things have the same key in both.
        back = {(link.object, link.subject): link.uses for link in self._links(second.iri)}
        if there and back and not there.keys() & back.keys():
            return "apart"
        # Mirrored pairs need no line: either property gives all answers.
        return "mirrored" if there == back else "either"

    def _pairs(self) -> Iterator[Pair]:
        """Yield each inverse pair once, the more important property first."""
        seen: set[frozenset[str]] = set()
        for info in self.ranked.properties:
            for other in sorted(info.inverses):
                # Ontologies often state an inverse in both directions.
                key = frozenset((info.iri, other))
                if other in self._properties and other != info.iri and key not in seen:
                    seen.add(key)
                    yield info, self._properties[other]

    def _about(self, *infos: PropertyInfo) -> list[str]:
        links = (link for info in infos for link in self._links(info.iri))
        return sorted({iri for link in links for iri in (link.subject, link.object)})

    def _example_steps(self, info: PropertyInfo) -> str:
        links = self._links(info.iri)[: limits.CONTEXT_STEPS]
        steps = ", ".join(f"{self._name(link.subject)}→{self._name(link.object)}" for link in links)
        return f"{self._name(info.iri)} {steps}"

    # ---------------------------------------------------------------- classes and properties

    def _bounds(self) -> tuple[list[str], list[str]]:
        """Return the properties, and the classes on both sides of each."""
        entries: list[tuple[list[str], str, str]] = []
        for info in self.ranked.properties:
            domains, ranges = self.ranked.domains(info), self.ranked.ranges(info)
            if domains or ranges:
                steps = self.ranked.steps(domains, ranges, limits.CONTEXT_SIDES)
                entries.append(([info.iri, *domains, *ranges], self._name(info.iri), steps))
        return self._noted(entries)

    def _disjoint(self) -> list[str]:
        order = {info.iri: place for place, info in enumerate(self.ranked.classes)}
        places = [tuple(sorted((order.get(one, len(order)), one) for one in pair)) for pair in self._schema.disjoint]
        pairs = [[iri for _, iri in place] for place in sorted(places)]
        return self._by_task([(pair, "/".join(map(self._name, pair))) for pair in pairs])

    def _cardinalities(self) -> tuple[list[str], list[str]]:
        """Return the properties, with their class if it matters, and their numbers of values; core classes first."""
        classes = {info.iri: place for place, info in enumerate(self.ranked.classes)}
        last = len(classes)
        values = {
            (
                classes.get(one.cls, last),
                one.property,
                f"{self._name(one.cls)} {self._name(one.property)}",
                _range(one.least, one.most),
            )
            for one in self._schema.cardinalities
        }
        for info in self.ranked.properties:
            if info.functional:
                place = min((classes.get(iri, last) for iri in self.ranked.domains(info)), default=last)
                values.add((place, info.iri, self._name(info.iri), _range(0, 1)))
        places = {info.iri: place for place, info in enumerate(self.ranked.properties)}
        ordered = sorted(values, key=lambda one: (one[0], places.get(one[1], len(places)), one))
        return self._noted([([iri], name, number) for _, iri, name, number in ordered])

    def _flagged(self, flag: str) -> list[str]:
        infos = [info for info in self.ranked.properties if getattr(info, flag)]
        return self._by_task([([info.iri], self._name(info.iri)) for info in infos])

    def _confusable(self) -> tuple[list[str], list[str]]:
        """Return the names that differ by case only: of a class and a property, and of two of a kind."""
        alike: dict[str, dict[str, bool]] = defaultdict(dict)
        for info in self.ranked.terms:
            alike[info.iri.lower()][info.iri] = isinstance(info, ClassInfo)
        crosswise: list[tuple[list[str], str]] = []
        same: list[tuple[list[str], str]] = []
        # Agents confuse such names, and SPARQL then answers with no rows and no error.
        for found in alike.values():
            if len(found) > 1:
                iris = sorted(found)
                entry = (iris, "/".join(map(self._name, iris)))
                (crosswise if len(iris) == 2 and len({*found.values()}) == 2 else same).append(entry)
        return self._by_task(crosswise), self._by_task(same)

    def _deprecated(self) -> tuple[list[str], list[str]]:
        """Return the deprecated terms that data use, and those that they don't."""
        used: list[tuple[list[str], str]] = []
        unused: list[tuple[list[str], str]] = []
        for info in self.ranked.terms:
            uses = info.instances if isinstance(info, ClassInfo) else info.triples
            if info.deprecated:
                (used if uses else unused).append(([info.iri], self._name(info.iri)))
        return self._by_task(used), self._by_task(unused)

    def _by_task(self, entries: Iterable[tuple[Sequence[str], str]]) -> list[str]:
        """Return the texts of entries of (terms, text), those with terms of the task first."""
        return self._noted([(iris, text, "") for iris, text in entries])[0]

    def _noted(self, entries: Iterable[tuple[Sequence[str], str, str]]) -> tuple[list[str], list[str]]:
        """Return the texts and notes of entries of (terms, text, note), those with terms of the task first."""
        kept = [entry for entry in entries if len(entry[1]) + len(entry[2]) <= limits.CONTEXT_ENTRY_CHARS]
        if self.task is not None:
            task = self.task
            kept.sort(key=lambda entry: -sum(map(task.fit, entry[0])))
        return [text for _, text, _ in kept], [note for _, _, note in kept]


def _range(least: int | None, most: int | None) -> str:
    low = 0 if least is None else least
    if most is None:
        return f"{low}+"
    if most == 0:
        return "none"
    return f"{low}" if low == most else f"{low}–{most}"


BESIDE = ("{stem}.constraints.toml", "{stem}_constraints.toml", "constraints.toml")
"""Names of the file beside an ontology, the first that exists; `{stem}` is the ontology's name."""


def load_curated(path: str | Path) -> tuple[CuratedLine, ...]:
    """Return the lines of a file: by priority, then constraints, anti-patterns, rubrics, then in the file's order.

    Raises `BadContextFile`, naming the entry, for any other form than that above.
    """
    return parse_curated(read_text(path), str(path))


def parse_curated(text: str, name: str = "constraints") -> tuple[CuratedLine, ...]:
    """Return the lines of a text as `load_curated` does; errors call it `name`."""
    try:
        tables = parse_toml(text)
    except ValueError as error:
        raise BadContextFile(name, f"it is not TOML: {error}") from None
    lines = list(_entries(tables, name))
    if len(lines) > limits.CURATED_LINES:
        raise BadContextFile(name, f"it has {len(lines)} entries; give at most {limits.CURATED_LINES}")
    return in_order(lines)


def in_order(lines: Iterable[CuratedLine]) -> tuple[CuratedLine, ...]:
    """Sort lines by priority, then constraints, anti-patterns, rubrics; the sort is stable."""
    return tuple(sorted(lines, key=lambda line: (line.priority, _KINDS.index(line.kind))))


def curated_beside(path: str | Path) -> Path | None:
    """Return the file of curated constraints beside an ontology's file, or in its folder; None without one."""
    place = Path(path)
    folder = place if place.is_dir() else place.parent
    found = (folder / name.format(stem=place.stem) for name in BESIDE)
    return next((file for file in found if file.is_file()), None)


_KINDS: tuple[CuratedKind, ...] = ("constraint", "anti_pattern", "rubric")


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
        raise BadContextFile(name, f"{place}: {reason_of(error, CuratedLine)}") from None
