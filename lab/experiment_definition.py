"""Definitions of experiments: files in TOML that set every switch of every condition.

    name = "E9"                    # letters, digits, `.`, `_`, `-`; the shipped file E9.toml has this name
    title = "…"                    # one line
    question = "…"                 # what it is to find out
    suite = "lights"               # a file of tasks, or the shipped one
    seed = 9                       # of the orders of tasks
    orders = 8                     # shuffled orders of the tasks, shared by all conditions
    repetitions = 1                # of each order
    baseline = "no-memory"         # the condition without memory: needed wherever another is given memory
    contrasts = [["append", "no-memory"]]   # the comparisons that are declared before the data are seen
    interactions = [["b-memory", "b", "a-memory", "a"]]     # whether b-memory gains more over b than a-memory over a
    metrics = ["success"]          # in which each of them is tested; more of them show less of each
    rubrics = ["guide"]            # what a model rates when all is run: answer, guide; nothing unless named

    [shared]                       # what all conditions share: any setting of a condition
    layers = ["L0", "L2"]
    extract = true

    [shared.policies.consolidation]
    name = "append"

    [[condition]]
    name = "no-memory"
    layers = ["L0"]

    [[condition]]
    name = "append"

    [models.agent]                 # optional, by role: agent, sub, judge, extractor; the command line names them else
    model = "openai/gpt-4.1-mini"

A condition's own settings replace those of `shared`; tables (`budgets`, `bounds`, `policies`) are merged key by key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rbank_es import limits
from rbank_es.context.layer_sections import Preset
from rbank_es.errors import BadContextFile, BadInput, BadPolicy
from rbank_es.events import PolicyChoice
from rbank_es.events.json_input import read_at_most
from rbank_es.events.run_events import DEFAULT_BOUNDS, Mode, Role, RunBounds, ToolManual
from rbank_es.judging.rubric import Subject
from rbank_es.judging.verdict import NOBODY
from rbank_es.lab.toml_text import to_toml
from rbank_es.limits import experiment_limits
from rbank_es.loop.curriculum import Curriculum
from rbank_es.loop.settings import ExtractFrom, LoopSettings, Perturbation
from rbank_es.models.model_choice import LmChoice
from rbank_es.policies import changed, default_policies
from rbank_es.system.input_file import without_mark
from rbank_es.system.nearest_name import hint
from rbank_es.system.toml_input import parse_toml
from rbank_es.system.validation_messages import reason_of

WRITTEN = "written"
"""The `guide` of conditions whose guide an agent writes once, before the first trial."""

BASE = "base"
"""The folder of the bank from which all trials are forked, beside those of the conditions."""

UNNAMED = LmChoice(model="unnamed/model")
"""The model of settings that are only checked."""

ModelsByRole = Mapping[Role, LmChoice]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_Seed = Annotated[int, Meta(ge=-limits.COUNT_MOST, le=limits.COUNT_MOST)]
_Number = Annotated[int, Meta(ge=1, le=experiment_limits.EXPERIMENT_TRIALS)]


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting of every switch of an experiment.

    Most fields are those of `LoopSettings`, with its defaults but for `layers` (none) and `extract` (off).

    Args:
        name: of the folder of its banks too.
        about: the condition in words.
        curriculum: when the level of its tasks rises (`won` of the `last` tasks); as the trial's order has them unless
            given. Verdicts of the judge decide, never the right answers.
        policies: the bank's policies by kind, as `Bank.set_policies` takes them; a new bank's unless given.
        seeds: packs of items imported before the first task: files, or `lights` for the shipped one.
        curated: whether L1 holds the curated constraints of the ontology beside those derived from it.
        guide: for L3: `written` by an agent, once for all trials; a file; or `lights` for the shipped one.
        leave_one_out: whether a run is given no item that was drawn from a run of its own task.
    """

    name: str
    about: str = ""
    layers: tuple[str, ...] = ()
    preset: Preset = "full"
    budgets: dict[str, int] = {}
    mode: Mode = "auto"
    domain: str | None = None
    memory_graph: bool = False
    leave_one_out: bool = True
    observed: bool = False
    task_slice: bool = False
    payloads: Literal["handles", "naive"] = "handles"
    tool_manual: ToolManual = "short"
    executor: str = "rlm"
    iterations: int = limits.RUN_ITERATIONS
    subcalls: int = limits.RUN_SUBCALLS
    bounds: RunBounds = DEFAULT_BOUNDS
    judge: str | None = None
    supervised: bool = False
    extract: bool = False
    extract_from: ExtractFrom | None = None
    rollouts: int = 1
    temperature: float | None = None
    perturbation: Perturbation = "none"
    curated: bool = True
    guide: str = WRITTEN
    seeds: tuple[str, ...] = ()
    curriculum: Curriculum | None = None
    policies: dict[str, dict[str, Any]] = {}

    @property
    def is_given_memory(self) -> bool:
        """Whether items reach the agent: in its context, or by its tools."""
        return "L2" in self.layers or self.mode != "auto" or self.memory_graph

    @property
    def needs_guide(self) -> bool:
        """Whether an agent must write a guide before the first trial."""
        return "L3" in self.layers and self.guide == WRITTEN

    def settings(self, models: ModelsByRole, *, constraints: str | None, guide: str | None) -> LoopSettings:
        """Return the loop's settings, with the texts of L1 and L3. Raises `BadInput` for impossible ones."""
        own: dict[str, Any] = {name: getattr(self, name) for name in _LOOP_FIELDS}
        lms: dict[str, Any] = {_MODEL_FIELDS[role]: choice for role, choice in models.items()}
        return LoopSettings(**own, **lms, constraints=constraints, guide=guide)

    def choices(self) -> tuple[PolicyChoice, ...]:
        """Return the policies of its banks, one of each kind. Raises `BadPolicy`."""
        return changed(default_policies(), self.policies)


