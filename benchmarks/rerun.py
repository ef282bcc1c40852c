"""The rerun of a recorded run of six steps: with everything loaded, and as a command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import Goal, Row, duration, interleave, timed
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.data import lights
from rbank_es.loop import LoopSettings, Task, run_closed_loop
from rbank_es.models.model_choice import LmChoice
from rbank_es.ontology.loader import load_ontology
from rbank_es.rerun.execution import rerun
from rbank_es.rerun.ontology_lookup import Ontologies
from rbank_es.sparql.data_source import open_source

GOAL_MS = 100
TASK = Task(id="heights", question="How high do the lights of the coast stand above the water?")

_CODE = (
    "print(g_stats())",
    "print(g_classes(limit=10))",
    "print(g_search('focal height'))",
    "found = sparql_query('SELECT ?l ?h { ?l <https://lights.example/ns#focalHeight> ?h }')\nprint(found)",
    "print(sparql_slice(found, 0, 10))",
    "SUBMIT(answer='It differs.', sparql='', evidence={'key': found['key']})",
)
SCRIPT = f"[[task]]\nid = '{TASK.id}'\n" + "".join(
    f'\n[[task.agent]]\nreasoning = "Step {number}."\ncode = """\n{code}\n"""\n' for number, code in enumerate(_CODE, 1)
)


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield rows with modules and query engine loaded (it has the goal), with a new engine, and of the command."""
    with _recorded(place) as bank, Ontologies() as kept:
        run = next(event.run for event in bank.events(types={"run_started"}))  # type: ignore[attr-defined]
        contestants: dict[str, Any] = {
            "ready": partial(rerun, bank, run, ontologies=kept),
            "anew": partial(rerun, bank, run),
            "read": lambda: list(bank.events(run=run, resolve=True)),
        }
        assert rerun(bank, run).identical
        samples = interleave({name: timed(work) for name, work in contestants.items()}, sizes.rerun_rounds)
        yield Row(
            "rerun",
            "a recorded run of six steps, run again and compared",
            duration(samples.median("ready")),
            floor=f"reading its events {duration(samples.median('read'))}",
            goal=Goal("≤", GOAL_MS, "ms"),
            value=samples.median("ready") * 1e3,
        )
        yield Row("rerun", "the same, its ontology opened anew", duration(samples.median("anew")))
    yield _command(place, run, sizes)


def _command(place: Path, run: str, sizes: Sizes) -> Row:
    commands = {"ours": ["-m", "rbank_es", "rerun", str(place / "bank"), run], "dspy": ["-c", "import dspy"]}
    samples = interleave(
        {name: timed(partial(_ran, [sys.executable, *given])) for name, given in commands.items()}, sizes.search_rounds
    )
    return Row(
        "rerun",
        "the command, in a process of its own",
        duration(samples.median("ours")),
        floor=f"importing dspy {duration(samples.median('dspy'))}",
    )


def _ran(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _recorded(place: Path) -> Bank:
    """Return a bank with one scripted run; its code runs without a sandbox, because it is the benchmark's own."""
    import dspy

    from rbank_es.sandbox.session import EXECUTION_INSTRUCTIONS

    def interpreter() -> Any:
        return dspy.LocalInterpreter()

    interpreter.execution_instructions = EXECUTION_INSTRUCTIONS  # type: ignore[attr-defined]
    script = place / "script.toml"
    script.write_text(SCRIPT)
    settings = LoopSettings(lm=LmChoice(model=f"script:{script}"), judge="none", extract=False)
    bank = Bank.create(place / "bank")
    source = open_source(load_ontology(lights().ontology))
    try:
        run_closed_loop([TASK], bank, settings, source, interpreters=interpreter)
    finally:
        source.close()
    return bank
