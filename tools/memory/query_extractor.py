"""Extractors: a memory from a query that worked, or a warning from one that didn't.

An extractor only proposes. Its item is recorded as `memory_proposed`, and becomes active only after the run was judged,
if the policies add it. The one here needs no model: it makes a pattern of the query, without its data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryRefused
from rbank_es.events import MemoryProposed
from rbank_es.events.codec import encodable
from rbank_es.events.items import Item, one_line
from rbank_es.limits import tool_limits
from rbank_es.ontology.prefixes import Prefixes, local_name
from rbank_es.ontology.rdf_names import LABELS
from rbank_es.ontology.schema_model import Bound, PropertyInfo, Schema
from rbank_es.sparql.parser.parsed_query import ParsedQuery, parse_leniently, parse_query
from rbank_es.system.text_cuts import cut_words
from rbank_es.tools.graph.failure_hints import checks
from rbank_es.tools.memory.generalised_query import GeneralisedQuery, Terms, generalise

if TYPE_CHECKING:
    from rbank_es.sparql.data_source import Source


class ProposalEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about one query that an extractor works from.

    `reason` says why it was judged a success, or what went wrong; `error_code` is the code of the error, if a tool
    gave one. `rows` is the number of its rows (triples, for a graph), None where that is not known. `domain` is the id
    of the ontology, `prefixes` and `schema` are those of the ontology. `parsed` is the query as the guard parsed it,
    where it ran.
    """

    query: str
    parsed: ParsedQuery | None = None
    task: str = ""
    reason: str = ""
    error_code: str = ""
    variables: tuple[str, ...] = ()
    rows: int | None = None
    domain: str | None = None
    prefixes: Mapping[str, str] = {}
    schema: Schema | None = None

    @classmethod
    def on(
        cls,
        source: Source | None,
        query: str | ParsedQuery,
        *,
        domain: str | None,
        task: str = "",
        variables: tuple[str, ...] = (),
        rows: int | None,
    ) -> ProposalEvidence:
        """Return the evidence of a query of this run, with what its source knows about the ontology."""
        return cls(
            query=query if isinstance(query, str) else query.text,
            parsed=None if isinstance(query, str) else query,
            task=task,
            variables=variables,
            rows=rows,
            domain=domain,
            prefixes={} if source is None else source.surroundings.prefixes,
            schema=None if source is None else source.schema,
        )


class Extractor(Protocol):
    """A maker of items from evidence, within the limits of items; None where there is nothing to learn."""

    @property
    def label(self) -> str:
        """Name and version, such as `query-pattern-1`."""
        ...

    def from_success(self, evidence: ProposalEvidence) -> Item | None:
        """Return a strategy from a query that answered its question."""
        ...

    def from_failure(self, evidence: ProposalEvidence) -> Item | None:
        """Return a guardrail from a query that failed, or whose answer was empty or wrong."""
        ...


class QueryPattern:
    """An extractor without a model: the query's pattern, with places to fill in where its data stood.

    Two queries that differ only in their literals, the instances they name, their variables, prefixes, comments and
    layout give the same item; so nothing of these is in it. What stays are the classes, the properties, and how they
    hang together. A query that names neither class nor property gives nothing.
    """

    label = "query-pattern-1"

    def from_success(self, evidence: ProposalEvidence) -> Item | None:
        """See `Extractor`. None also for a query that gave no rows: it found no answer."""
        return None if evidence.rows == 0 else strategy(evidence)

    def from_failure(self, evidence: ProposalEvidence) -> Item | None:
        """See `Extractor`."""
        return guardrail(evidence)


def proposal(item: Item, *, run: str, call: str, by: str, why: str = "") -> MemoryProposed:
    """Return the event by which a call of a run proposes an item."""
    reason = encodable(why)[: limits.ERROR_CHARS]
    return MemoryProposed(run=run, by=by, call=call, head=item.head, candidate=item.text, why=reason)


_AGGREGATES = re.compile(r"\b(?:SUM|AVG|MIN|MAX|SAMPLE|GROUP_CONCAT)\(")
_QUOTED = re.compile(r"""(?<!\w)'[^']*'(?!\w)|"[^"]*"|`[^`]*`|<[^<>\s]*>|\bhttps?://\S+""")
_WORD = re.compile(r"\w+")
_HIDDEN = "«…»"

_FAULTS = {
    "it found nothing": ("empty", "no_rows"),
    "it took too long": ("timeout", "slow_here", "too_many_requests"),
    "it was too large": ("out_of_memory", "too_long", "too_large", "cut_answer"),
    "it could not be parsed": ("syntax", "bad_query"),
    "it names what the ontology doesn't have": ("unknown_term", "unknown_prefix"),
    "it is not allowed": ("not_read_only", "service_refused", "from_refused"),
}
_FAULT_OF_CODE = {code: fault for fault, codes in _FAULTS.items() for code in codes}
_FAULT_IN_WORDS = (
    ("it took too long", re.compile(r"\btime(?:d|s)?[ -]?outs?\b|\btoo (?:long|slow)\b", re.IGNORECASE)),
    ("it could not be parsed", re.compile(r"\bsyntax\b|\bpars(?:e|ed|ing|er)\b", re.IGNORECASE)),
    ("it found nothing", re.compile(r"\b(?:no|0|zero) (?:rows?|results?|matches|answers?)\b|\bempty\b", re.IGNORECASE)),
)