_MODEL_FIELDS: dict[Role, str] = {"agent": "lm", "sub": "sub_lm", "judge": "judge_lm", "extractor": "extractor_lm"}
# In a condition `guide` is the name of a text, in the loop's settings the text itself.
_LOOP_FIELDS = tuple(
    name for name in LoopSettings.__struct_fields__ if name in Condition.__struct_fields__ and name != "guide"
)


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An experiment: conditions over the tasks of a suite, in shuffled orders, several times. Raises `BadInput`."""

    name: str
    title: str
    question: str = ""
    suite: str = "lights"
    seed: _Seed = 0
    orders: _Number = 1
    repetitions: _Number = 1
    baseline: str | None = None
    contrasts: tuple[tuple[str, str], ...] = ()
    interactions: tuple[tuple[str, str, str, str], ...] = ()
    metrics: tuple[str, ...] = ("success",)
    rubrics: tuple[Subject, ...] = ()
    models: dict[Role, LmChoice] = {}
    condition: tuple[Condition, ...]

    def __post_init__(self) -> None:
        _check_name(self.name, "an experiment")
        names = [each.name for each in self.condition]
        if not 1 <= len(names) <= experiment_limits.EXPERIMENT_CONDITIONS:
            raise BadInput(f"{len(names)} conditions; an experiment has 1 to {experiment_limits.EXPERIMENT_CONDITIONS}")
        for one in self.condition:
            _check_condition(one)
        # Without regard to case, because each names a folder, also where a file system has none.
        twice = next((name for name in names if [other.casefold() for other in names].count(name.casefold()) > 1), None)
        if twice is not None:
            raise BadInput(f"two conditions are called {twice!r}: their trials would be the same; rename one")
        self._check_comparisons(names)
        count = len(names) * self.orders * self.repetitions
        if count > experiment_limits.EXPERIMENT_TRIALS:
            raise BadInput(f"{count:,} trials; an experiment has at most {experiment_limits.EXPERIMENT_TRIALS:,}")

    def _check_comparisons(self, names: list[str]) -> None:
        compared = (*self.contrasts, *self.interactions)
        for name in (*(name for each in compared for name in each), *filter(None, [self.baseline])):
            if name not in names:
                raise BadInput(f"no condition is called {name!r}{hint(name, names)}")
        if any(one == other for one, other in self.contrasts):
            raise BadInput("a contrast compares two conditions, not one with itself")
        if any(one == other or third == fourth or (one, other) == (third, fourth)
               for one, other, third, fourth in self.interactions):  # fmt: skip
            raise BadInput("an interaction compares the differences of two pairs of conditions, not one with itself")
        if any(len(set(each)) < len(each) for each in (self.metrics, compared)):
            raise BadInput("a contrast or a metric is named twice: it would count twice in the correction of p values")
        _check_metrics(self.metrics)
        given = [each.name for each in self.condition if each.is_given_memory]
        if given and self.baseline is None:
            raise BadInput(
                f"the condition {given[0]!r} is given memory, and no baseline says what happens without: add a "
                "condition without L2, with mode = 'auto', and name it as the baseline"
            )
        if self.baseline in given:
            raise BadInput(
                f"the baseline {self.baseline!r} is given memory itself: it must have no L2, and mode = 'auto'"
            )

    def named(self, condition: str) -> Condition:
        """Return a condition by its name. Raises `BadInput` if there is none."""
        found = next((each for each in self.condition if each.name == condition), None)
        if found is None:
            known = (each.name for each in self.condition)
            raise BadInput(f"{self.name} has no condition {condition!r}{hint(condition, known)}")
        return found

    @property
    def trials(self) -> int:
        """The number of its trials."""
        return len(self.condition) * self.orders * self.repetitions

    def to_toml(self) -> str:
        """Return the definition with every default filled in, models by the names under which they are recorded."""
        facts = msgspec.to_builtins(self)
        for role, choice in self.models.items():
            facts["models"][role]["model"] = choice.name
        return to_toml(facts)

    @property
    def digest(self) -> str:
        """The SHA-256 of `to_toml`, in hex."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()


