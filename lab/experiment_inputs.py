"""The materials that all trials of an experiment share: its suite, the source that is asked, texts and seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.data import LIGHTS, lights
from rbank_es.errors import BadInput
from rbank_es.events.json_input import read_at_most
from rbank_es.lab.experiment_definition import WRITTEN, Condition, Experiment, ModelsByRole
from rbank_es.lab.suite_check import gold_flaw
from rbank_es.lab.task_suite import Suite

if TYPE_CHECKING:
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.tasks import Task
    from rbank_es.sparql.data_source import Source

# Deterministic, because equal conditions must have equal digests.
_ENCODER = msgspec.json.Encoder(order="deterministic")


class SeedPack(msgspec.Struct, frozen=True):
    """A file of items that a bank begins with, and the SHA-256 of its bytes."""

    path: Path
    sha256: str


class MaterialDigests(msgspec.Struct, frozen=True, kw_only=True):
    """The SHA-256, in hex, of texts and seeds that conditions name: enough to tell one condition from another."""

    constraints: str | None = None
    guides: Mapping[str, str] = {}
    seeds: Mapping[str, str] = {}

    def settings_facts(self, condition: Condition, models: ModelsByRole) -> dict[str, Any]:
        """Return the facts of a condition's settings (`LoopSettings.facts`)."""
        curated = condition.curated and "L1" in condition.layers
        return condition.settings(models, constraints=None, guide=None).facts() | {
            "constraints": self.constraints if curated else None,
            "guide": self.guides.get(condition.guide) if "L3" in condition.layers else None,
        }

    def settings_digest(self, condition: Condition, models: ModelsByRole) -> str:
        """Return the digest that each run of a condition names (`LoopSettings.digest`)."""
        return _sha256(self.settings_facts(condition, models))

    def config_digest(self, condition: Condition, models: ModelsByRole) -> str:
        """Return the SHA-256, in hex, of all that tells the trials of a condition from those of another one."""
        facts = {
            "settings": self.settings_facts(condition, models),
            "policies": condition.choices(),
            "seeds": [self.seeds.get(name) for name in condition.seeds],
            "curriculum": condition.curriculum,
        }
        return _sha256(facts)


def _sha256(facts: Any) -> str:
    return hashlib.sha256(_ENCODER.encode(facts)).hexdigest()


NO_OTHERS: Mapping[str, Any] = {}


class Materials(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment with everything that its definition names, read once; the models are those of the experiment.

    `source` is what the tasks are about that name nothing else; `others` are the sources of a suite about several, by
    what its tasks name: the id of an ontology or an endpoint. `constraints` are the curated ones of the only ontology,
    None if there are none. `guides` and `seeds` are by the names in the definition.
    """

    experiment: Experiment
    suite: Suite
    source: Source
    others: Mapping[str, Source] = {}
    constraints: str | None = None
    guides: Mapping[str, str] = {}
    seeds: Mapping[str, SeedPack] = {}

    def settings(self, condition: Condition) -> LoopSettings:
        """Return the loop's settings of a condition. Raises `BadInput` if no model is named."""
        models = self.experiment.models
        if "agent" not in models:
            raise BadInput("no model is named: give --lm, such as openai/gpt-4.1-mini or script:FILE")
        curated = self.constraints if condition.curated and "L1" in condition.layers else None
        guide = self.guides.get(condition.guide) if "L3" in condition.layers else None
        return condition.settings(models, constraints=curated, guide=guide)

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources."""
        return tuple({each.id: each for each in (self.source, *self.others.values())}.values())

    def source_of(self, task: Task) -> Source:
        """Return the source that a task is about."""
        return self.others.get(about(task) or "", self.source)

    @property
    def digests(self) -> MaterialDigests:
        """The digests of its texts and seeds."""
        return MaterialDigests(
            constraints=_text_sha256(self.constraints) if self.constraints is not None else None,
            guides={name: _text_sha256(text) for name, text in self.guides.items()},
            seeds={name: pack.sha256 for name, pack in self.seeds.items()},
        )

    def config_digest(self, condition: Condition) -> str:
        """Return the digest of a condition (`MaterialDigests.config_digest`)."""
        return self.digests.config_digest(condition, self.experiment.models)


def _text_sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def about(task: Task) -> str | None:
    """Return the source that a task names: the id of an ontology, else an endpoint; None where it names none."""
    return task.ontology or task.endpoint


def gather(
    experiment: Experiment,
    suite: Suite,
    source: Source,
    *,
    others: Mapping[str, Source] = NO_OTHERS,
    constraints: str | None = None,
    folder: Path | None = None,
) -> Materials:
    """Return the materials of an experiment; files that it names are in `folder`, or in the working directory.

    Raises `BadInput` for a task about another source, or by whose gold query no run can be scored; for a guide that
    would have to be about several sources; and for a file that is missing or unreadable.
    """
    unknown = sorted({str(task.ontology) for task in suite.tasks if task.ontology not in (None, source.id, *others)})
    if unknown:
        raise BadInput(
            f"{suite.name} has tasks about {', '.join(unknown)}, and the source is called {source.id}: take a suite "
            "about it alone, let the suite name the files of each ontology, or name the source as they do with --id"
        )
    if others and any("L3" in each.layers for each in experiment.condition):
        raise BadInput("a guide (L3) is about one ontology, and the suite's tasks are about several: leave out L3")
    guides = {each.guide for each in experiment.condition if each.guide != WRITTEN}
    packs = {name for each in experiment.condition for name in each.seeds}
    materials = Materials(
        experiment=experiment,
        suite=suite,
        source=source,
        others=others,
        constraints=constraints,
        guides={name: _guide(name, folder) for name in sorted(guides)},
        seeds={name: _pack(name, folder) for name in sorted(packs)},
    )
    for task in suite.tasks:
        # Before a call is paid for: a gold query that fails scores no run, and an empty one scores each as wrong.
        flaw = gold_flaw(task, materials.source_of(task))
        if flaw is not None:
            raise BadInput(f"{suite.name}, task {task.id}: {flaw.message}; `rbank-es suite check` names every flaw")
    return materials


def _guide(name: str, folder: Path | None) -> str:
    from rbank_es.context.layer_sections import read_text

    return read_text(_path(name, lights().guide, folder))


def _pack(name: str, folder: Path | None) -> SeedPack:
    from rbank_es.exchange.file_import import read_file

    path = _path(name, lights().seed, folder)
    data = read_at_most(path, limits.IMPORT_FILE_BYTES, "seeds")
    # Parsed now, because a broken pack must not stop the experiment at its second condition.
    read_file(path)
    return SeedPack(path, hashlib.sha256(data).hexdigest())


def _path(name: str, shipped: Path, folder: Path | None) -> Path:
    beside = (folder or Path()) / name
    return shipped if name == LIGHTS and not beside.exists() else beside
