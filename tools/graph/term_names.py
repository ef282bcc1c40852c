"""Names of terms in calls and queries: IRIs shortened and expanded, and SPARQL text that is safe to build."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rbank_es import limits
from rbank_es.limits import tool_limits
from rbank_es.tools.shared.tool_family import ToolError

if TYPE_CHECKING:
    from rbank_es.ontology.prefixes import Prefixes
    from rbank_es.sparql.data_source import Source

_IRI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:"
    r"(?:%[0-9A-Fa-f]{2}|[^%\x00-\x20<>\"{}|^`\\\x7f-\x9f\ud800-\uf8ff\ufdd0-\ufdef\ufff0-\uffff\U000e0000-\U0010ffff])+"
)
"""An absolute IRI, as it may stand between angle brackets (SPARQL 1.1, 19.8, IRIREF; characters of RFC 3987, 2.2)."""


class TermNames:
    """The prefixes of a source, to shorten IRIs and to expand the names that an agent gives."""

    def __init__(self, prefixes: Prefixes) -> None:
        self._prefixes = prefixes

    @classmethod
    def of(cls, source: Source) -> TermNames:
        """Return the names of a source: of its ontology, or of its endpoint's profile and description."""
        from rbank_es.ontology.prefixes import Prefixes

        known = source.ontology.prefixes if source.ontology is not None else Prefixes(source.surroundings.prefixes)
        return cls(known)

    @property
    def prefixes(self) -> Mapping[str, str]:
        """Namespaces by prefix."""
        return self._prefixes

    def shorten(self, iri: str) -> str:
        """Return an IRI as it can stand in a query: `up:Protein`, or `<http://…>` where no prefix fits."""
        return self._prefixes.shorten(iri)

    def expand(self, name: str) -> str | None:
        """Return the IRI of `up:Protein`, `<http://…>` or a bare IRI; None for a name without a colon.

        Raises `ToolError` for an unknown prefix, a blank node, and a text that can't be an IRI.
        """
        text = name.strip()
        if ":" not in text:
            return None
        if text.startswith("_:"):
            raise ToolError(
                "blank_node",
                f"{text} is a blank node, which has no name outside its result",
                "reach it by a query that starts from something that is named",
            )
        iri = self._prefixes.expand(text)
        if iri is None:
            raise self._unknown_prefix(text)
        # Raises for an IRI that could break out of its angle brackets in a query.
        reference(iri)
        return iri

    def namespace(self, prefix: str) -> str:
        """Return the namespace that `up:`, `up` or a namespace stands for. Raises `ToolError` for an unknown prefix."""
        text = prefix.strip().removeprefix("<").removesuffix(">")
        # Only namespaces contain these; a prefix can't.
        if "/" in text or "#" in text or text.startswith("urn:"):
            return text
        name = text.partition(":")
        found = self._prefixes.expand(f"{name[0]}:")
        if found is None:
            raise self._unknown_prefix(text)
        return found + name[2]

    def _unknown_prefix(self, text: str) -> ToolError:
        return ToolError(
            "unknown_prefix",
            f"the prefix of {text[: limits.GIVEN_CHARS]!r} is not known",
            f"known are: {self._named()}; or give the IRI as <http://…>",
        )

    def none_begins_with(self, prefix: str) -> ToolError:
        """Return the error for a prefix with which no term of the source begins."""
        return ToolError(
            "no_such_terms",
            f"no class and no property here begins with {prefix[: limits.GIVEN_CHARS]!r}",
            f"leave filter_prefix out, or give one of: {self._named()}",
        )

    def _named(self) -> str:
        return ", ".join(f"{prefix}:" for prefix in sorted(self._prefixes)[: tool_limits.PREFIXES_NAMED]) or "none"


def reference(iri: str) -> str:
    """Return the IRI between angle brackets. Raises `ToolError` for a text that can't be an IRI there."""
    if not _IRI.fullmatch(iri):
        raise ToolError(
            "bad_iri",
            f"{iri[: limits.GIVEN_CHARS]!r} is no IRI",
            "give a prefixed name (prefix:Name), or an IRI without blanks and quotes, such as <http://…>",
        )
    return f"<{iri}>"


def literal(text: str) -> str:
    """Return the text as a SPARQL string, with all escapes that it needs."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'
