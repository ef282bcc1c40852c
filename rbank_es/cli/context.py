"""`context`: what an agent would be told before its first step, layer by layer, within which budgets."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rbank_es.bank import Bank
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import (
    ONTOLOGY_HELP,
    is_shipped,
    ontology_paths,
    open_at,
    parse_budget,
    read_ontology,
    refuse_mixtures,
)
from rbank_es.cli.shared.output import (
    Cell,
    echo,
    echo_heading,
    echo_json,
    echo_table,
    on_terminal,
    safe_block,
    safe_line,
    styled,
)
from rbank_es.data import lights

if TYPE_CHECKING:
    from rbank_es.context.assembly import Context
    from rbank_es.ontology.loader import Ontology
    from rbank_es.sparql.source import Source


class About(NamedTuple):
    """What a context is about, and the files that were written about it; a path is None where there is none."""

    ontology: Ontology | Source | None
    guide: Path | None
    constraints: Path | None


@command(
    "context",
    'rbank-es context sample --ont lights --task "Which lights are in service?"',
    'rbank-es context notes@HEAD~50 --ont model.ttl --task "How many?" --no-l3 --budget L1=400',
    'rbank-es context --endpoint uniprot --void void.ttl --task "Which proteins?" --preset lean',
)
@click.argument("bank", metavar="[BANK[@POINT]]", required=False)
@click.option("--ont", "paths", metavar="PATH", multiple=True, help=ONTOLOGY_HELP)
@click.option("--endpoint", metavar="URL|NAME", help="A SPARQL endpoint instead; nothing is asked of it.")
@click.option("--void", metavar="FILE", help="A VoID description of the endpoint.")
@click.option("--id", "id", metavar="ID", help="What the bank calls the ontology; its first file's name, unless given.")
@click.option("--task", metavar="TEXT", required=True, help="The question, as the agent would get it.")
@click.option("--l0/--no-l0", default=True, help="The sense card of the ontology.")
@click.option("--l1/--no-l1", default=True, help="Constraints: what holds, and what to avoid.")
@click.option("--l2/--no-l2", default=True, help="Procedures: what earlier runs taught.")
@click.option("--l3/--no-l3", default=True, help="The summary of a guide.")
@click.option("--preset", type=click.Choice(["full", "lean"]), default="full", show_default=True, help="The budgets.")
@click.option(
    "--mode", type=click.Choice(["auto", "tools", "both"]), default="auto", show_default=True,
    help="How memory reaches the agent: put in here, by its tools (no L2), or both.",
)  # fmt: skip
@click.option("--budget", "budgets", metavar="L1=400", multiple=True, help="Characters of one layer, or of 'base'.")
@click.option("--guide", metavar="FILE", help="A guide in Markdown; the latest in the bank, unless given.")
@click.option("--constraints", metavar="FILE", help="Curated constraints in TOML; those beside PATH, unless given.")
@click.option("--observed", is_flag=True, help="L0 begins with the terms that successful runs asked with.")
@click.option("--slice", "task_slice", is_flag=True, help="L0 and L1 begin with what the task names.")
def context(
    bank: str | None,
    paths: tuple[str, ...],
    endpoint: str | None,
    void: str | None,
    id: str | None,
    guide: str | None,
    constraints: str | None,
    budgets: tuple[str, ...],
    as_json: bool,
    **choices: Any,
) -> None:
    """Print exactly what an agent would be told before its first step, then what each layer took of its budget.

    Nothing is written, no model is asked, and the same input gives the same bytes. A layer that has nothing to say is
    left out: L0 and L1 need an ontology or an endpoint, L2 a BANK, L3 a guide. With --ont lights, the guide and the
    constraints that come with it are used.
    """
    from rbank_es.context.assembly import LAYERS, build_context

    refuse_mixtures(paths, endpoint, void)
    layers = [layer for layer in LAYERS if choices.pop(layer.lower())]
    with ExitStack() as stack:
        opened, point = open_at(bank) if bank is not None else (None, None)
        if opened is not None:
            stack.enter_context(opened)
        about = _about(paths, endpoint, void, id, stack)
        built = build_context(
            ontology=about.ontology,
            bank=opened,
            point=point,
            layers=layers,
            budgets=dict(map(parse_budget, budgets)),
            curated=Path(constraints) if constraints else about.constraints,
            guide=Path(guide) if guide else about.guide,
            ontology_id=id,
            **choices,
        )
        if as_json:
            echo_json(_facts(built, opened, point, choices["task"]))
        else:
            _tell(built)


def _about(paths: Sequence[str], endpoint: str | None, void: str | None, id: str | None, stack: ExitStack) -> About:
    if endpoint is not None:
        from rbank_es.sparql.source import open_source

        source = open_source(endpoint=endpoint, void=void)
        stack.callback(source.close)
        return About(source, None, None)
    if not paths:
        return About(None, None, None)
    if any(map(is_shipped, paths)):
        return About(read_ontology(paths, id), lights().guide, lights().constraints)
    return About(read_ontology(paths, id), None, _constraints_beside(paths))


def _constraints_beside(paths: Sequence[str]) -> Path | None:
    from rbank_es.context.curated_constraints import curated_beside

    return next(filter(None, map(curated_beside, ontology_paths(paths))), None)


def _facts(built: Context, bank: Bank | None, point: str | None, task: str) -> dict[str, Any]:
    return {
        "bank": bank.name if bank is not None else None,
        "position": bank.resolve(point) if bank is not None else None,
        "task": task,
        "mode": built.mode,
        "chars": len(built.text),
        "text": built.text,
        "items": built.items,
        "budget": built.rows(),
        "layers": built.layers,
        "retrievals": built.retrievals,
    }


def _tell(built: Context) -> None:
    echo(safe_block(built.text) if on_terminal() else built.text)
    echo_heading("budget")
    rows: list[list[Cell]] = [
        [row["layer"], row["chars"], row["budget"], safe_line(str(row["cut"])) or None] for row in built.rows()
    ]
    echo_table(["layer", "characters", "budget", "left out"], rows, flexible=["left out"])
    if built.items:
        echo(styled(f"\nitems: {', '.join(map(safe_line, built.items))}", "dim"))
