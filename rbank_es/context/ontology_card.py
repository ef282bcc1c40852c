"""L0, the sense card: the subject and size of an ontology in a few lines. Deterministic; no model, no query.

It shows size and formalism, prefixes, the most important classes and properties, where labels and definitions are
found, and which tool to call first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rbank_es import limits
from rbank_es.context.layer_sections import ContextRequest, Section, pack_sections, whole_words
from rbank_es.context.layer_text import LayerText
from rbank_es.context.term_order import RankedTerms, TaskWords, observed_terms
from rbank_es.ontology import rdf_names as names
from rbank_es.ontology.count_queries import sizes
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
from rbank_es.policies.packed_text import Packed, counted, plain, short_count

# Every model knows these, so naming them would waste room.
_DECLARED_BY_ALL = (names.RDF, names.RDFS, names.OWL, names.XSD, names.SH)
_KINDS = {"classes": "class", "properties": "property"}
_START = "sparql_peek a term, then sparql_query."
# Entries for which a section gets room before later sections get any: fewer say less than its title takes.
_FEWEST = 3
_TERMS = 200  # more than any card shows; shortening all IRIs of a large ontology would take seconds


def sense_card(
    schema: Schema,
    prefixes: Mapping[str, str],
    budget_chars: int = limits.CONTEXT_L0_CHARS,
    task: str | None = None,
    observed: Sequence[str] = (),
    *,
    name: str = "",
) -> Packed:
    """Return the card of a schema, on whole entries, within the budget.

    Args:
        schema: what is known about the ontology.
        prefixes: prefix to namespace IRI.
        budget_chars: characters of the whole card.
        task: if given, the terms that it names get a line of their own.
        observed: IRIs of terms that come first, the best first (`observed_terms`).
        name: the name of an ontology that has no title of its own.

    Raises `BadInput` for a budget below 0.
    """
    ranked = RankedTerms(schema, prefixes, observed)
    return pack_sections("L0", _heading(ranked, name), list(_sections(ranked, task)), budget_chars)


def layer(request: ContextRequest, budget_chars: int) -> LayerText | None:
    """Pack the card of the subject: see `Packer`."""
    subject = request.subject
    observed: tuple[str, ...] = ()
    if subject is None:
        return None
    if request.bank is not None and request.observed:
        observed = observed_terms(request.bank, subject.id, subject.prefixes, request.position)
    card = sense_card(subject.schema, subject.prefixes, budget_chars, request.slice_of, observed, name=subject.id)
    return LayerText(card)


def _heading(ranked: RankedTerms, name: str) -> str:
    schema = ranked.schema
    title = plain(schema.title) or plain(name) or ranked.naming.prefix or plain(schema.iri)
    return (
        f"# Graph: {whole_words(title, limits.CONTEXT_TITLE_CHARS)}"
        if whole_words(title, limits.CONTEXT_TITLE_CHARS)
        else "# Graph"
    )


def _sections(ranked: RankedTerms, task: str | None) -> Iterator[Section]:
    yield Section("", [_facts(ranked)], name="the facts")
    yield Section("Prefixes: ", list(_prefixes(ranked)))
    if task is not None:
        yield Section("For this task: ", _whole(_task_terms(ranked, TaskWords(task))), "; ", 4, _FEWEST)
    title = "Classes (×instances): " if ranked.has_data else "Classes: "
    yield Section(title, _whole(_class(ranked, info) for info in ranked.classes), ", ", 4, _FEWEST)
    yield _properties(ranked)
    yield Section("Schema (×triples): ", _whole(_counted(ranked, info) for info in ranked.between_terms))
    yield Section("Labels: ", _names(ranked, ranked.schema.label_properties), fewest=2)
    yield Section("Definitions: ", _names(ranked, ranked.schema.definition_properties), fewest=2)
    yield Section("Start: ", [_START])


def _whole(entries: Iterable[str]) -> list[str]:
    return [entry for entry in entries if len(entry) <= limits.CONTEXT_ENTRY_CHARS]


def _facts(ranked: RankedTerms) -> str:
    schema = ranked.schema
    if not ranked.terms and not schema.triples:
        return "Nothing is known of its schema yet: begin with sparql_schema()."
    size = {name: number for name, number in sizes(schema).items() if number}
    facts = [counted(size["triples"], "triple")] if "triples" in size else []
    facts += schema.formalisms
    facts += _declared(size)
    facts += _instances(ranked, size)
    facts += [counted(size[f"{noun}s"], noun) for noun in ("concept", "named graph") if f"{noun}s" in size]
    return ", ".join(facts)


def _declared(size: Mapping[str, int]) -> list[str]:
    """Return the numbers of classes and properties that are declared, of others those in use, else those known."""
    numbers = {kind: size[f"{kind} declared"] for kind in _KINDS if f"{kind} declared" in size}
    if declared := _kinds_counted(numbers):
        return [*declared[:-1], f"{declared[-1]} declared"]
    if "properties in use" in size:
        return [f"{counted(size['properties in use'], 'property', 'properties')} in use"]
    return _kinds_counted(size)


def _kinds_counted(size: Mapping[str, int]) -> list[str]:
    return [counted(size[kind], noun, kind) for kind, noun in _KINDS.items() if kind in size]


def _instances(ranked: RankedTerms, size: Mapping[str, int]) -> list[str]:
    """Return the number of instances with that of their classes; of an endpoint that of the classes alone."""
    classes = size.get("classes with instances", 0)
    of = f" of {counted(classes, 'class', 'classes')}" if classes else ""
    if "instances" in size:
        some = size["instances"] != size.get("instances of classes", size["instances"])
        part = f", {short_count(size['instances of classes'])}" if some else ""
        return [f"{counted(size['instances'], 'instance')}{part}{of}"]
    return [f"instances{of} at the endpoint"] if ranked.has_instances else ["no instances"]


def _prefixes(ranked: RankedTerms) -> Iterator[str]:
    naming = ranked.naming
    if naming.prefix and len(naming.namespace) <= limits.CONTEXT_ENTRY_CHARS:
        yield f"{plain(naming.prefix)} <{plain(naming.namespace)}> (omitted below)"
    used = dict.fromkeys(ranked.prefixes.shorten(info.iri).partition(":")[0] for info in ranked.terms[:_TERMS])
    # Prefixes of the shown terms first, because the line is truncated at the end.
    for prefix in dict.fromkeys((*used, *sorted(ranked.prefixes))):
        namespace = ranked.prefixes.get(prefix, "")
        if (
            namespace
            and prefix != naming.prefix
            and namespace not in _DECLARED_BY_ALL
            and len(prefix) <= limits.CONTEXT_ENTRY_CHARS
        ):
            yield plain(prefix)


def _class(ranked: RankedTerms, info: ClassInfo) -> str:
    name = ranked.naming.name(info.iri)
    return f"{name}×{short_count(info.instances)}" if info.instances and ranked.has_data else name


def _property(ranked: RankedTerms, info: PropertyInfo) -> str:
    name, steps = ranked.naming.name(info.iri), _steps(ranked, info)
    return f"{name} ({steps})" if steps else name


def _properties(ranked: RankedTerms) -> Section:
    pairs = [(ranked.naming.name(info.iri), _steps(ranked, info)) for info in ranked.properties]
    fitting = [pair for pair in pairs if sum(map(len, pair)) <= limits.CONTEXT_ENTRY_CHARS]
    names, steps = ([pair[side] for pair in fitting] for side in (0, 1))
    return Section("Properties: ", names, "; ", 5, _FEWEST, notes=steps)


def _counted(ranked: RankedTerms, info: PropertyInfo) -> str:
    return f"{ranked.naming.name(info.iri)}×{short_count(info.triples or 0)}"


def _steps(ranked: RankedTerms, info: PropertyInfo) -> str:
    """Return the steps of a property between classes: in the data if few, else as declared, else the commonest.

    Without a declared domain, the classes whose instances have the property take its place. `…` stands for further
    steps, and for triples from or to what has no class.
    """
    naming = ranked.naming
    links = ranked.links_of(info.iri)
    domains, ranges = ranked.domains(info), ranked.ranges(info)
    if links and (len(links) <= limits.CONTEXT_SIDES or not (domains or ranges)):
        steps = ", ".join(
            f"{naming.name(link.subject)}→{naming.name(link.object)}" for link in links[: limits.CONTEXT_SIDES]
        )
        return f"{steps}, …" if len(links) > limits.CONTEXT_SIDES or info.unlinked else steps
    if domains:
        return ranked.steps(domains, ranges, limits.CONTEXT_SIDES)
    return ranked.steps(ranked.users_of(info.iri), ranges, limits.CONTEXT_SIDES, others=info.untyped)


def _names(ranked: RankedTerms, properties: Iterable[str]) -> list[str]:
    return _whole(map(ranked.naming.name, properties))


def _task_terms(ranked: RankedTerms, task: TaskWords) -> list[str]:
    """Return the terms that fit the task best, labels and definitions among them."""
    infos = (*ranked.terms, *ranked.unspoken)
    chosen = [
        infos[place] for place in task.best(((info.iri, info.label) for info in infos), limits.CONTEXT_TASK_TERMS)
    ]
    return [_class(ranked, info) if isinstance(info, ClassInfo) else _property(ranked, info) for info in chosen]
