"""The folder of an experiment, read: its definition, suite and environment, and the rows of every trial's bank.

A folder may come from anybody. Only regular files and folders in their planned places are opened, each up to a limit,
and no link is followed. Logs are believed as far as `rbank_es.lab.report_check` verifies them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.ontology_registrations import as_registered
from rbank_es.data import LIGHTS, lights
from rbank_es.errors import BadInput
from rbank_es.events import ExperimentStarted
from rbank_es.events.json_input import decode_strict
from rbank_es.events.run_events import Trial
from rbank_es.lab.experiment_definition import BASE, Experiment, parse_experiment
from rbank_es.lab.experiment_inputs import MaterialDigests
from rbank_es.lab.experiment_plan import ordered_tasks, trials
from rbank_es.lab.guide_worth import GuideWorth, guide_worths
from rbank_es.lab.ratings import KnownRatings, known_ratings
from rbank_es.lab.run_rows import TrialRun, rows_of
from rbank_es.lab.tamper_evidence import recorded_definition, require_same_runs
from rbank_es.lab.task_suite import Suite, load_suite
from rbank_es.lab.trial_log import TrialLog
from rbank_es.lab.trial_place import (
    BANKS,
    DEFINITION,
    ENVIRONMENT,
    SUITE,
    TrialPlace,
    base_place,
    directory,
    entries,
    opened,
    read_part,
)
from rbank_es.lab.trial_record import TrialState, TrialTerms, record_of
from rbank_es.law import top_tenth
from rbank_es.limits import experiment_limits
from rbank_es.system.files import kind_of
from rbank_es.system.progress import OnProgress, reported
from rbank_es.system.proportion import Share
from rbank_es.system.validation_messages import reason_of

if TYPE_CHECKING:
    from rbank_es.ontology.loader import Ontology
    from rbank_es.sparql.data_source import Source


class TrialRead(msgspec.Struct, frozen=True, kw_only=True):
    """A planned trial, as its bank has it.

    place         of its bank, in the folder
    why           in words, where it is unfinished or altered: it is in no number then
    altered_rows  whether its results are not those that it recorded at its end
    head          of its log: it names every byte of the log; empty if the bank is missing
    runs          that ended
    without_run   ids of tasks of which no run ended
    cuts          banks that were cut off and replaced
    earlier       times that it had begun before, in banks that were removed: it was run again
    top_tenth     uses of the most used tenth of the items in its bank, of all: as `rbank-es health` counts them
    """

    condition: str
    order: int
    repetition: int
    place: str
    state: TrialState
    why: str = ""
    altered_rows: bool = False
    head: str = ""
    runs: int = 0
    without_run: tuple[str, ...] = ()
    cuts: int = 0
    earlier: int = 0
    top_tenth: Share | None = None


class ExperimentData(msgspec.Struct, frozen=True, kw_only=True):
    """Everything from which results are computed.

    files      SHA-256 of the definition, the suite and the environment, by their names
    code       release and commit of the code that ran all trials
    source     SHA-256 of the ontology by which terms and flaws were checked; None: they were not
    unplanned  places under `banks` that belong to no trial: nothing of them was read
    recorded   the definition that the trials recorded as they began; contrasts may have been added since
    original   SHA-256 of the environment that they recorded; None if none began
    ratings    by rubric, with the head of their log
    guides     in the bank from which the trials were forked
    """

    experiment: Experiment
    recorded: Experiment
    original: str | None
    suite: Suite
    files: Mapping[str, str]
    code: tuple[str, str]
    source: str | None
    trials: tuple[TrialRead, ...]
    unplanned: tuple[str, ...]
    ratings: KnownRatings
    guides: tuple[GuideWorth, ...]
    rows: tuple[TrialRun, ...]


def read_experiment(folder: Path, source: Source | None = None, progress: OnProgress | None = None) -> ExperimentData:
    """Return the contents of an experiment's folder; `progress` is called after each trial.

    `source` is the one that the agents asked: queries are then checked for flaws and for terms that don't exist.

    Raises `BadInput` for a folder of something else, a bank in the place of another trial's, banks that don't descend
    from one, and runs of another suite, definition or code; `LogCorruption` for a damaged log.
    """
    head = FolderHead.of(folder)
    head.require_source(source)
    ratings = known_ratings(folder)
    planned, found = trials(head.experiment), _Found(ratings.shares)
    for trial in reported(planned, progress):
        found.add(TrialPlace(folder, trial), head, source)
    return ExperimentData(
        experiment=head.experiment,
        recorded=found.recorded or head.experiment,
        original=found.original,
        suite=head.suite,
        files=head.files,
        code=found.code_of(head.environment),
        source=source.ontology.digest if source is not None and source.ontology is not None else None,
        trials=tuple(found.trials),
        unplanned=tuple(_unplanned(folder, planned)),
        ratings=ratings,
        guides=_guides(folder, source, ratings.shares),
        rows=tuple(found.rows),
    )


class FolderHead(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a folder beside its banks."""

    experiment: Experiment
    suite: Suite
    environment: Mapping[str, Any]
    files: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path) -> FolderHead:
        """Read them. Raises `BadInput` where one is missing, unreadable, or not the one that the environment names."""
        if kind_of(folder / DEFINITION) is None:
            raise BadInput(f"{folder} is no folder of an experiment: it has no {DEFINITION}; make one: experiment run")
        definition = read_part(folder, DEFINITION, experiment_limits.EXPERIMENT_BYTES)
        tasks = read_part(folder, SUITE, limits.TASKS_BYTES)
        about = read_part(folder, ENVIRONMENT, experiment_limits.EXPERIMENT_BYTES)
        experiment = parse_experiment(definition, str(folder / DEFINITION))
        suite = load_suite(folder / SUITE)
        environment = _environment(about, str(folder / ENVIRONMENT))
        # Not that of the definition: the trials' logs say what it was, and in what it was changed.
        if environment.get("suite") != suite.digest:
            raise BadInput(
                f"{folder}: the suite has the digest {suite.digest[:12]}, and {ENVIRONMENT} names "
                f"{str(environment.get('suite'))[:12]}: one of them was changed after the experiment began"
            )
        named = {DEFINITION: definition, SUITE: tasks, ENVIRONMENT: about}
        files = {name: sha256(data).hexdigest() for name, data in named.items()}
        return cls(experiment=experiment, suite=suite, environment=environment, files=files)

    def terms(self, trial: Trial) -> TrialTerms:
        """Return the terms of a trial. Raises `BadInput` where the definition names no model."""
        condition, models = self.experiment.named(trial.condition), self.experiment.models
        if "agent" not in models:
            raise BadInput(f"{DEFINITION} names no model of the agent: an experiment that was run has one")
        ordered = ordered_tasks(self.suite.tasks, self.experiment.seed, trial.order)
        return TrialTerms(
            trial=trial,
            config_digest=self.digests.config_digest(condition, models),
            settings=self.digests.settings_digest(condition, models),
            policies=condition.choices(),
            suite=self.suite.digest,
            tasks=tuple(task.id for task in ordered),
            curriculum=(condition.curriculum, ordered) if condition.curriculum is not None else None,
        )

    @property
    def digests(self) -> MaterialDigests:
        """The digests of texts and seeds, as the environment names them."""
        named = {name: self.environment[name] for name in MaterialDigests.__struct_fields__ if name in self.environment}
        try:
            return msgspec.convert(named, MaterialDigests)
        except msgspec.ValidationError as error:
            raise BadInput(f"{ENVIRONMENT}: {reason_of(error, MaterialDigests)}") from None

    @property
    def source_digest(self) -> str | None:
        """The SHA-256 of the only ontology that the agents asked; None for an endpoint, and for several sources."""
        known = self.environment.get("source") if "sources" not in self.environment else None
        digest = known.get("sha256") if isinstance(known, dict) else None
        return digest if isinstance(digest, str) else None

    def require_source(self, source: Source | None) -> None:
        """Raise `BadInput` for a source that is not the one that the agents asked."""
        if source is not None and "sources" in self.environment:
            raise BadInput("the agents asked several sources, so no terms are looked up: leave out --ont")
        if source is not None and source.ontology is not None and source.ontology.digest != self.source_digest:
            raise BadInput(
                f"the ontology {source.id} is not the one that the agents asked: its digest is "
                f"{source.ontology.digest[:12]}, and {ENVIRONMENT} names {str(self.source_digest)[:12]}"
            )

    def shipped_ontology(self) -> Ontology | None:
        """Return the ontology that comes with rbank-es, if it is the one that the agents asked."""
        from rbank_es.ontology.loader import load_ontology

        known = self.environment.get("source")
        if not isinstance(known, dict) or known.get("id") != LIGHTS:
            return None
        shipped = load_ontology(lights().ontology, id=LIGHTS)
        return shipped if shipped.digest == self.source_digest else None