def strategy(evidence: ProposalEvidence) -> Item | None:
    """Return an item on what to do again; None where the query names no class and no property."""
    terms = Terms(evidence.schema)
    parsed = evidence.parsed or _parsed(evidence)
    pattern = generalise(parsed, evidence.prefixes, terms) if parsed else None
    if pattern is None or not (pattern.classes or pattern.properties):
        return None
    after = "\n\n".join(["", *filter(None, (_meanings(pattern, terms), _prefixes(pattern, evidence)))])
    return Item.make(
        f"Query: {_aim(pattern, terms, limits.ITEM_TITLE_CHARS - len('Query: '))}",
        _content("Fill in what stands in «».\n\n" if "«" in pattern.text else "", pattern, after),
        "success",
        desc=_desc(pattern, evidence),
        tags=("sparql", pattern.form.lower(), *pattern.features),
        domain=evidence.domain,
    )


def _parsed(evidence: ProposalEvidence) -> ParsedQuery | None:
    try:
        return parse_query(evidence.query, evidence.prefixes)
    except QueryRefused:
        return None


def guardrail(evidence: ProposalEvidence) -> Item | None:
    """Return an item on what to avoid; None where the text is no query, or names no term at all."""
    terms = Terms(evidence.schema)
    parsed = evidence.parsed or parse_leniently(evidence.query, evidence.prefixes)
    pattern = generalise(parsed, evidence.prefixes, terms) if parsed else None
    if pattern is None or not (pattern.classes or pattern.properties or pattern.unknown):
        return None
    fault = _fault(evidence)
    words = _scrubbed(evidence, pattern, terms)
    before = "\n\n".join(
        (
            cut_words(f"What went wrong: {fault}. {words}".strip(), tool_limits.PATTERN_REASON_CHARS),
            "This pattern failed:",
            "",
        )
    )
    listed = "\n".join(f"- {check}" for check in checks(pattern, terms, fault, evidence.prefixes))
    after = "\n\n".join(
        [
            "",
            *filter(
                None, (f"Check:\n{cut_words(listed, tool_limits.PATTERN_CHECKS_CHARS)}", _prefixes(pattern, evidence))
            ),
        ]
    )
    room = limits.ITEM_TITLE_CHARS - len(fault) - len("Pitfall: ; ")
    return Item.make(
        f"Pitfall: {_aim(pattern, terms, room)}; {fault}",
        _content(before, pattern, after),
        "failure",
        desc=cut_words(f"{fault[0].upper()}{fault[1:]}: {_described(pattern)}.", limits.ITEM_DESC_CHARS),
        tags=("sparql", pattern.form.lower(), "pitfall", *pattern.features),
        domain=evidence.domain,
    )


# ---------------------------------------------------------------- words


def _aim(pattern: GeneralisedQuery, terms: Terms, room: int) -> str:
    """Return the query's aim, such as `protein with disease, given organism`, in so many characters."""
    for most in (4, 3, 2, 1):
        aim = _aim_of(pattern, terms, most)
        if len(aim) <= room:
            return aim
    return cut_words(aim, room)


def _aim_of(pattern: GeneralisedQuery, terms: Terms, most: int) -> str:
    sought = _sought(pattern)
    classes = _listed(pattern.classes, terms.words, most)
    having = _listed(sought, terms.words, most)
    given = _listed(pattern.given, terms.words, most)
    verb = _verb(pattern)
    what = f"{classes or 'things'} with {having}" if having and (classes or verb) else having or classes or "things"
    return f"{verb}{what}{f', given {given}' if given else ''}"


def _sought(pattern: GeneralisedQuery) -> Sequence[str]:
    """Return the properties that the query follows to something new; labels where there are no others."""
    new = [iri for iri in pattern.properties if iri not in pattern.given]
    return [iri for iri in new if iri not in LABELS] or new


def _verb(pattern: GeneralisedQuery) -> str:
    """Return the words before the things sought, such as `count of `; none for a plain search."""
    if pattern.form == "SELECT" and "aggregate" in pattern.features:
        return "figures over " if _AGGREGATES.search(pattern.text) else "count of "
    return {"SELECT": "", "ASK": "check for ", "CONSTRUCT": "graph of ", "DESCRIBE": "description of "}[pattern.form]


