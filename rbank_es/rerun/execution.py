"""The rerun of one run: re-executed from its own events, in a copy of its bank, and compared event by event.

Taken from the record: the answers of models, the outcomes of code, the keys of handles. The rest is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, CannotRerun, LoopStopped
from rbank_es.events import Event, MemoriesRead, MemoriesRetrieved, RunStarted, ToolCalled, WordsEmbedded
from rbank_es.events.vector_text import text_digest
from rbank_es.log.run_reader import read_run
from rbank_es.loop.resources import LoopResources, origin
from rbank_es.loop.run_stages import NewRun, begin_runs, execute
from rbank_es.loop.task_history import History, task_key
from rbank_es.loop.tasks import Task
from rbank_es.policies import selection_policy
from rbank_es.rerun.event_comparison import EventDifference, first_difference, live_hint
from rbank_es.rerun.ontology_lookup import Ontologies
from rbank_es.rerun.recorded_run import (
    SURROUNDINGS,
    RecordedRun,
    Stage,
    events_of,
    holds_erased,
    recorded_run,
    repeat_stage,
    rollouts_of,
)
from rbank_es.tools.shared.call_budget import RunMeter

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.bank.memory_graph import MemoryGraph
    from rbank_es.events.run_events import Role, RunBounds
    from rbank_es.executors.executor import Interpreters
    from rbank_es.models.model_choice import LmChoice
    from rbank_es.models.recorded_model import RecordedModel
    from rbank_es.rerun.recorded_run import RecordedRun
    from rbank_es.sparql.data_source import Source
    from rbank_es.tools.shared.toolbox import Toolbox


NO_GOLD = {
    "verdict": "it was judged by the right answer, which is not in the bank: name its tasks with --tasks to compare",
    "score": "its score is not compared, for the right answer is not in the bank: name its tasks with --tasks",
}
UNFINISHED = {
    "verdict": "judging came to no verdict; it is compared as far as it went",
    "lesson": "extraction came to no end; it is compared as far as it went",
}


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a rerun: the number of events compared, and the first difference, if any.

    `scripted`: a script had stood in for the model. `notes` name what could not be compared, and circumstances that may
    explain a difference: another release, another ontology, erasures.
    """

    run: str
    position: int
    events: int
    scripted: bool
    difference: EventDifference | None = None
    notes: tuple[str, ...] = ()

    @property
    def identical(self) -> bool:
        """Whether no difference was found."""
        return self.difference is None


def rerun(
    bank: Bank,
    run: str,
    *,
    point: str | int | None = None,
    ontologies: Ontologies | None = None,
    tasks: Sequence[Task] = (),
    live_sandbox: bool = False,
    into: str | Path | None = None,
) -> Rerun:
    """Re-execute a recorded run and compare it event by event, without a model, a key or a network.

    Retrievals, tools, verdict, score and extraction are computed again. The answers of models and, unless
    `live_sandbox`, the outcomes of code are taken from the record. What several rollouts taught together is compared
    with the best of them. The bank is only read.

    Args:
        bank: holds the run.
        run: its id.
        point: the point up to which the bank is read; None means its head.
        ontologies: finds the run's ontology.
        tasks: hold its right answer, which no bank has; the shipped tasks are always searched too.
        live_sandbox: whether its code runs again, in the sandbox.
        into: an empty directory for the bank in which it runs; a temporary one unless given.

    Raises:
        NotInBank: there is no such run.
        CannotRerun: the run can't be re-executed; the error says why.
        BadOntology, BadInput: an argument can't be used.
        SandboxUnavailable: `live_sandbox`, and there is none here.
        LoopStopped: this machine can't finish it: the disk is full, or the sandbox doesn't work.
    """
    recording = recorded_run(bank, run, point)
    with ExitStack() as stack:
        source = (ontologies or stack.enter_context(Ontologies())).source_for(recording)
        played = played_run(recording, live_sandbox)
        scratch = stack.enter_context(bank.copy(recording.position, into))
        _run(scratch, recording, source, played)
        parts = [
            _Part(
                recording.events,
                first_difference(recording.events, read_run(scratch.log, run, resolve=True).execution),
            )
        ]
        # After a difference nothing more is compared: all that follows may differ because of it.
        for stage in recording.stages if parts[0].difference is None else ():
            passed = sum(len(part.events) for part in parts)
            parts.append(
                _compare_stage(bank, scratch, recording, source, stage, _task(recording, stage, tasks), passed)
            )
            if parts[-1].difference is not None:
                break
    return Rerun(
        run=run,
        position=recording.position,
        events=sum(len(part.events) for part in parts),
        scripted=recording.started.scripted,
        difference=_explained(parts[-1].difference, recording, live_sandbox),
        notes=(*_notes(recording, source), *(part.note for part in parts if part.note)),
    )


