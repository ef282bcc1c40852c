"""Terms as people and agents write them: the IRIs and the prefixed names in a text, be it prose or a query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from unicodedata import category

_START = r"(?:https?://|urn:[A-Za-z0-9][A-Za-z0-9-]+:)"
# A comma or semicolon may be part of an IRI; it ends one only if another IRI follows at once.
_IRI = re.compile(rf"{_START}(?:(?![,;]{_START})[^\s<>\"{{}}|\\^`\[\]])+")
_IN_PROSE = re.compile(r"(?<![\w:/.#@-])([A-Za-z][\w-]*):(\w[\w.-]*)")
# In a path of SPARQL, names stand behind `/` and `^`.
_IN_QUERY = re.compile(r"(?<![\w:.#@-])([A-Za-z][\w-]*):(\w[\w.-]*)")
_PREFIX = re.compile(r"\bPREFIX\s+([A-Za-z][\w.-]*):\s*<([^<>\s]+)>", re.IGNORECASE)
_ENDS = frozenset({"Po", "Pe", "Pf", "Pi", "Ps"})
"""Unicode categories that end an IRI in a sentence, beyond ASCII. Of dashes, only the em dash does."""


def written_terms(text: str, prefixes: Mapping[str, str], *, with_queries: bool = False) -> dict[str, str]:
    """Return the IRIs in a text, written in full or with one of the prefixes, each with the text that names it.

    A namespace of a prefix doesn't count as a term. `with_queries`: the text may hold SPARQL, whose own declarations
    of prefixes count before the given ones.
    """
    known = {**prefixes, **dict(_PREFIX.findall(text))} if with_queries else prefixes
    namespaces = {namespace.rstrip("#/") for namespace in known.values()}
    found = {iri: iri for iri in map(_trimmed, _IRI.findall(text)) if iri.rstrip("#/") not in namespaces}
    for match in (_IN_QUERY if with_queries else _IN_PROSE).finditer(_IRI.sub(" ", text)):
        prefix, local = match.groups()
        if prefix in known:
            written = f"{prefix}:{local.rstrip('.-')}"
            found.setdefault(known[prefix] + local.rstrip(".-"), written)
    return found


def without_terms(text: str) -> str:
    """Return a text with a blank in the place of each IRI and each name with a prefix, known or not."""
    return _IN_QUERY.sub(" ", _IRI.sub(" ", text))


def _trimmed(iri: str) -> str:
    """Return an IRI without the punctuation of the sentence around it."""
    ends = (at for at, char in enumerate(iri) if char == "\u2014" or (not char.isascii() and category(char) in _ENDS))
    bare = iri[: next(ends, None)].rstrip(".,;:!?'*_")
    return bare.rstrip(")") if bare.count(")") > bare.count("(") else bare
