"""Running an experiment into a folder: the definition, the suite and the environment as run, and a bank per trial.

    experiment.toml      the definition with every default filled in, models by name
    suite.json           the tasks
    environment.json     code, platform, packages, models, digests of the ontology, of seeds and of guides
    banks/base           the bank from which all trials are forked
    banks/CONDITION/oO-rR
    cut/                 banks that were cut off inside a task, and replaced

The same call goes on with a folder that is there; a folder of another experiment, suite or code is refused.
"""

from __future__ import annotations

import platform
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.ontology_registrations import registration
from rbank_es.errors import BadInput, BankNotFound, LogBusy
from rbank_es.events.run_events import RunBounds, Trial
from rbank_es.executors.executor import Interpreters, executor_class
from rbank_es.lab.experiment_inputs import Materials
from rbank_es.lab.experiment_plan import trials
from rbank_es.lab.shards import Shard, ShardFolder
from rbank_es.lab.tamper_evidence import SHARDS
from rbank_es.lab.task_suite import suite_json
from rbank_es.lab.trial import TrialOutcome, patiently, run_trial
from rbank_es.lab.trial_claims import Claims
from rbank_es.lab.trial_place import (
    DEFINITION,
    ENVIRONMENT,
    SUITE,
    TrialPlace,
    base_place,
    read_part,
    require_own_places,
)
from rbank_es.limits import experiment_limits, sandbox_limits
from rbank_es.loop.resources import Sandboxes, check, origin
from rbank_es.loop.watched_bank import OnEvents, watched
from rbank_es.system.daemon_threads import first_error, run_threads
from rbank_es.system.files import is_scratch, kind_of, write_replacing

if TYPE_CHECKING:
    from rbank_es.loop.closed_loop import TaskResult
    from rbank_es.sparql.data_source import Source

PACKAGES = ("msgspec", "dspy", "pyoxigraph", "rdflib", "sqlite-utils", "deno")
"""Packages on whose versions a result may depend."""

ELSEWHERE = "run it in another folder with --into"

OnTrialTask = Callable[[Trial, "TaskResult"], None]


class JobStopped(Exception):
    """Another trial failed: this one stopped between two tasks."""


def run_experiment(
    materials: Materials,
    folder: Path,
    *,
    jobs: int = 1,
    shard: Shard | None = None,
    lease_s: float = experiment_limits.CLAIM_LEASE_S,
    on_task: OnTrialTask | None = None,
    on_events: OnEvents | None = None,
    patience_s: float = experiment_limits.EXPERIMENT_PATIENCE_S,
    sleep: Callable[[float], None] = time.sleep,
    **parts: Any,
) -> tuple[TrialOutcome, ...]:
    """Run all trials of an experiment that are not finished yet, and return the outcomes of all, in their order.

    Args:
        materials: the experiment, with all that its definition names.
        folder: made if it is missing; else it must hold this very experiment.
        jobs: trials side by side, in threads: what they wait for is the model.
        shard: which of several processes this is, on whatever machines, that share the folder: each trial is run by the
            first that claims it, and the outcomes are those that this process published; see `shards.py`. Nothing is
            rated then.
        lease_s: seconds after which a claim that wasn't renewed is another's.
        on_task: called after each task, from any thread, one call at a time.
        on_events: called with the events of runs as they are recorded, from any thread.
        patience_s: how long one task waits for a model that fails, in seconds.
        sleep: waits so many seconds.
        parts: of `LoopResources`, for those who bring a model, an interpreter or an executor of their own.

    Raises:
        BadInput: the folder holds something else, or another process runs this experiment.
        LmFailed, SandboxUnavailable, MissingExtra: every run would fail, and nothing was recorded; or, once all is run,
            no rating can be had.
        LoopStopped: a trial stopped. The others end after their current task. The same call goes on.
    """
    if not 1 <= jobs <= experiment_limits.EXPERIMENT_JOBS:
        raise BadInput(f"{jobs} jobs: give 1 to {experiment_limits.EXPERIMENT_JOBS}")
    # All of them before anything is written: the last condition must not fail after the others were paid for.
    for condition in materials.experiment.condition:
        # A model or an interpreter that the caller brings needs no key and no sandbox here.
        own = {"models": "model_for" not in parts, "sandbox": "interpreters" not in parts}
        check(materials.settings(condition), **own)
    prepare_folder(materials, folder, sharded=shard is not None)
    with ExitStack() as stack:
        places = stack.enter_context(_Places(materials, jobs, parts.pop("interpreters", None)))
        waits: dict[str, Any] = {"patience_s": patience_s, "sleep": sleep}

        def guided(base: Bank) -> None:
            shown = watched(base, on_events) if on_events is not None else base
            patiently(partial(_write_guide, materials, shown, places, parts), lambda: 0, **waits)

        work = _Work(materials, folder, places, on_task, {**waits, "on_events": on_events, **parts})
        if shard is not None:
            shared = ShardFolder(folder, lease_s)
            shared.make_base(partial(_made_base, materials, guided), sleep)
            return work.done_by(jobs, shard.order(trials(materials.experiment)), shared)
        base = stack.enter_context(_base(materials, base_place(folder)))
        stack.enter_context(_alone(base, folder, lease_s))
        guided(base)
        outcomes = work.done_by(jobs, trials(materials.experiment))
        if materials.experiment.rubrics:
            _rate(materials, folder, parts)
        return outcomes