def _explained(
    difference: EventDifference | None, recording: RecordedRun, live_sandbox: bool
) -> EventDifference | None:
    """Return the difference, with a likelier hint if its code ran again.

    Raises `CannotRerun` if what was read from the bank differs and texts were erased from it since, because then nobody
    can tell whether anything else changed.
    """
    if difference is None:
        return None
    differs = next((event for event in recording.whole if event.seq == difference.position), None)
    if recording.erased_since and _reads_the_bank(differs):
        reason = f"texts were erased since, and what it read of the bank is not the same without them ({difference})"
        raise CannotRerun(recording.run, reason)
    hint = live_hint(difference.type) if live_sandbox else ""
    return msgspec.structs.replace(difference, hint=hint or difference.hint)


def _reads_the_bank(event: Event | None) -> bool:
    """Return whether an event holds what was read from the bank; other tools read the ontology, never erased."""
    if isinstance(event, ToolCalled):
        return event.tool.startswith(("mem_", "memory_"))
    return isinstance(event, (MemoriesRetrieved, MemoriesRead))


class _Part(NamedTuple):
    """A compared part of a rerun: its events, the first difference, and a note on what was not compared."""

    events: Sequence[Event]
    difference: EventDifference | None = None
    note: str = ""


# ---------------------------------------------------------------- the run


def _run(scratch: Bank, recording: RecordedRun, source: Source | None, played: Played) -> None:
    """Begin and execute as a loop does. The end is in the events."""
    started = recording.started
    task = _asked(started)
    new = NewRun(run=started.run, group=started.rollout_group, index=started.rollout_index)
    with PlayedResources(scratch, recording, source, played) as resources, _ends_recorded(recording.run):
        begun = begin_runs(resources, task, lambda: [new], started.chosen)
        execute(resources, task, begun.context.text, new)


def _asked(started: RunStarted) -> Task:
    """Return the task of a run, without its right answer, which is in no bank."""
    task = Task.asking(str(started.task))
    if started.task_id is None:
        return task
    return msgspec.structs.replace(task, id=started.task_id, level=started.level, family=started.family)


@contextmanager
def _ends_recorded(run: str) -> Iterator[None]:
    """Ignore errors whose outcome is in the events; raise those of this machine, and `CannotRerun` for `BadInput`."""
    try:
        yield
    except LoopStopped as stopped:
        # A failure of the agent or its model is an event, and is compared as one; one of this machine is no difference.
        if stopped.code in SURROUNDINGS:
            raise
    except BadInput as error:
        raise CannotRerun(run, str(error)) from error


# ---------------------------------------------------------------- the stages after it


def _compare_stage(
    bank: Bank,
    scratch: Bank,
    recording: RecordedRun,
    source: Source | None,
    stage: Stage,
    task: Task | None,
    passed: int,
) -> _Part:
    """Repeat a stage and compare it, in the bank as it was just before: the run's if nothing came between."""
    if task is None:
        return _Part((), note=NO_GOLD[stage.what])
    played = played_calls(recording.run, stage.events)
    with ExitStack() as stack:
        # Something else was recorded in between, which the stage saw.
        if scratch.position != stage.position:
            scratch = stack.enter_context(bank.copy(stage.position))
        resources = stack.enter_context(PlayedResources(scratch, recording, source, played))
        if note := _elsewhere(scratch, recording, stage):
            return _Part((), note=note)
        with _ends_recorded(recording.run):
            repeat_stage(stage, resources, task, recording.started)
        came: Iterable[Event] = events_of(scratch, stage.what, stage.runs, stage.position, scratch.position)
        if not stage.complete:
            # The recorded models may answer further than the loop that was cut off got.
            came = islice(came, len(stage.events))
        found = first_difference(stage.events, tuple(came), passed)
    return _Part(stage.events, found, "" if stage.complete else UNFINISHED[stage.what])