def _listed(iris: Sequence[str], name: Callable[[str], str], most: int) -> str:
    names = list(dict.fromkeys(name(iri) for iri in iris))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _desc(pattern: GeneralisedQuery, evidence: ProposalEvidence) -> str:
    article = "An" if pattern.form[0] in "AEIOU" else "A"
    words = f"{article} {pattern.form} query {_described(pattern)}{_given_back(pattern, evidence)}."
    return cut_words(words, limits.ITEM_DESC_CHARS)


def _described(pattern: GeneralisedQuery) -> str:
    name = pattern.prefixes.shorten
    over = (
        f"over {_listed(pattern.classes, name, tool_limits.PATTERN_CLASSES_NAMED)}"
        if pattern.classes
        else "over things of any class"
    )
    by = f" by {_listed(pattern.properties, name, tool_limits.PATTERN_PROPERTIES_NAMED)}" if pattern.properties else ""
    made = f", with {', '.join(pattern.features)}" if pattern.features else ""
    return f"{over}{by}{made}"


def _given_back(pattern: GeneralisedQuery, evidence: ProposalEvidence) -> str:
    given = [name for own, name in pattern.variables.items() if own in evidence.variables]
    return "; it gives " + ", ".join(f"?{name}" for name in given) if given and pattern.form == "SELECT" else ""


def _meanings(pattern: GeneralisedQuery, terms: Terms) -> str:
    """Return the ontology's words on the terms sought: they tell apart patterns that differ in one term alone."""
    iris = _sought(pattern) or pattern.classes
    return "\n".join(
        f"{pattern.prefixes.shorten(iri)}: {_meaning(iri, terms)}" for iri in iris[: tool_limits.PATTERN_MEANINGS]
    )


def _meaning(iri: str, terms: Terms) -> str:
    """Return the comment of a term; of one without, its name in words, and the classes between which it leads."""
    known = terms.classes.get(iri) or terms.properties.get(iri)
    if known is not None and known.comment:
        return one_line(known.comment, tool_limits.PATTERN_MEANING_CHARS)
    links = [link for link in terms.schema.links if link.property == iri]
    ends = [(terms.words(link.subject), terms.words(link.object)) for link in links]
    if isinstance(known, PropertyInfo) and not ends and (known.domains or known.ranges):
        ends = [(_any_of(known.domains, terms), _any_of(known.ranges, terms))]
    leads = " or ".join(dict.fromkeys(f"{one} to {other}" for one, other in ends))
    return one_line(f"{terms.words(iri)}, {leads}" if leads else terms.words(iri), tool_limits.PATTERN_MEANING_CHARS)


def _any_of(bounds: Sequence[Bound], terms: Terms) -> str:
    return ", ".join(dict.fromkeys(terms.words(bound.iri) for bound in bounds)) or "anything"


def _prefixes(pattern: GeneralisedQuery, evidence: ProposalEvidence) -> str:
    """Return lines for the prefixes that a query must declare: those of the ontology need none."""
    # Those of the ontology are declared wherever it is asked.
    own = {(prefix, namespace) for prefix, namespace in pattern.prefixes.items()} - set(evidence.prefixes.items())
    return cut_words(
        "\n".join(f"PREFIX {prefix}: <{namespace}>" for prefix, namespace in sorted(own)),
        tool_limits.PATTERN_PREFIXES_CHARS,
    )


def _content(before: str, pattern: GeneralisedQuery, after: str) -> str:
    return before + cut_words(pattern.text, limits.ITEM_CONTENT_CHARS - len(before) - len(after)) + after


# ---------------------------------------------------------------- what went wrong


def _fault(evidence: ProposalEvidence) -> str:
    """Return the fault in one of a few phrases."""
    codes = (evidence.error_code, *_WORD.findall(evidence.reason))
    named = next((_FAULT_OF_CODE[code] for code in codes if code in _FAULT_OF_CODE), "")
    known = next((fault for fault, pattern in _FAULT_IN_WORDS if pattern.search(evidence.reason)), "")
    if evidence.rows == 0:
        return named or "it found nothing"
    return named or known or ("its answer was wrong" if evidence.rows else "it failed")


def _scrubbed(evidence: ProposalEvidence, pattern: GeneralisedQuery, terms: Terms) -> str:
    """Return the reason as one line, with the query's data and every quotation redacted, unless it is a term."""
    expand = Prefixes(evidence.prefixes).expand

    def shown(quoted: re.Match[str]) -> str:
        inside = quoted[0].strip("'\"`<>")
        iri = expand(inside)
        return f"`{inside}`" if iri is not None and terms.has(iri) else _HIDDEN

    hidden = {word.casefold() for data in pattern.data for word in _WORD.findall(_local(data))}
    # Quotations first: half a quoted name would otherwise survive between two redacted words.
    reason = _QUOTED.sub(shown, " ".join(evidence.reason.split()))
    return _WORD.sub(lambda word: _HIDDEN if word[0].casefold() in hidden else word[0], reason)


def _local(data: str) -> str:
    """Return the local name of an IRI; a literal whole."""
    return data if data[:1] in "\"'" else local_name(data)
