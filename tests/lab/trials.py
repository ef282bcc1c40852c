"""Experiments for tests: two tasks over the shipped ontology, a script as every model, code that runs at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from rbank_es.bank import Bank
from rbank_es.events import BankForked, Event, type_of
from rbank_es.lab.experiment_definition import Experiment, parse_experiment
from rbank_es.lab.experiment_inputs import Materials, gather
from rbank_es.lab.experiment_run import run_experiment
from rbank_es.lab.task_suite import Suite
from rbank_es.lab.trial import TrialOutcome
from rbank_es.models.model_choice import LmChoice
from tests.loop.loops import SCRIPT, TASKS, local, source

DEFINITION = """\
name = "pair"
title = "With memory and without"
orders = {orders}
seed = 1
baseline = "without"
contrasts = [["with", "without"]]
[shared]
executor = "scratchpad"
judge = "lm"
[[condition]]
name = "without"
layers = ["L0"]
[[condition]]
name = "with"
layers = ["L0", "L2"]
extract = true
"""

# The tasks come in any order, so what one expects of another's lesson can't be in the script.
FREE = SCRIPT.replace('expects = ["Use lt:focalHeight for heights"]', "")


def pair(orders: int = 1) -> Experiment:
    """An experiment of two conditions."""
    return parse_experiment(DEFINITION.format(orders=orders).encode())


def materials(place: Path, experiment: Experiment | None = None, script: str = FREE) -> Materials:
    """The materials of an experiment over the two tasks, with a script as every model."""
    place.mkdir(parents=True, exist_ok=True)
    file = place / "script.toml"
    file.write_text(script)
    chosen = msgspec.structs.replace(experiment or pair(), models={"agent": LmChoice(model=f"script:{file}")})
    return gather(chosen, Suite.of("heights", TASKS), source())


def ran(given: Materials, folder: Path, **options: Any) -> tuple[TrialOutcome, ...]:
    """Run an experiment where code runs at once and nothing is waited for."""
    options.setdefault("interpreters", local)
    options.setdefault("sleep", lambda _: None)
    return run_experiment(given, folder, **options)


OF_THE_MOMENT = {"seq", "at", "id", "crc", "salt", "dur", "request_key", "common"}
"""What differs between two runs of one trial: times, the ids that they get, and which trials began before."""


def told(place: Path) -> list[str]:
    """What the log of a trial says happened, without times; ids of events are replaced by their positions."""
    with Bank.open(place) as bank:
        events = [event for event in bank.events(resolve=True) if not isinstance(event, BankForked)]
    lines = [f"{type_of(event)} {_facts(event)}" for event in events]
    numbers = {event.id: f"#{number}" for number, event in enumerate(events)}
    return [_ID.sub(lambda found: numbers.get(found[0], found[0]), line) for line in lines]


_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def _facts(event: Event) -> dict[str, Any]:
    names = [name for name in event.__struct_fields__ if name not in OF_THE_MOMENT and not name.endswith("_s")]
    return {name: getattr(event, name) for name in names}