def _elsewhere(scratch: Bank, recording: RecordedRun, stage: Stage) -> str:
    """Return why the lesson of several rollouts is not compared with this run; empty if it is."""
    if stage.what != "lesson" or len(stage.runs) == 1:
        return ""
    policy = selection_policy(scratch.policy_choice("selection"))
    best = policy.best(rollouts_of(scratch, History(scratch).catch_up(), stage.runs)).run
    if best != recording.run:
        return f"what its rollouts taught together is compared with the best of them, {best}"
    for run in stage.runs:
        if any(map(holds_erased, scratch.events(run=run, resolve=True))):
            return f"what its rollouts taught together is not compared, for texts of {run} were erased"
    return ""


def _task(recording: RecordedRun, stage: Stage, given: Sequence[Task]) -> Task | None:
    """Return the task of a stage; if the right answer decided, the given task that has it, or None.

    The id of a run holds a digest of its task and right answer, so that no other task is taken for it.
    """
    if not stage.by_gold:
        return _asked(recording.started)
    from rbank_es.data import lights
    from rbank_es.loop.tasks import load_tasks

    config, source = recording.started.config_digest or "", recording.ontology_digest or ""
    for task in (*given, *load_tasks(lights().tasks)):
        if recording.run.startswith(f"{task.slug}-{task_key(task, config, source)}-"):
            return task
    return None


def _notes(recording: RecordedRun, source: Source | None) -> Iterator[str]:
    now = origin()
    for name in ("release", "commit"):
        was, is_ = getattr(recording.started, name), now[name]
        if was is not None and was != is_:
            yield f"another {name}: recorded {str(was)[:12]}, now {str(is_ or 'none')[:12]}"
    ontology = source.ontology if source is not None else None
    if ontology is not None and ontology.digest != recording.ontology_digest:
        was, is_ = str(recording.ontology_digest)[:12], ontology.digest[:12]
        yield f"another ontology was given: SHA-256 recorded {was}…, now {is_}…"
    if recording.erased_since:
        yield "texts were erased from the bank since; what the run read of them is missing now"


class Played(NamedTuple):
    """The recorded answers, handle keys and code outcomes of a run, or of a stage after it."""

    model: RecordedModel
    keys: tuple[str, ...] = ()
    places: Interpreters | None = None
    steps_in_time: int | None = None
    """The number of steps after which the run's time was over; None if it had time left."""


class PlayedMeter(RunMeter):
    """The meter of a rerun. Calls and bytes are counted again; the time of the recorded run ended after its steps."""

    def __init__(self, bounds: RunBounds, steps_in_time: int | None) -> None:
        super().__init__(bounds)
        self._steps_in_time, self._steps = steps_in_time, 0

    def begin_step(self, step: int | None) -> None:
        """Begin a step as `RunMeter.begin_step` does."""
        super().begin_step(step)
        self._steps = step or self._steps

    @property
    def run_left_s(self) -> float:
        """Nothing once all recorded steps were taken, if the time of the recorded run was over then; else no end."""
        return 0.0 if self._steps == self._steps_in_time else inf

    @property
    def step_left_s(self) -> float:
        """No end, because the recorded outcomes of steps tell which were stopped."""
        return inf

    def room_for_text(self, text: str) -> None:
        """Leave room for every sub-call, because only those are repeated that were made."""

    def room_for_prompts(self, prompts: Iterable[str]) -> None:
        """Leave room as `room_for_text` does."""


