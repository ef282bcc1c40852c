"""Examples in the terms of a run's source: what an agent copies from a manual or a hint has to work there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rbank_es.sparql.example_query import example_class, example_query

if TYPE_CHECKING:
    from rbank_es.tools.shared.call_form import CallForm
    from rbank_es.tools.shared.tool_family import ToolSession

_MANUALS_CLASS = re.compile(r"\bup:(Protein\b)?")
"""The class, or its prefix alone, that the manuals of tools write in their examples."""


def in_terms_of(manual: str, cls: str | None) -> str:
    """Return the manual of a tool with a class of the source in its examples, where one with a prefix is known."""
    prefix, colon, _ = (cls or "").partition(":")
    if not colon or prefix.startswith("<"):
        return manual
    return _MANUALS_CLASS.sub(lambda found: str(cls) if found[1] else f"{prefix}:", manual)


def example_of(form: CallForm, session: ToolSession, arguments: Mapping[str, str]) -> str:
    """Return a call with these arguments and what else it requires; empty where no value of one is known."""
    known = {**_values(session), **arguments}
    named = {name: known.get(name) for name in dict.fromkeys([*form.needed, *arguments])}
    if not named or None in named.values():
        return ""
    return f"{form.name}({', '.join(f'{name}={value!r}' for name, value in named.items())})"


def _values(session: ToolSession) -> dict[str, str | None]:
    """Return values of common parameters that find something in this run."""
    cls, alias = example_class(session.source, session.question), session.store.last_alias
    return {
        "resource": cls,
        "cls": cls,
        "query": example_query(session.source, session.question),
        "result": alias,
        "ref": alias,
    }