def _check_name(name: str, whose: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > experiment_limits.EXPERIMENT_NAME_CHARS:
        raise BadInput(
            f"{name[: limits.GIVEN_CHARS]!r} can't be the name of {whose}: give a letter or digit, then letters, "
            f"digits, '.', '_' or '-', at most {experiment_limits.EXPERIMENT_NAME_CHARS}"
        )


def _check_metrics(names: tuple[str, ...]) -> None:
    from rbank_es.lab.metrics import METRICS, RUBRIC

    for name in names:
        if name not in METRICS:
            raise BadInput(f"no metric is called {name!r}{hint(name, METRICS)}")
        if name == RUBRIC:
            raise BadInput("ratings by a rubric are an opinion beside the other metrics: declare contrasts in those")


def _check_condition(one: Condition) -> None:
    """Raise `BadInput` for an impossible condition, now and not after a night of runs."""
    _check_name(one.name, "a condition")
    if one.name.casefold() == BASE:
        raise BadInput(f"a condition can't be called {one.name!r}: the common bank has that folder; rename it")
    try:
        one.settings({"agent": UNNAMED}, constraints=None, guide=None)
        one.choices()
    except (BadInput, BadPolicy) as error:
        raise BadInput(f"condition {one.name!r}: {error}") from None
    if one.judge == NOBODY and one.curriculum is not None:
        raise BadInput(f"condition {one.name!r}: levels of a curriculum rise by verdicts, and judge is 'none'")
    if one.judge == NOBODY and one.supervised:
        raise BadInput(f"condition {one.name!r}: supervised lets the right answer judge, and judge is 'none'")
    if "L3" not in one.layers and one.guide != WRITTEN:
        raise BadInput(f"condition {one.name!r}: a guide reaches an agent in L3; add it to layers, or leave out guide")


# ---------------------------------------------------------------- files


def shipped_experiments() -> dict[str, Path]:
    """Return the files of the shipped experiments by name, E1 to E14 first, in their order."""
    files = {path.stem: path for path in Path(__file__).parent.glob("*.toml")}
    return {name: files[name] for name in sorted(files, key=_numbered)}


def _numbered(name: str) -> tuple[int, str]:
    number = re.match(r"E(\d+)", name)
    return (int(number[1]) if number else 1_000, name)


def load_experiment(place: str | Path) -> Experiment:
    """Return the experiment in a file, or the shipped one of that name.

    Raises `BadInput`, naming the file: there is none, it is not TOML, or a key, layer, policy or setting is unknown.
    """
    shipped = shipped_experiments()
    path = shipped.get(str(place)) or Path(place)
    if str(place) not in shipped and path.suffix != ".toml":
        raise BadInput(f"no experiment is called {str(place)!r}{hint(str(place), shipped)}; or name a file, NAME.toml")
    return parse_experiment(read_at_most(path, experiment_limits.EXPERIMENT_BYTES, "conditions"), path.name)


def parse_experiment(data: bytes, name: str = "experiment") -> Experiment:
    """Return the experiment in the content of a file, called `name` in messages. Raises `BadInput`."""
    try:
        facts = parse_toml(without_mark(data, name).decode())
    except ValueError as error:  # bytes that are no UTF-8, too
        raise BadInput(f"{name}: it is not TOML: {error}") from None
    try:
        shared = _table(facts.pop("shared", {}), "shared")
        listed = facts.pop("condition", [])
        if not isinstance(listed, list):
            raise BadInput("begin each condition with [[condition]]")
        _check_keys(facts, Experiment, "an experiment", leave_out="condition")
        _check_keys(shared, Condition, "[shared]", leave_out="name")
        conditions = [_merged(shared, _table(each, "condition")) for each in listed]
        # Before msgspec does: its error about an unknown key proposes no known one.
        for each in conditions:
            _check_keys(each, Condition, f"condition {each.get('name', '')!r}")
        return msgspec.convert(facts | {"condition": conditions}, Experiment)
    except msgspec.ValidationError as error:
        raise BadInput(f"{name}: {reason_of(error, Experiment)}") from None
    except (BadInput, BadPolicy, BadContextFile) as error:
        raise BadInput(f"{name}: {error}") from None


def _table(given: Any, name: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise BadInput(f"{name} must be a table, not {type(given).__name__}")
    return given


def _check_keys(given: Mapping[str, Any], form: type[msgspec.Struct], where: str, *, leave_out: str = "") -> None:
    known = [name for name in form.__struct_fields__ if name != leave_out]
    for key in given:
        if key not in known:
            raise BadInput(f"{where} has no setting {key!r}{hint(key, known)}")


def _merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a condition over those that all share; tables are merged key by key."""
    merged = dict(shared)
    for key, value in own.items():
        there = merged.get(key)
        merged[key] = _merged(there, value) if isinstance(there, dict) and isinstance(value, dict) else value
    return merged
