"""The command `experiment rate`: a model rates the answers and guides of an experiment by a rubric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from rbank_es.cli.shared.agent_options import server_options
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import SCRIPTED, Progress, echo, echo_command, echo_json, styled
from rbank_es.events.readable_text import count, safe_line
from rbank_es.lab.commands.experiment_report import folder_argument


@command(
    "rate",
    "rbank-es experiment rate experiments/E4 --lm openai/gpt-4.1-mini",
    "rbank-es experiment rate experiments/E9 --rubric answer --lm openai/gpt-4.1",
)
@folder_argument
@click.option("--lm", metavar="MODEL", required=True, help="The model that rates, at temperature 0.")
@server_options
@click.option(
    "--rubric", "subjects", type=click.Choice(["answer", "guide"]), multiple=True, help="What is rated; default: both."
)
def rate(folder: Path, lm: str, subjects: tuple[Any, ...], as_json: bool, **server: Any) -> None:
    """Have a model rate answers and guides by a rubric, from 0 to 1; no verdict changes, and nothing is learned.

    Ratings are recorded in a bank of their own, `ratings` in DIR; the next report has them beside the other metrics.
    What has a rating is not rated again, so the same command goes on where it was interrupted.
    """
    from rbank_es.judging.rubric import RUBRICS
    from rbank_es.lab.experiment_folder import FolderHead
    from rbank_es.lab.ratings import rate_experiment
    from rbank_es.models.model_choice import LmChoice

    choice = LmChoice.parse(lm, api_base=server["api_base"], arguments=server["lm_args"])
    head = FolderHead.of(folder)
    with Progress("rating") as progress:
        counts = rate_experiment(
            folder, head.experiment, head.suite, choice, subjects or tuple(RUBRICS), progress=progress
        )
    if as_json:
        echo_json({"folder": str(folder), "scripted": choice.scripted, **msgspec.to_builtins(counts)})
        return
    echo(f"rated {count(counts.now, 'text')} by {safe_line(choice.name)}; {counts.before:,} had a rating")
    if counts.unreadable:
        echo(f"{count(counts.unreadable, 'text')} without one: no reply could be read; the same command asks again")
    if choice.scripted:
        echo(styled(SCRIPTED, "yellow"))
    echo_command(f"experiment report {safe_line(str(folder))}")
