"""The options that name an ontology or another source, and how a command opens what they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from rbank_es.cli.shared.command_registry import decorated
from rbank_es.data import LIGHTS

if TYPE_CHECKING:
    from rbank_es.ontology.loader import Ontology
    from rbank_es.ontology.source_names import Names
    from rbank_es.sparql.data_source import Source

ONTOLOGY_HELP = f"A file or directory of RDF; '{LIGHTS}' is the small ontology that comes with rbank-es."


def ontology_options(help: str = ONTOLOGY_HELP, **attributes: Any) -> Callable[..., Callable[..., Any]]:
    """Return `--ont`, passed as the argument `paths`, and `--skip-unreadable`, which `skips_unreadable` reads."""
    return decorated(
        click.option("--ont", "paths", metavar="PATH", multiple=True, help=help, **attributes), skip_option
    )


def _note_skip(context: click.Context, option: click.Parameter, value: bool) -> None:
    # Kept in the context, because whatever opens an ontology of the command obeys it.
    context.meta[_SKIP] = value


_SKIP = "rbank_es.skip_unreadable"
skip_option = click.option(
    "--skip-unreadable", is_flag=True, expose_value=False, callback=_note_skip,
    help="Go on without the files that can't be read; they are named.",
)  # fmt: skip


def skips_unreadable() -> bool:
    """Return whether the command goes on without the files that can't be read."""
    return bool(click.get_current_context().meta.get(_SKIP))


def read_ontology(names: Names, id: str | None = None) -> Ontology:
    """Return the ontology that the command line names, as one dataset. Raises as `load_ontology` does."""
    from rbank_es.ontology.loader import load_ontology

    return load_ontology(names, id=id, skip_unreadable=skips_unreadable())


def open_named(
    names: Sequence[str] | Ontology, stack: ExitStack, *, endpoint: str | None = None, **options: Any
) -> Source:
    """Open the source that the command line names, to be closed by the stack. Raises as `open_source` does."""
    from rbank_es.sparql.data_source import open_source

    source = open_source(names or None, endpoint=endpoint, skip_unreadable=skips_unreadable(), **options)
    # Close at the end of the command: a local engine is a process of its own.
    stack.callback(source.close)
    return source


whole_option = click.option(
    "--whole/--not-whole", default=None,
    help="Whether the source has every individual that a right query may name: then what it lacks exists nowhere. "
    "Default: as the bank has it declared.",
)  # fmt: skip
