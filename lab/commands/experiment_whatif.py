"""`experiment whatif`: the banks of one condition as the policies of the others would have made them."""

from __future__ import annotations

from pathlib import Path

import click

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.output import Cell, Progress, echo_json, echo_table


@command("whatif", "rbank-es experiment whatif experiments/E10 --basis append")
@click.argument("folder", metavar="DIR")
@click.option("--basis", metavar="CONDITION", required=True, help="The condition whose logs are decided again.")
def whatif(folder: str, basis: str, as_json: bool) -> None:
    """Show what the banks of one condition would be under the policies of the others, beside the live ones.

    Conditions that differ in their policies of consolidation, forgetting or retrieval alone are compared over the same
    runs. No model is called. It is first order: how runs would have gone with other items is unknown.
    """
    from rbank_es.lab.experiment_folder import FolderHead
    from rbank_es.lab.supposed_conditions import supposed_conditions

    loaded = FolderHead.of(Path(folder)).experiment
    with Progress("deciding again") as progress:
        found = supposed_conditions(loaded, Path(folder), basis, progress)
    if as_json:
        echo_json(found)
        return
    rows: list[list[Cell]] = [
        [
            f"o{each.order}-r{each.repetition}",
            each.condition,
            each.items_basis,
            each.items_supposed,
            each.items_live,
            f"{each.differing} of {each.decided}",
            f"{each.retrievals} of {each.retrieved}",
            each.unknown or None,
            each.asking or None,
        ]
        for each in found
    ]
    named = f"items of {basis}"
    headers = ["trial", "under", named, "supposed", "live", "other decisions", "other retrievals"]
    unsure = ["retrievals not known", "would ask a model"]
    echo_table([*headers, *unsure], rows, optional=unsure)
