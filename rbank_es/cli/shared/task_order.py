"""The order of tasks on a command line: as given, or by a curriculum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rbank_es import limits
from rbank_es.cli.shared.command_registry import decorated
from rbank_es.errors import BadInput
from rbank_es.judging.verdict import NOBODY

if TYPE_CHECKING:
    from rbank_es.loop.curriculum import Curriculum
    from rbank_es.loop.tasks import Task

order_options = decorated(
    click.option(
        "--order", type=click.Choice(["given", "curriculum"]), default="given", show_default=True,
        help="The order of the tasks: curriculum begins with the lowest level, and rises when the last tasks "
        "succeeded.",
    ),
    click.option(
        "--rise", metavar="WON/LAST",
        help="With a curriculum: go to the next level when so many of the last tasks succeeded. Default: "
        f"{limits.CURRICULUM_WON}/{limits.CURRICULUM_LAST}.",
    ),
)  # fmt: skip
"""The options of the order of tasks."""


def curriculum_of(given: dict[str, Any], tasks: Sequence[Task]) -> Curriculum | None:
    """Return the curriculum that the options name, None for the given order.

    Raises `BadInput` where it can't be one: no task has a level, or nobody judges.
    """
    from rbank_es.loop.curriculum import Curriculum

    if given["order"] == "given":
        if given["rise"] is not None:
            raise BadInput("--rise is of a curriculum: add --order curriculum, or leave it out")
        return None
    if len({task.level for task in tasks}) < 2:
        raise BadInput("a curriculum needs tasks of two levels at least: name the level of each, or leave out --order")
    if given["judge"] == NOBODY:
        raise BadInput("levels rise by verdicts, and nobody judges: leave out --judge none, or --order curriculum")
    if given["rise"] is None:
        return Curriculum()
    won, bar, last = given["rise"].partition("/")
    if not (bar and won.isascii() and won.isdigit() and last.isascii() and last.isdigit()):
        raise BadInput(f"--rise {given['rise']!r}: write how many of how many, such as 4/5")
    return Curriculum(won=int(won[:9]), last=int(last[:9]))
