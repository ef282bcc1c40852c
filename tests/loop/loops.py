"""Loops for tests: two tasks over the shipped ontology, with a script in place of the models."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rbank_es.bank import Bank
from rbank_es.data import lights
from rbank_es.events import Event, type_of
from rbank_es.law import active
from rbank_es.log import ANY, Appended, EventLog, Expected, LogWrapper
from rbank_es.loop.closed_loop import TaskResult, run_closed_loop
from rbank_es.loop.settings import LoopSettings
from rbank_es.loop.tasks import Task
from rbank_es.models.model_choice import LmChoice
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import Source, open_source
from tests.faults.disk import Quick

HEIGHT = "PREFIX lt: <https://lights.example/ns#>\nSELECT ?m WHERE { ?l lt:name 'Cormorant Rock' ; lt:focalHeight ?m }"
TOWER = HEIGHT.replace("focalHeight", "towerHeight")

TASKS = (
    Task(
        id="height",
        question="How many metres above high water does the light at Cormorant Rock stand?",
        ontology="lights",
        gold_sparql=HEIGHT,
    ),
    Task(id="again", question="How high above the water is the light of Cormorant Rock?", gold_sparql=HEIGHT),
)

SCRIPT = f"""\
name = "two tasks about heights"

[[task]]
id = "height"

[[task.agent]]
reasoning = "The tower's height should do."
code = '''
found = sparql_query({TOWER!r})
print(found["rows"])
'''

[[task.agent]]
step = 2
reasoning = "Submit it."
code = '''
SUBMIT(answer="49 metres", sparql={TOWER!r}, evidence={{}})
'''

[[task.judge]]
fields = {{ success = false, reason = "That is the height of the building." }}

[[task.extractor]]
[[task.extractor.fields.memory_items]]
title = "A tower's height is not the light's"
description = "Heights above high water are focal heights."
content = "Use lt:focalHeight for heights above high water, never lt:towerHeight."

[[task]]
id = "again"

[[task.agent]]
reasoning = "There is a guardrail."
expects = ["Use lt:focalHeight for heights"]
code = '''
found = sparql_query({HEIGHT!r})
SUBMIT(answer="45 metres", sparql={HEIGHT!r}, evidence={{"key": found["key"]}})
'''

[[task.judge]]
fields = {{ success = true, reason = "The focal height is what was asked." }}

[[task.extractor]]
[[task.extractor.fields.memory_items]]
title = "Ask for the focal height of a light by its name"
description = "One pattern gives how many metres above high water the light stands."
content = "Match lt:name, then lt:focalHeight."
"""


@functools.cache
def source() -> Source:
    """The shipped ontology, opened once for the process."""
    return open_source(load_ontology(lights().ontology, id="lights"))


def local() -> Any:
    """An interpreter that starts fast; the code is the tests' own."""
    import dspy

    return dspy.LocalInterpreter()


def scripted(place: Path, script: str = SCRIPT, **settings: Any) -> LoopSettings:
    """Settings with a script as the model."""
    place.mkdir(parents=True, exist_ok=True)
    file = place / "script.toml"
    file.write_text(script)
    return LoopSettings(**{"lm": LmChoice(model=f"script:{file}"), "executor": "scratchpad", **settings})


def looped(bank: Bank, settings: LoopSettings, tasks: Sequence[Task] = TASKS, **options: Any) -> list[TaskResult]:
    """Run a loop where code runs at once."""
    options.setdefault("interpreters", local)
    return run_closed_loop(tasks, bank, settings, source(), **options)


# ---------------------------------------------------------------- banks that are cut off


class CutOff(BaseException):
    """The process was killed here."""


class Faulty(LogWrapper):
    """A log that raises once so many groups were appended; with `dead`, it takes nothing more afterwards."""

    def __init__(self, log: EventLog, groups: int, error: Callable[[], BaseException], *, dead: bool) -> None:
        super().__init__(log)
        self.left, self.error, self.dead = groups, error, dead
        self.count = 0

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        if self.dead and self.left <= 0:
            raise self.error()
        done = super().append(events, expected=expected)
        self.count += 1
        self.left -= 1
        if self.left == 0:
            raise self.error()
        return done


def cut_off(bank: Bank, groups: int, error: Callable[[], BaseException] = CutOff, *, dead: bool = True) -> Bank:
    """The bank, cut off after so many groups."""
    return Bank(Faulty(bank.log, groups, error, dead=dead), bank.name)


def quick(place: Path) -> Bank:
    """A new bank that doesn't wait for the disk."""
    return Bank.create(place, calls=Quick())


# ---------------------------------------------------------------- comparing banks

_TELLING = {
    "run_started": ("task", "ontology", "executor", "model", "layers", "config_digest", "scripted"),
    "memories_retrieved": ("mode", "k", "polarity", "policy", "query"),
    "context_built": ("chars", "items", "texts"),
    "tool_called": ("tool", "step", "error_code"),
    "step_taken": ("index", "reasoning", "code", "stdout_chars"),
    "run_finished": ("outcome", "answer", "sparql", "iterations", "error_code"),
    "run_judged": ("purpose", "verdict", "judge", "kind", "sure", "confidence", "evidence", "reason"),
    "memories_extracted": ("kind", "extractor", "heads", "candidates", "reason"),
    "memories_consolidated": ("policy",),
    "ontology_registered": ("ontology", "sha256"),
}


def told(bank: Bank) -> list[tuple[Any, ...]]:
    """What a bank tells of its runs, in order, but for ids, times and durations; runs that were cut off left out."""
    events = list(bank.events(resolve=True))
    gone = {getattr(event, "run", None) for event in events if getattr(event, "error_code", None) == "interrupted"}
    kept = [event for event in events if getattr(event, "run", None) not in gone - {None}]
    lines = [(type_of(event), *_facts(event)) for event in kept if type_of(event) in _TELLING]
    # The ontology is registered with the first run, which may be one that was cut off.
    return sorted(lines, key=lambda line: line[0] != "ontology_registered")


def _facts(event: Event) -> list[Any]:
    facts = [getattr(event, name) for name in _TELLING[type_of(event)]]
    if type_of(event) == "memories_consolidated":
        facts.append([(each.action, each.item, each.targets) for each in getattr(event, "decisions", ())])
    return [msgspec.to_builtins(fact) for fact in facts]


def learnt(bank: Bank) -> dict[str, tuple[str, int]]:
    """The titles of the active items, with polarity and support."""
    state = bank.state()
    return {item.title: (item.polarity, state.items[id].support) for id, item in active(state).items()}


def summary(results: Sequence[TaskResult]) -> list[tuple[Any, ...]]:
    """What came of the tasks, but for ids."""
    return [(each.task, each.outcome, each.verdict, each.scored, each.answer, each.candidates) for each in results]
