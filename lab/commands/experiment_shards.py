"""`experiment status`, and the script by which Slurm runs an experiment in shards."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Cell, echo, echo_json, echo_table
from rbank_es.events.readable_text import count, safe_line

STATES = ("finished", "unfinished", "held", "stale", "missing")


@command("status", "rbank-es experiment status /shared/e9", "rbank-es experiment status /shared/e9 --json")
@click.argument("folder", metavar="DIR")
def status(folder: str, as_json: bool) -> None:
    """Show how far the trials of an experiment are, and who is at them.

    finished: published, whole; unfinished: its bank is there, without an end. In an experiment of shards, held: a
    process is at it; stale: a process was, and hasn't renewed its claim for three minutes, so the next one takes over;
    missing: nobody began it. `left` counts banks of processes that were overtaken or ended; they stay under work/.
    """
    from rbank_es.lab.experiment_folder import FolderHead
    from rbank_es.lab.shards import status_of

    found = status_of(Path(folder), FolderHead.of(Path(folder)).experiment)
    if as_json:
        echo_json(found)
        return
    rows: list[list[Cell]] = [
        [
            f"{each.condition} o{each.order}-r{each.repetition}",
            each.state,
            safe_line(each.owner) if each.owner and each.state in ("held", "stale") else None,
            each.generation or None,
            each.cuts or None,
            each.left or None,
        ]
        for each in found
    ]
    headers = ["trial", "state", "machine and process", "claims", "cut off", "left"]
    echo_table(headers, rows, optional=headers[2:])
    states = Counter(str(each.state) for each in found)
    said = ", ".join(f"{states[state]:,} {state}" for state in STATES if states[state])
    echo(f"\n{count(len(found), 'trial')}: {said}")


def slurm_script(arguments: Sequence[str], shards: int) -> str:
    """Return a script for Slurm that runs these arguments of `rbank-es` as so many shards, each a task of an array."""
    kept = [each for each in arguments if each != "--slurm"]
    words = [shlex.quote(each) for each in kept]
    for at, each in enumerate(kept):
        if each == "--shard":
            words[at + 1] = f'"$SLURM_ARRAY_TASK_ID/{shards}"'
        elif each.startswith("--shard="):
            words[at] = f'--shard="$SLURM_ARRAY_TASK_ID/{shards}"'
    return "\n".join(
        [
            "#!/bin/sh",
            "#SBATCH --job-name=rbank-es",
            f"#SBATCH --array=1-{shards}",
            "#SBATCH --requeue",
            "# Keys, modules and a virtual environment as on this machine; --array=1-40%8 runs eight at a time.",
            f"exec rbank-es {' '.join(words)}",
        ]
    )
