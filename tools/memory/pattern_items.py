"""Items in words: a procedure from the pattern of a query that worked, a pitfall from one that didn't."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rbank_es import limits
from rbank_es.events.items import Item
from rbank_es.events.items import truncate as cut
from rbank_es.ontology.labels import clip
from rbank_es.ontology.prefixes import Prefixes, local_name
from rbank_es.ontology.rdf_names import LABELS
from rbank_es.ontology.schema_model import Bound, PropertyInfo
from rbank_es.tools.lookup.failure_hints import checks
from rbank_es.tools.memory.query_extractor import Evidence
from rbank_es.tools.memory.query_pattern import Pattern, Terms, generalise

REASON_CHARS = 300
CHECKS_CHARS = 700
PREFIXES_CHARS = 500
MEANINGS = 5
MEANING_CHARS = 160
"""What a pitfall says of the reason and of what to check, what an item spends on prefixes, and of how many terms it
says in how many characters what they mean; the pattern has the rest."""

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


def procedure(evidence: Evidence) -> Item | None:
    """What to do again; None where the query names no class and no property."""
    terms = Terms(evidence.schema)
    pattern = generalise(evidence.query, evidence.prefixes, terms)
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


def pitfall(evidence: Evidence) -> Item | None:
    """What to avoid; None where the text is no query, or names no term at all."""
    terms = Terms(evidence.schema)
    pattern = generalise(evidence.query, evidence.prefixes, terms, broken=True)
    if pattern is None or not (pattern.classes or pattern.properties or pattern.unknown):
        return None
    fault = _fault(evidence)
    words = _scrubbed(evidence, pattern, terms)
    before = "\n\n".join((cut(f"What went wrong: {fault}. {words}".strip(), REASON_CHARS), "This pattern failed:", ""))
    listed = "\n".join(f"- {check}" for check in checks(pattern, terms, fault, evidence.prefixes))
    after = "\n\n".join(["", *filter(None, (f"Check:\n{cut(listed, CHECKS_CHARS)}", _prefixes(pattern, evidence)))])
    room = limits.ITEM_TITLE_CHARS - len(fault) - len("Pitfall: ; ")
    return Item.make(
        f"Pitfall: {_aim(pattern, terms, room)}; {fault}",
        _content(before, pattern, after),
        "failure",
        desc=cut(f"{fault[0].upper()}{fault[1:]}: {_described(pattern)}.", limits.ITEM_DESC_CHARS),
        tags=("sparql", pattern.form.lower(), "pitfall", *pattern.features),
        domain=evidence.domain,
    )


# ---------------------------------------------------------------- words


def _aim(pattern: Pattern, terms: Terms, room: int) -> str:
    """What the query is for, such as `protein with disease, given organism`, in so many characters."""
    for most in (4, 3, 2, 1):
        aim = _aim_of(pattern, terms, most)
        if len(aim) <= room:
            return aim
    return cut(aim, room)


def _aim_of(pattern: Pattern, terms: Terms, most: int) -> str:
    sought = _sought(pattern)
    classes = _listed(pattern.classes, terms.words, most)
    having = _listed(sought, terms.words, most)
    given = _listed(pattern.given, terms.words, most)
    verb = _verb(pattern)
    what = f"{classes or 'things'} with {having}" if having and (classes or verb) else having or classes or "things"
    return f"{verb}{what}{f', given {given}' if given else ''}"


def _sought(pattern: Pattern) -> Sequence[str]:
    """The properties that the query follows to something new; labels where there are no others."""
    new = [iri for iri in pattern.properties if iri not in pattern.given]
    return [iri for iri in new if iri not in LABELS] or new


def _verb(pattern: Pattern) -> str:
    """What is made of what is sought, as it stands before it; nothing where it is just found."""
    if pattern.form == "SELECT" and "aggregate" in pattern.features:
        return "figures over " if _AGGREGATES.search(pattern.text) else "count of "
    return {"SELECT": "", "ASK": "check for ", "CONSTRUCT": "graph of ", "DESCRIBE": "description of "}[pattern.form]


def _listed(iris: Sequence[str], name: Callable[[str], str], most: int) -> str:
    names = list(dict.fromkeys(name(iri) for iri in iris))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _desc(pattern: Pattern, evidence: Evidence) -> str:
    article = "An" if pattern.form[0] in "AEIOU" else "A"
    told = f"{article} {pattern.form} query {_described(pattern)}{_given_back(pattern, evidence)}."
    return cut(told, limits.ITEM_DESC_CHARS)


def _described(pattern: Pattern) -> str:
    name = pattern.prefixes.shorten
    over = f"over {_listed(pattern.classes, name, 3)}" if pattern.classes else "over things of any class"
    by = f" by {_listed(pattern.properties, name, 4)}" if pattern.properties else ""
    made = f", with {', '.join(pattern.features)}" if pattern.features else ""
    return f"{over}{by}{made}"


def _given_back(pattern: Pattern, evidence: Evidence) -> str:
    given = [name for own, name in pattern.variables.items() if own in evidence.variables]
    return "; it gives " + ", ".join(f"?{name}" for name in given) if given and pattern.form == "SELECT" else ""


def _meanings(pattern: Pattern, terms: Terms) -> str:
    """What the ontology says of what is sought. Patterns that differ in one term alone are told apart by it."""
    told = [f"{pattern.prefixes.shorten(iri)}: {_meaning(iri, terms)}" for iri in _sought(pattern) or pattern.classes]
    return "\n".join(told[:MEANINGS])


def _meaning(iri: str, terms: Terms) -> str:
    """The comment of a term; of one without, its name in words, and the classes between which it leads."""
    known = terms.classes.get(iri) or terms.properties.get(iri)
    if known is not None and known.comment:
        return clip(known.comment, MEANING_CHARS)
    links = [link for link in terms.schema.links if link.property == iri]
    ends = [(terms.words(link.subject), terms.words(link.object)) for link in links]
    if isinstance(known, PropertyInfo) and not ends and (known.domains or known.ranges):
        ends = [(_any_of(known.domains, terms), _any_of(known.ranges, terms))]
    leads = " or ".join(dict.fromkeys(f"{one} to {other}" for one, other in ends))
    return clip(f"{terms.words(iri)}, {leads}" if leads else terms.words(iri), MEANING_CHARS)


def _any_of(bounds: Sequence[Bound], terms: Terms) -> str:
    return ", ".join(dict.fromkeys(terms.words(bound.iri) for bound in bounds)) or "anything"


def _prefixes(pattern: Pattern, evidence: Evidence) -> str:
    """Lines for the prefixes that a query must declare: those of the ontology need none."""
    own = {(prefix, namespace) for prefix, namespace in pattern.prefixes.items()} - set(evidence.prefixes.items())
    return cut("\n".join(f"PREFIX {prefix}: <{namespace}>" for prefix, namespace in sorted(own)), PREFIXES_CHARS)


def _content(before: str, pattern: Pattern, after: str) -> str:
    return before + cut(pattern.text, limits.ITEM_CONTENT_CHARS - len(before) - len(after)) + after


# ---------------------------------------------------------------- what went wrong


def _fault(evidence: Evidence) -> str:
    """What went wrong, in one of a few phrases."""
    codes = (evidence.error_code, *_WORD.findall(evidence.reason))
    named = next((_FAULT_OF_CODE[code] for code in codes if code in _FAULT_OF_CODE), "")
    told = next((fault for fault, pattern in _FAULT_IN_WORDS if pattern.search(evidence.reason)), "")
    if evidence.rows == 0:
        return named or "it found nothing"
    return named or told or ("its answer was wrong" if evidence.rows else "it failed")


def _scrubbed(evidence: Evidence, pattern: Pattern, terms: Terms) -> str:
    """The reason as one line, without the data of the query and without what is quoted, unless it is a term."""
    expand = Prefixes(evidence.prefixes).expand

    def shown(quoted: re.Match[str]) -> str:
        inside = quoted[0].strip("'\"`<>")
        iri = expand(inside)
        return f"`{inside}`" if iri is not None and terms.has(iri) else _HIDDEN

    hidden = {word.casefold() for data in pattern.data for word in _WORD.findall(_local(data))}
    reason = _QUOTED.sub(shown, " ".join(evidence.reason.split()))
    return _WORD.sub(lambda word: _HIDDEN if word[0].casefold() in hidden else word[0], reason)


def _local(data: str) -> str:
    """Of an IRI its local name; a literal whole."""
    return data if data[:1] in "\"'" else local_name(data)