# ---------------------------------------------------------------- the folder


def prepare_folder(materials: Materials, folder: Path, *, sharded: bool = False) -> None:
    """Write the files of an experiment's folder, or check those that are there. Raises `BadInput`, OSError.

    Shards may do it at the same time, because they write the same.
    """
    files = {
        DEFINITION: materials.experiment.to_toml().encode(),
        SUITE: suite_json(materials.suite),
        ENVIRONMENT: msgspec.json.format(msgspec.json.encode(environment(materials, sharded=sharded)), indent=1)
        + b"\n",
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise BadInput(f"{folder} is a file, where the folder of an experiment must be: {ELSEWHERE}") from None
    require_own_places(folder, trials(materials.experiment))
    is_whole = kind_of(folder / DEFINITION) is not None
    if not is_whole and any(folder.iterdir()):
        left = {path.name for path in folder.iterdir() if not is_scratch(path.name)} - {*files}
        if left:
            raise BadInput(f"{folder} holds {min(left)} and no experiment: {ELSEWHERE}")
    # The definition last, because its presence says that the folder is whole.
    for name in (DEFINITION, SUITE, ENVIRONMENT) if is_whole else (SUITE, ENVIRONMENT, DEFINITION):
        if is_whole:
            _require_same(folder, name, files[name])
        else:
            write_replacing(folder / name, [files[name]])


def _require_same(folder: Path, name: str, wanted: bytes) -> None:
    there = read_part(folder, name, limits.TASKS_BYTES)
    if there == wanted:
        return
    # An empty line behind both, so that a text that only goes on differs from a shorter one.
    pairs = zip((*there.decode(errors="replace").splitlines(), ""), (*wanted.decode().splitlines(), ""), strict=False)
    old, new = next(((one.strip(), other.strip()) for one, other in pairs if one != other), ("", ""))
    raise BadInput(
        f"{folder} holds another experiment, or the same under other conditions: {name} has "
        f"{old[: limits.DIFFERENCE_CHARS]!r}, and this would be {new[: limits.DIFFERENCE_CHARS]!r}; {ELSEWHERE}"
    )


def environment(materials: Materials, *, sharded: bool = False) -> dict[str, Any]:
    """Return the facts on which a result may depend beside definition and suite, as plain data."""
    scripted = any(choice.scripted for choice in materials.experiment.models.values())
    return {
        "kind": "SCRIPTED: a script stood in for the model" if scripted else "models",
        **origin(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in PACKAGES},
        "definition": materials.experiment.digest,
        "suite": materials.suite.digest,
        "source": _named(materials.source),
        **(
            {"sources": {name: _named(source) for name, source in materials.others.items()}} if materials.others else {}
        ),
        "seeds": materials.digests.seeds,
        "guides": materials.digests.guides,
        "constraints": materials.digests.constraints,
        **({SHARDS: True} if sharded else {}),
    }


def _named(source: Source) -> dict[str, Any]:
    """Return the id of a source, and the digest or the address of its content."""
    content = {"sha256": source.ontology.digest} if source.ontology is not None else {"url": source.url}
    return {"id": source.id, **content}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        # An extra that is not installed has no version; the environment records that it was missing.
        return None


# ---------------------------------------------------------------- the common bank


def _made_base(materials: Materials, guided: Callable[[Bank], None], place: Path) -> None:
    with _base(materials, place) as base:
        guided(base)


def _base(materials: Materials, place: Path) -> Bank:
    """Return the bank that all trials are forked from, made if it is missing."""
    try:
        return Bank.open(place)
    except BankNotFound:
        place.parent.mkdir(exist_ok=True)
    experiment = materials.experiment
    registrations = [registration(each, each.ontology) for each in materials.sources if each.ontology is not None]

    def fill(bank: Bank) -> None:
        # Registered here and not by the first run, whose beginning is where a trial may be cut back to.
        for event in registrations:
            bank.append(event)

    purpose = f"experiment {experiment.name}: {experiment.title}"
    return Bank.create(place, purpose=purpose, fill=fill)


@contextmanager
def _alone(base: Bank, folder: Path, lease_s: float) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(base.log.exclusive("experiment"))
            # Locks may not reach another machine, and then this process would move banks that are written to there.
            free = stack.enter_context(Claims(folder, lease_s).alone("experiment"))
        except LogBusy:
            free = False
        if not free:
            raise BadInput(
                f"another process runs the experiment in {folder}: wait for it (on another machine, {lease_s:.0f} s "
                f"longer), {ELSEWHERE}, or run it in shards with --shard"
            )
        yield


def _write_guide(materials: Materials, base: Bank, places: _Places, parts: dict[str, Any]) -> None:
    """Have an agent write the guide into the common bank, once, if a condition needs one."""
    from rbank_es.loop.guide_run import guide_settings, write_guide

    wanting = next((each for each in materials.experiment.condition if each.needs_guide), None)
    if wanting is not None:
        settings = materials.settings(wanting)
        own = places.of(guide_settings(settings).executor, settings.bounds)
        write_guide(base, settings, materials.source, **own, **parts)


def _rate(materials: Materials, folder: Path, parts: dict[str, Any]) -> None:
    """Have the judging model rate what the definition names."""
    from rbank_es.lab.ratings import rate_experiment

    experiment, models = materials.experiment, materials.experiment.models
    # Only the model: a rating runs no code, and takes no other part of `LoopResources`.
    own = {"model_for": parts["model_for"]} if "model_for" in parts else {}
    judge = models.get("judge", models["agent"])
    rate_experiment(folder, experiment, materials.suite, judge, experiment.rubrics, **own)


# ---------------------------------------------------------------- sandboxes and jobs


class _Places:
    """The places where code runs, shared by all trials with the same bounds: a sandbox takes a second to start."""

    def __init__(self, materials: Materials, jobs: int, given: Interpreters | None) -> None:
        self._rollouts = max(each.rollouts for each in materials.experiment.condition)
        self._size, self._given = min(jobs * self._rollouts, sandbox_limits.SANDBOX_POOL), given
        self._pools: dict[RunBounds, Sandboxes] = {}
        self._stack, self._mutex = ExitStack(), threading.Lock()

    def of(self, executor: str, bounds: RunBounds) -> dict[str, Any]:
        """Return the part of `LoopResources` for an executor under these bounds; none if it runs no code."""
        if self._given is not None:
            return {"interpreters": self._given}
        if not executor_class(executor).runs_code:
            return {}
        from rbank_es.executors.agent_step import sandbox_settings

        with self._mutex:
            if bounds not in self._pools:
                self._pools[bounds] = Sandboxes(self._size, sandbox_settings(bounds))
                self._stack.callback(self._pools[bounds].close)
            return {"interpreters": self._pools[bounds]}

    def __enter__(self) -> _Places:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class _Work:
    """The trials of an experiment, worked off by several threads."""

    def __init__(
        self,
        materials: Materials,
        folder: Path,
        places: _Places,
        on_task: OnTrialTask | None,
        options: dict[str, Any],
    ) -> None:
        self._materials, self._folder, self._places, self._options = materials, folder, places, options
        self._on_task = on_task
        self._todo: queue.SimpleQueue[tuple[int, Trial]] = queue.SimpleQueue()
        self._shared: ShardFolder | None = None
        self._outcomes: dict[int, TrialOutcome | None] = {}
        self._errors: list[BaseException] = []
        self._mutex, self._stop = threading.Lock(), threading.Event()

    def done_by(
        self, jobs: int, planned: Sequence[Trial], shared: ShardFolder | None = None
    ) -> tuple[TrialOutcome, ...]:
        """Run trials in so many threads, and return their outcomes in order; `shared` leaves out those of others.

        Raises the first error of a trial.
        """
        self._shared = shared
        for numbered in enumerate(planned):
            self._todo.put(numbered)
        try:
            run_threads([self._work] * min(jobs, len(planned)))
        finally:
            # After an interruption too: no thread may begin another task.
            self._stop.set()
        if self._errors:
            raise first_error(self._errors)
        return tuple(each for at in range(len(planned)) if (each := self._outcomes[at]) is not None)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                at, trial = self._todo.get_nowait()
            except queue.Empty:
                return
            try:
                self._outcomes[at] = self._run(trial)
            except JobStopped:
                # Another trial failed: this one ended after its task, and the same command completes it.
                return
            except BaseException as error:
                # Anything at all: in a thread it would end unseen. `done_by` raises it.
                self._errors.append(error)
                self._stop.set()

    def _run(self, trial: Trial) -> TrialOutcome | None:
        if self._shared is None:
            return self._run_at(TrialPlace(self._folder, trial), self._task)
        return self._shared.run(trial, self._run_at, self._task)

    def _run_at(self, place: TrialPlace, on_task: OnTrialTask) -> TrialOutcome:
        condition = self._materials.experiment.named(place.trial.condition)
        where = self._places.of(condition.executor, condition.bounds)
        return run_trial(self._materials, place, on_task=on_task, **where, **self._options)

    def _task(self, trial: Trial, result: TaskResult) -> None:
        if self._on_task is not None:
            with self._mutex:
                self._on_task(trial, result)
        if self._stop.is_set():
            raise JobStopped