class PlayedResources(LoopResources):
    """The resources of a rerun. Its handles get their recorded keys, because prompts hold them."""

    def __init__(self, scratch: Bank, recording: RecordedRun, source: Source | None, played: Played) -> None:
        super().__init__(
            scratch,
            recording.settings,
            source,
            suite=recording.started.suite,
            trial=recording.started.trial,
            # One record answers for all roles: requests are found by their digest.
            model_for=lambda _role, _choice: played.model,
            interpreters=played.places,
        )
        self._recorded = played.model.choices
        # What was known when the run began, because requests may depend on it.
        self._servers = recording.started.servers
        self._keys = iter(played.keys)
        self._embedded = [event for event in recording.events if isinstance(event, WordsEmbedded)]
        self._steps_in_time = played.steps_in_time

    @property
    def choices(self) -> Mapping[Role, LmChoice]:
        """The models by role, with the parameters that were recorded: those of today's defaults may differ."""
        chosen: Mapping[Role, LmChoice] = self.settings.choices
        recorded: dict[Role, LmChoice] = {
            role: msgspec.structs.replace(chosen.get(role, chosen["agent"]), arguments=each.arguments)
            for role, each in self._recorded.items()
        }
        return {**chosen, **recorded}

    def meter(self) -> RunMeter:
        """Return a meter whose time ends where that of the recorded run did."""
        return PlayedMeter(self.settings.bounds, self._steps_in_time)

    def catch_up(self) -> None:
        """Do nothing, because read models in memory are quicker than a file for one context."""

    def embed(self, bank: Bank, query: str, *, run: str | None = None) -> None:
        """Record what the endpoint gave for a query, or its failure, where the run did."""
        digest = text_digest(query)
        if run is None or not self._embedded or not _is_of(self._embedded[0], digest):
            return
        with bank.live() as view:
            known = view.known_vectors(self._embedded[0].model).queries
        # A query whose vector the bank has is not embedded again, so the run recorded nothing for it.
        if digest not in known:
            event = self._embedded.pop(0)
            # Without its envelope: the log of the copy writes its own.
            bank.append(msgspec.structs.replace(event, seq=0, at="", id="", salt="", more=0, dur=0, crc=""))

    def tools(
        self,
        run: str,
        task: Task,
        *,
        bank: Bank | None = None,
        memory_graph: MemoryGraph | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> Toolbox:
        """Return the tools as `LoopResources.tools` does."""
        return super().tools(run, task, bank=bank, memory_graph=memory_graph, new_id=self._next_key)

    def _next_key(self) -> str:
        # More handles than were recorded are a difference: the comparison reports it, so no error ends the run here.
        return next(self._keys, None) or self.bank.log.new_id()


def _is_of(event: WordsEmbedded, digest: str) -> bool:
    """Return whether an event holds the vector of a text, or says that there is none."""
    return not event.vectors or str(event.vectors[0]).startswith(digest)


def played_calls(run: str, events: Iterable[Event]) -> Played:
    """Return the answers of models in some events of a run. Raises `CannotRerun` unless recorded whole."""
    from rbank_es.models.recorded_model import RecordedModel

    try:
        return Played(RecordedModel(events))
    except BadInput as error:
        raise CannotRerun(run, str(error)) from error


def played_run(recording: RecordedRun, live_sandbox: bool) -> Played:
    """Return all that a run takes from the record; with `live_sandbox`, a sandbox for its code.

    Raises `CannotRerun` unless it was recorded whole, `SandboxUnavailable`.
    """
    from rbank_es.rerun.recorded_steps import recorded_keys

    model = played_calls(recording.run, recording.events).model
    ended = recording.ended
    steps_in_time = ended.iterations if ended.bound == "run_wall_s" else None
    return Played(model, recorded_keys(recording.events), _places(recording, live_sandbox), steps_in_time)


def _places(recording: RecordedRun, live_sandbox: bool) -> Interpreters | None:
    """Return where the code of the run runs again or is played; None for a run without code."""
    from rbank_es.executors.executor import executor_class

    chosen = recording.settings
    if not executor_class(chosen.executor).runs_code:
        return None
    if not live_sandbox:
        return _recorded(recording)
    if chosen.unsafe_local:
        raise CannotRerun(recording.run, "its code ran without a sandbox; leave --live-sandbox out")
    return _live(chosen.bounds)


def _live(bounds: RunBounds) -> Interpreters:
    """Return one sandbox, started by the first step: no other is kept ready, because no run follows."""
    from rbank_es.executors.agent_step import make_sandboxes
    from rbank_es.executors.executor import RunLimits
    from rbank_es.sandbox.deno import ready_runtime

    # Before anything runs: a missing sandbox is no fault of the run, so it raises here and not at the first step.
    ready_runtime()
    return make_sandboxes(RunLimits(bounds=bounds))


def _recorded(recording: RecordedRun) -> Interpreters:
    from rbank_es.rerun.recorded_steps import recorded_steps
    from rbank_es.sandbox.recorded_interpreter import RecordedInterpreter

    try:
        steps = recorded_steps(recording.events)
    except BadInput as error:
        raise CannotRerun(recording.run, str(error)) from error

    def interpreter() -> RecordedInterpreter:
        return RecordedInterpreter(steps)

    instructions = RecordedInterpreter.execution_instructions
    # Prompts hold these instructions, and those of an interpreter without a sandbox are others.
    if recording.settings.unsafe_local:
        import dspy

        instructions = dspy.LocalInterpreter.execution_instructions
    interpreter.execution_instructions = instructions  # type: ignore[attr-defined]
    return interpreter
