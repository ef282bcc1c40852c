"""Names of things in an ontology: short ones for the agent, safe ones for queries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rbank_es.tools.runtime.tool_session import ToolError

if TYPE_CHECKING:
    from rbank_es.ontology.prefixes import Prefixes
    from rbank_es.sparql.source import Source

_IRI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:"
    r"(?:%[0-9A-Fa-f]{2}|[^%\x00-\x20<>\"{}|^`\\\x7f-\x9f\ud800-\uf8ff\ufdd0-\ufdef\ufff0-\uffff\U000e0000-\U0010ffff])+"
)
"""An absolute IRI, as it may stand between angle brackets (SPARQL 1.1, 19.8, IRIREF; characters of RFC 3987, 2.2)."""

_JOINT = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"\w+")


class TermNames:
    """The prefixes that a source knows, to shorten IRIs and to understand what an agent gives."""

    def __init__(self, prefixes: Prefixes) -> None:
        self._prefixes = prefixes

    @classmethod
    def of(cls, source: Source) -> TermNames:
        """The names of a source: of its ontology, or of its endpoint's profile and description."""
        from rbank_es.ontology.prefixes import Prefixes

        known = source.ontology.prefixes if source.ontology is not None else Prefixes(source.surroundings.prefixes)
        return cls(known)

    @property
    def prefixes(self) -> Mapping[str, str]:
        """Prefix to namespace."""
        return self._prefixes

    def shorten(self, iri: str) -> str:
        """The IRI as it can stand in a query: `up:Protein`, or `<http://…>` where no prefix fits."""
        return self._prefixes.shorten(iri)

    def expand(self, name: str) -> str | None:
        """The IRI that a name means: `up:Protein`, `<http://…>` or the IRI itself; None for a name without a colon.

        Raises `ToolError` for an unknown prefix, a blank node, and what can't be an IRI.
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
        reference(iri)
        return iri

    def namespace(self, prefix: str) -> str:
        """The beginning of IRIs that a filter means: `up:`, `up`, or a namespace. Raises `ToolError`."""
        text = prefix.strip().removeprefix("<").removesuffix(">")
        if "/" in text or "#" in text or text.startswith("urn:"):
            return text
        name = text.partition(":")
        found = self._prefixes.expand(f"{name[0]}:")
        if found is None:
            raise self._unknown_prefix(text)
        return found + name[2]

    def _unknown_prefix(self, text: str) -> ToolError:
        known = ", ".join(f"{prefix}:" for prefix in sorted(self._prefixes)[:20])
        return ToolError(
            "unknown_prefix",
            f"the prefix of {text[:80]!r} is not known",
            f"known are: {known or 'none'}; or give the IRI as <http://…>",
        )


def reference(iri: str) -> str:
    """The IRI between angle brackets, for a query. Raises `ToolError` for what can't be an IRI there."""
    if not _IRI.fullmatch(iri):
        raise ToolError(
            "bad_iri",
            f"{iri[:80]!r} is no IRI",
            "give a prefixed name such as up:Protein, or an IRI without blanks and quotes, such as <http://…>",
        )
    return f"<{iri}>"


def literal(text: str) -> str:
    """A text as a string of SPARQL, whatever is in it."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'


def words_of(text: str) -> list[str]:
    """The words of a name or a sentence, in lower case; `hasPoint` and `Air_Flow_Sensor` are several."""
    return _WORD.findall(_JOINT.sub(" ", text).casefold())
