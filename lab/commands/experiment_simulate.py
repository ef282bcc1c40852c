"""The command `experiment simulate`: a study of the simulated learner, made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Cell, Progress, echo, echo_json, echo_table
from rbank_es.errors import BadInput
from rbank_es.events.readable_text import count
from rbank_es.limits import experiment_limits

if TYPE_CHECKING:
    from rbank_es.lab.simulated.study import CellResult, StudyResult

FACTS = ("gain", "hardest", "hurt", "wrong_lessons", "items", "checked", "overruled")
"""What is shown of a cell: the mean over its repetitions."""


@command(
    "simulate",
    "rbank-es experiment simulate poisoned-bank --repeat 2 --where bank=dedup --where checks=0",
    "rbank-es experiment simulate repair --jobs 2 --json > repair.json",
    "rbank-es experiment simulate repair --repeat 1 --where 'repair=all checked' --json",
)
@click.argument("study", type=click.Choice(["poisoned-bank", "repair", "assumptions"]))
@click.option(
    "--repeat",
    type=click.IntRange(1, experiment_limits.STUDY_REPETITIONS),
    metavar="N",
    help="Repetitions; default: the study's.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, experiment_limits.EXPERIMENT_JOBS),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes.",
)
@click.option(
    "--where", "wanted", metavar="FACTOR=VALUE", multiple=True, help="Only conditions with this value. May be repeated."
)
def simulate(
    study: str,
    repeat: int | None,
    jobs: int,
    wanted: tuple[str, ...],
    as_json: bool,
) -> None:
    """Live a study of the SIMULATED learner, which shows nothing about any language model.

    A seeded solver, judge and extractor stand in for models; bank, retrieval, consolidation and correction are the
    real code, in memory. Printed is the mean over repetitions: the gain in skill over no memory, that of the hardest
    third of the families, and the share of families that memory hurts. What the studies found: docs/studies.
    """
    from rbank_es.lab.simulated.study_run import run_study, study_named

    known = study_named(study)
    chosen = [cell.name for cell in known.cells if _fits(cell.factors, wanted)]
    if not chosen:
        factors = ", ".join(dict.fromkeys(name for cell in known.cells for name in cell.factors))
        raise BadInput(f"no condition of {study} has {' and '.join(wanted)}; the factors are: {factors}")
    with Progress("simulating") as progress:
        result = run_study(known, repetitions=repeat, only=chosen, jobs=jobs, progress=progress)
    if as_json:
        echo_json(result)
    else:
        _print(result)


def _fits(factors: dict[str, str | float], wanted: tuple[str, ...]) -> bool:
    for text in wanted:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadInput(f"--where {text}: write FACTOR=VALUE, such as bank=append")
        if not _is_value(factors.get(name), value):
            return False
    return True


def _is_value(factor: str | float | None, text: str) -> bool:
    if factor is None or isinstance(factor, str):
        return factor == text
    try:
        return float(text) == factor
    except ValueError:
        return False


def _print(result: StudyResult) -> None:
    echo(result.mark)
    size = f"{count(result.repetitions, 'repetition')} of {count(len(result.cells), 'condition')}"
    echo(f"{size}; skill without memory {result.without:.3f}")
    names = list(dict.fromkeys(name for cell in result.cells for name in cell.factors))
    rows = [[*(cell.factors.get(name, "") for name in names), *_facts(cell)] for cell in result.cells]
    echo_table([*(each.replace("_", " ") for each in (*names, *FACTS))], rows, flexible=names)


def _facts(cell: CellResult) -> list[Cell]:
    made: list[Cell] = []
    for name in FACTS:
        values = [value for value in getattr(cell, name) if value is not None]
        made.append(f"{sum(values) / len(values):.3f}" if values else "")
    return made