def _environment(data: bytes, name: str) -> Mapping[str, Any]:
    try:
        found = decode_strict(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"{name}: it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadInput(f"{name}: an environment is a JSON object")
    return found


def _guides(folder: Path, source: Source | None, ratings: Mapping[str, float]) -> tuple[GuideWorth, ...]:
    """Return the guides that were written before the first trial."""
    path = directory(folder / BANKS, base_place(folder))
    if path is None:
        return ()
    with Bank.open(path) as bank:
        return tuple(guide_worths(bank, source, ratings))


def _unplanned(folder: Path, planned: Sequence[Trial]) -> Iterator[str]:
    """Yield the places under `banks` that belong to no planned trial, sorted."""
    known: dict[str, set[str]] = {BASE: set()}
    for trial in planned:
        known.setdefault(trial.condition, set()).add(TrialPlace(folder, trial).name)
    for name in entries(folder / BANKS):
        if name not in known:
            yield f"{BANKS}/{name}"
        elif name != BASE:
            yield from (f"{BANKS}/{name}/{each}" for each in entries(folder / BANKS / name) if each not in known[name])


# ---------------------------------------------------------------- trials


class _Found:
    """The trials read so far, and what all of them must have in common."""

    def __init__(self, ratings: Mapping[str, float]) -> None:
        self._ratings = ratings
        self.trials: list[TrialRead] = []
        self.rows: list[TrialRun] = []
        self._code: dict[tuple[str, str], str] = {}
        self._origins: dict[str, str] = {}
        self.recorded: Experiment | None = None
        self.original: str | None = None

    def add(self, place: TrialPlace, head: FolderHead, source: Source | None) -> None:
        """Read a trial. Raises as `read_experiment`."""
        where = str(place.bank.relative_to(place.folder))
        named = {name: getattr(place.trial, name) for name in ("condition", "order", "repetition")}
        bank = opened(place.found_bank)
        if bank is None:
            self.trials.append(TrialRead(**named, place=where, state="missing"))
            return
        with bank:
            log = TrialLog.of(bank)
            # First, because it names what was changed; what follows from that can't be told from other causes.
            self._compare_definition(log, head, where)
            asked = as_registered(bank, source) if source is not None else None
            rows = rows_of(log, head.suite, asked, self._ratings)
            record = record_of(log, rows, head.terms(place.trial), where)
            self._compare(log, place.trial, rows, where)
            self.rows += rows
            self.trials.append(
                TrialRead(
                    **named,
                    place=where,
                    **msgspec.structs.asdict(record),
                    head=str(bank.head()),
                    runs=len(rows),
                    cuts=len(place.earlier),
                    top_tenth=top_tenth(log.state),
                )
            )

    def _compare(self, log: TrialLog, trial: Trial, rows: Sequence[TrialRun], where: str) -> None:
        own = (trial.experiment, trial.condition, trial.order, trial.repetition)
        other = next((r for r in rows if (r.experiment, r.condition, r.order, r.repetition) != own), None)
        if other is not None:
            raise BadInput(f"{where} holds runs of another trial, such as {other.run}")
        for started in (log.started[row.run] for row in rows):
            self._code.setdefault((started.release or "", started.commit or ""), where)
        # The first ancestor: a bank that was cut off and forked again has more of them.
        ancestors = log.bank.log.ancestors()
        self._origins.setdefault(ancestors[0].bank if ancestors else "", where)
        if len(self._origins) > 1:
            one, two = self._origins.values()
            raise BadInput(f"{one} and {two} don't descend from one bank: their trials had different beginnings")

    def _compare_definition(self, log: TrialLog, head: FolderHead, where: str) -> None:
        """Take the definition that a trial recorded. Raises `BadInput` where it is not that of the others."""
        started = next((event for event in log.declared if isinstance(event, ExperimentStarted)), None)
        if started is None:
            return
        if self.recorded is None:
            self.recorded, self.original = recorded_definition(log.bank, started, where), started.environment
            require_same_runs(self.recorded, head.experiment, where)
        elif (started.definition, started.environment) != (self.recorded.digest, self.original):
            raise BadInput(f"{where} recorded another definition or environment than the trials before it")

    def code_of(self, environment: Mapping[str, Any]) -> tuple[str, str]:
        """Return release and commit of the code of all runs. Raises `BadInput` where they differ."""
        named = (str(environment.get("release") or ""), str(environment.get("commit") or ""))
        for code, where in self._code.items():
            if code != named:
                raise BadInput(
                    f"{where} has runs of the code {_code_words(code)}, and {ENVIRONMENT} names {_code_words(named)}: "
                    "results of different code can't be compared; run the experiment with one, in another folder"
                )
        return named


def _code_words(code: tuple[str, str]) -> str:
    return f"{code[0] or 'unknown'} ({code[1][:12] or 'no commit'})"
