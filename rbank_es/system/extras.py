"""The extras of this package: which packages each installs, and the error where one is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from rbank_es.errors import MissingExtra

EXTRAS = {
    **dict.fromkeys(("rdflib", "pyoxigraph"), "ontology"),
    **dict.fromkeys(("dspy", "deno", "regex"), "agent"),
    "scipy": "lab",
    "psycopg": "postgres",
    **dict.fromkeys(("pandas", "polars", "pyarrow"), "frames"),
    "opentelemetry": "otlp",
    **dict.fromkeys(("mcp", "mcp_types"), "mcp"),
    "langchain": "langchain",
    "agents": "openai-agents",
}
"""Packages that only an extra installs, with that extra."""

PURPOSES = {
    "ontology": "reading an ontology, or asking one in SPARQL,",
    "agent": "running an agent, or calling a model over dspy,",
    "lab": "a report of an experiment",
    "postgres": "a bank on a PostgreSQL server",
    "frames": "a frame or a Parquet file",
    "otlp": "reading OpenTelemetry's protobuf",
    "mcp": "the command mcp",
    "langchain": "middleware for LangChain",
    "openai-agents": "a recorder for the OpenAI Agents SDK",
}
"""What each extra is for, as messages say it."""


def missing_extra(error: BaseException) -> MissingExtra | None:
    """Return the error for an import that failed because an extra is not installed; None for any other error."""
    name = (error.name or "").split(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return MissingExtra(EXTRAS[name], PURPOSES[EXTRAS[name]]) if name in EXTRAS else None


@contextmanager
def named_extra() -> Iterator[None]:
    """Raise `MissingExtra` for an import in the `with` that failed because an extra is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error


def require(package: str) -> None:
    """Raise `MissingExtra` where a package of an extra is not installed. Imports nothing."""
    if find_spec(package) is None:
        raise MissingExtra(EXTRAS[package], PURPOSES[EXTRAS[package]])


def import_msgspec() -> None:
    """Import msgspec without `typing_extensions`, which it does without where that isn't installed: 3 ms less."""
    missing = "typing_extensions" not in sys.modules
    if missing:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    import msgspec  # noqa: F401

    if missing:
        del sys.modules["typing_extensions"]
