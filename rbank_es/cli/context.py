"""`context`: the context that an agent gets before its first step, layer by layer, with the budgets used."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rbank_es.bank import Bank
from rbank_es.cli.shared.agent_options import context_options, warn_of_experiment
from rbank_es.cli.shared.arguments import open_at, parse_budget
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.ontology_options import ontology_options, open_named
from rbank_es.cli.shared.output import Cell, echo, echo_heading, echo_json, echo_table, on_terminal, safe_block, styled
from rbank_es.errors import BadInput
from rbank_es.events.readable_text import safe_line

if TYPE_CHECKING:
    from rbank_es.context.assembly import Context


@command(
    "context",
    'rbank-es context sample --ont lights --task "Which lights are in service?"',
    'rbank-es context notes@HEAD~50 --ont model.ttl --task "How many?" --no-l3 --budget L1=400',
    'rbank-es context --endpoint uniprot --void void.ttl --task "Which proteins?" --preset lean',
)
@click.argument("bank", metavar="[BANK[@POINT]]", required=False)
@ontology_options()
@click.option("--endpoint", metavar="URL|NAME", help="A SPARQL endpoint instead; nothing is asked of it.")
@click.option("--void", metavar="FILE", help="A VoID description of the endpoint.")
@click.option("--id", "id", metavar="ID", help="The ontology's name in the bank; default: of its first file.")
@click.option("--task", metavar="TEXT", required=True, help="The question, as the agent gets it.")
@click.option("--l0/--no-l0", default=True, help="The sense card of the ontology.")
@click.option("--l1/--no-l1", default=True, help="Constraints of the ontology, and pitfalls.")
@click.option("--l2/--no-l2", default=True, help="Items from earlier runs.")
@click.option("--l3/--no-l3", default=True, help="The summary of a guide.")
@context_options
@click.option("--observed", is_flag=True, help="Begin L0 with the terms that successful runs used.")
@click.option("--slice", "task_slice", is_flag=True, help="Begin L0 and L1 with the terms that the task names.")
def context(
    bank: str | None,
    paths: tuple[str, ...],
    endpoint: str | None,
    void: str | None,
    id: str | None,
    guide_file: str | None,
    constraints: str | None,
    budgets: tuple[str, ...],
    as_json: bool,
    **choices: Any,
) -> None:
    """Print exactly the context that an agent gets before its first step, then how much of its budget each layer took.

    Nothing is written, no model is called, and the same input gives the same bytes. Empty layers are left out: L0 and
    L1 need an ontology or an endpoint, L2 a BANK, L3 a guide. With --ont lights, the guide and the constraints that
    come with it are used.
    """
    from rbank_es.context.assembly import build_context
    from rbank_es.context.companion_files import companions_of
    from rbank_es.context.layer_sections import LAYERS

    if choices["memory_graph"] and bank is None:
        raise BadInput("--memory-graph offers the history of a bank: name BANK, or leave it out")
    layers = [layer for layer in LAYERS if choices.pop(layer.lower())]
    sizes = dict(map(parse_budget, budgets))
    warn_of_experiment(sizes)
    with ExitStack() as stack:
        opened, point = open_at(bank) if bank is not None else (None, None)
        if opened is not None:
            stack.enter_context(opened)
        nothing = not paths and endpoint is None and void is None
        source = None if nothing else open_named(paths, stack, endpoint=endpoint, void=void, id=id)
        companions = companions_of(paths)
        built = build_context(
            # As an ontology it goes by the id that the bank knows it by at that point.
            source=source and (source.ontology or source),
            bank=opened,
            point=point,
            layers=layers,
            budgets=sizes,
            curated=Path(constraints) if constraints else companions.constraints,
            guide=Path(guide_file) if guide_file else companions.guide,
            **choices,
        )
        if as_json:
            echo_json(_facts(built, opened, point, choices["task"]))
        else:
            _print(built)


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


def _print(built: Context) -> None:
    echo(safe_block(built.text) if on_terminal() else built.text)
    echo_heading("budget")
    rows: list[list[Cell]] = [
        [row["layer"], row["chars"], row["budget"], safe_line(str(row["cut"])) or None] for row in built.rows()
    ]
    echo_table(["layer", "characters", "budget", "left out"], rows, flexible=["left out"])
    if built.items:
        echo(styled(f"\nitems: {', '.join(map(safe_line, built.items))}", "dim"))
