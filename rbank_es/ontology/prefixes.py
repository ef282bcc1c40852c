"""Prefixes: they shorten IRIs and expand names; one is chosen for each namespace of an ontology."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from rbank_es import limits
from rbank_es.ontology import rdf_names

WELL_KNOWN: dict[str, str] = {
    "rdf": rdf_names.RDF,
    "rdfs": rdf_names.RDFS,
    "owl": rdf_names.OWL,
    "xsd": rdf_names.XSD,
    "skos": rdf_names.SKOS,
    "skosxl": "http://www.w3.org/2008/05/skos-xl#",
    "sh": rdf_names.SH,
    "dcterms": rdf_names.DCTERMS,
    "dc": rdf_names.DC,
    "dcam": rdf_names.DCAM,
    "foaf": rdf_names.FOAF,
    "schema": "http://schema.org/",
    "vann": rdf_names.VANN,
    "void": rdf_names.VOID,
    "sd": rdf_names.SD,
    "prov": "http://www.w3.org/ns/prov#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "adms": "http://www.w3.org/ns/adms#",
    "odrl": "http://www.w3.org/ns/odrl/2/",
    "org": "http://www.w3.org/ns/org#",
    "oa": "http://www.w3.org/ns/oa#",
    "ldp": "http://www.w3.org/ns/ldp#",
    "rr": "http://www.w3.org/ns/r2rml#",
    "csvw": "http://www.w3.org/ns/csvw#",
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/",
    "time": "http://www.w3.org/2006/time#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "geo": "http://www.opengis.net/ont/geosparql#",
    "wgs": "http://www.w3.org/2003/01/geo/wgs84_pos#",
    "qb": "http://purl.org/linked-data/cube#",
    "pav": "http://purl.org/pav/",
    "bibo": "http://purl.org/ontology/bibo/",
    "cc": "http://creativecommons.org/ns#",
    "doap": "http://usefulinc.com/ns/doap#",
    "sioc": "http://rdfs.org/sioc/ns#",
    "obo": "http://purl.obolibrary.org/obo/",
    "oboInOwl": "http://www.geneontology.org/formats/oboInOwl#",
    "faldo": "http://biohackathon.org/resource/faldo#",
    "up": "http://purl.uniprot.org/core/",
    "taxon": "http://purl.uniprot.org/taxonomy/",
    "brick": "https://brickschema.org/schema/Brick#",
    "rec": "https://w3id.org/rec#",
    "qudt": "http://qudt.org/schema/qudt/",
    "unit": "http://qudt.org/vocab/unit/",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
    "p": "http://www.wikidata.org/prop/",
    "ps": "http://www.wikidata.org/prop/statement/",
    "pq": "http://www.wikidata.org/prop/qualifier/",
    "wikibase": "http://wikiba.se/ontology#",
    "bd": "http://www.bigdata.com/rdf#",
    "dbo": "http://dbpedia.org/ontology/",
    "dbr": "http://dbpedia.org/resource/",
    "dbp": "http://dbpedia.org/property/",
}
"""Prefixes with one common meaning (source: prefix.cc, the Wikidata and UniProt query services)."""

# SPARQL 1.1, 19.8: PN_CHARS_BASE up to U+FFEF, PN_CHARS; PN_PREFIX and PN_LOCAL without escapes.
_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
)
_CHARS = _BASE + "_0-9\u00b7\u0300-\u036f\u203f-\u2040-"
_PREFIX = re.compile(f"[{_BASE}](?:[{_CHARS}.]{{0,{limits.PREFIX_CHARS - 2}}}[{_CHARS}])?")
_LOCAL = re.compile(f"[{_BASE}_:0-9](?:[{_CHARS}.:]*[{_CHARS}:])?")
_SHOWN_LOCAL = re.compile(f"[{_BASE}_:0-9][{_CHARS}:]*(?:\\.+[{_CHARS}:]+)?")
"""A local name with dots at one place at most: pyoxigraph 0.5 refuses `ec:1.1.1.353`, though SPARQL allows it."""
_DOTS = re.compile(r"(?<!\\)\.+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|(?:urn|mailto|tag|doi|info|dtmi):")


class Prefixes(Mapping[str, str]):
    """Namespaces by prefix, immutable, of the namespaces that an ontology uses."""

    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self._namespaces = dict(sorted(namespaces.items()))
        # Reversed, so that of several prefixes of one namespace the first by name wins.
        self._prefixes = {namespace: prefix for prefix, namespace in reversed(self._namespaces.items())}
        self._longest_first = sorted(self._prefixes, key=lambda namespace: (-len(namespace), namespace))

    def __getitem__(self, prefix: str) -> str:
        return self._namespaces[prefix]

    def __iter__(self) -> Iterator[str]:
        return iter(self._namespaces)

    def __len__(self) -> int:
        return len(self._namespaces)

    def __repr__(self) -> str:
        return f"Prefixes({self._namespaces!r})"

    def shorten(self, iri: str) -> str:
        """Return the prefixed name of an IRI; `<iri>` where no prefix fits or an engine might refuse the name."""
        # The longest first, because namespaces may begin with one another.
        for namespace in self._longest_first:
            if iri.startswith(namespace) and _SHOWN_LOCAL.fullmatch(iri, len(namespace)):
                return f"{self._prefixes[namespace]}:{iri[len(namespace) :]}"
        return f"<{iri}>"

    def expand(self, name: str) -> str | None:
        """Return the IRI of a prefixed name, of `<iri>` or of a bare IRI; None for an unknown prefix.

        Well-known prefixes count too, unless the ontology gives them another meaning.
        """
        name = name.strip()
        if name.startswith("<") and name.endswith(">"):
            return name[1:-1]
        prefix, colon, local = name.partition(":")
        if not colon:
            return None
        namespace = self._namespaces.get(prefix) or WELL_KNOWN.get(prefix)
        # `http://…` is an IRI, not the name `//…` with the prefix `http`.
        if namespace is not None and not local.startswith("//"):
            return namespace + local
        return name if _SCHEME.match(name) else None


def namespace_of(iri: str) -> str:
    """Return an IRI up to and with its last `#`, else its last `/`, else its last `:`."""
    for separator in "#/:":
        end = iri.rfind(separator)
        if end >= 0:
            return iri[: end + 1]
    return ""


def local_name(iri: str) -> str:
    """Return the part of an IRI after its namespace; if that is empty, its last segment."""
    return iri[len(namespace_of(iri)) :] or iri.rstrip("#/:").rpartition("/")[2]


def is_refused(name: str) -> bool:
    """Return whether pyoxigraph refuses a prefixed name that SPARQL allows: it has dots at two places or more."""
    return len(_DOTS.findall(name.partition(":")[2])) > 1


def count_namespaces(iris: Collection[str], declared: Iterable[str]) -> Counter[str]:
    """Return how many of the IRIs each namespace holds: those found by splitting, and the declared ones."""
    counts = Counter(map(namespace_of, iris))
    odd = [namespace for namespace in set(declared) if namespace and namespace not in counts]
    if odd:
        ordered = sorted(iris)
        for namespace in odd:
            start = bisect_left(ordered, namespace)
            # The largest code point: it sorts behind every IRI of the namespace.
            end = bisect_left(ordered, namespace + "\U0010ffff")
            fitting = sum(bool(_LOCAL.fullmatch(iri, len(namespace))) for iri in ordered[start:end])
            counts.update({namespace: fitting} if fitting else {})
    return counts


def choose_prefixes(
    declared: Iterable[tuple[str, str]],
    counts: Mapping[str, int],
    preferred: Iterable[tuple[str, str]] = (),
    vocabulary: Collection[str] = (),
) -> dict[str, str]:
    """Return one prefix for each namespace that occurs and has a name, sorted by prefix.

    A namespace takes the prefix that its ontology prefers (vann), else one that a file declares, else the well-known
    one. Of several that are declared it takes the well-known one, else the shortest, else the first by name. A
    namespace of the `vocabulary` without any of these gets one from its last path segment. Where two namespaces want
    the same prefix, a better claim wins, then the namespace that occurs more often, then the first by name. Empty and
    invalid prefixes are no claim.

    Args:
        declared: pairs of prefix and namespace, of all files, in any order.
        counts: how often each namespace occurs (`count_namespaces`).
        preferred: pairs of prefix and namespace that the ontology itself asks for.
        vocabulary: namespaces of classes and properties.
    """
    # Some ontologies write well-known namespaces with https.
    secure = [(prefix, space.replace("http://", "https://")) for prefix, space in WELL_KNOWN.items()]
    tiers: tuple[Iterable[tuple[str, str]], ...] = (preferred, declared, WELL_KNOWN.items(), secure)
    chosen: dict[str, str] = {}
    for tier in tiers:
        _claim(chosen, [pair for pair in tier if counts.get(pair[1]) and _PREFIX.fullmatch(pair[0])], counts)
    taken = set(chosen.values())
    for namespace in sorted(set(vocabulary) - taken, key=lambda namespace: (-counts.get(namespace, 0), namespace)):
        chosen[_made_up(namespace, chosen)] = namespace
    return dict(sorted(chosen.items()))


def _claim(chosen: dict[str, str], claims: list[tuple[str, str]], counts: Mapping[str, int]) -> None:
    """Grant one prefix to each namespace that has none, the strongest claim first."""
    named = set(chosen.values())

    def strength(pair: tuple[str, str]) -> tuple[bool, int, str, int, str]:
        prefix, namespace = pair
        return (WELL_KNOWN.get(prefix) != namespace, -counts[namespace], namespace, len(prefix), prefix)

    for prefix, namespace in sorted(set(claims), key=strength):
        if namespace not in named and prefix not in chosen:
            chosen[prefix] = namespace
            named.add(namespace)


def _made_up(namespace: str, chosen: Mapping[str, str]) -> str:
    """Return a prefix from the last segment that is neither a version nor a file ending; else from the host."""
    scheme, _, rest = namespace.partition("://")
    segments = [segment for segment in re.split(r"[/#:]", rest or scheme) if segment]
    words = [re.sub(r"\.\w{2,4}$", "", segment) for segment in segments[1:]]
    words = [re.sub(r"[^a-z0-9]", "", word.lower()) for word in reversed(words)]
    host = segments[0].removeprefix("www.").split(".")[0].lower() if segments else ""
    base = next(
        (word for word in [*words, host] if _PREFIX.fullmatch(word) and len(word) <= limits.MADE_PREFIX_CHARS), "ns"
    )
    name, number = base, 1
    while name in chosen or name in WELL_KNOWN:
        number += 1
        name = f"{base}{number}"
    return name


# ---------------------------------------------------------------- the vocabulary
