"""Terms and triples in their simplest form, whichever library parsed them.

An IRI is a `str`, a blank node a `str` that begins with `_:`, and a literal a `Literal`.
"""

from __future__ import annotations

from typing import NamedTuple


class Literal(NamedTuple):
    """A literal: its lexical form, and its language or datatype (an IRI; empty for plain strings)."""

    value: str
    lang: str = ""
    datatype: str = ""


Term = str | Literal
Triple = tuple[str, str, Term]

BLANK = "_:"
"""What a blank node begins with."""


def is_iri(term: Term) -> bool:
    """Whether a term is an IRI."""
    return isinstance(term, str) and not term.startswith(BLANK)
