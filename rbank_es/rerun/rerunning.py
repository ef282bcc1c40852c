"""One run run again, from its own events, into a bank of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, CannotRerun, LoopStopped
from rbank_es.events import Event, RunFinished
from rbank_es.loop.equipment import Equipment, origin
from rbank_es.loop.one_run import NewRun, begin_runs, execute
from rbank_es.loop.rollouts import question_of
from rbank_es.loop.tasks import Task
from rbank_es.rerun.aftermath import aftermath_of, learn_again
from rbank_es.rerun.comparing import Difference, first_difference
from rbank_es.rerun.ontologies import Ontologies
from rbank_es.rerun.recording import SURROUNDINGS, Recording, recording_of

if TYPE_CHECKING:
    from rbank_es.executors.protocol import Interpreters
    from rbank_es.lms.replaying import ReplayModel
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.sparql.source import Source
    from rbank_es.tools.toolbox import Toolbox


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """What came of running a run again: how many events were compared, and the first difference, if there is one.

    `notes` say what is not compared and yet may explain a difference: another release, another ontology, erasures.
    """

    run: str
    position: int
    events: int
    difference: Difference | None = None
    notes: tuple[str, ...] = ()

    @property
    def identical(self) -> bool:
        """Whether the run came out the same."""
        return self.difference is None


def rerun(
    bank: Bank,
    run: str,
    *,
    point: str | int | None = None,
    ontologies: Ontologies | None = None,
    live_sandbox: bool = False,
    into: Path | None = None,
) -> Rerun:
    """Run a recorded run again and compare it event by event. Asks no model, uses no key and no network.

    What it retrieves and what its tools answer is found anew, and so are its verdict and what is learnt of it alone;
    what its models said and, unless `live_sandbox`, what its code came to is taken from the record. The bank is only
    read.

    Args:
        bank: where the run is recorded.
        run: its id.
        point: the point up to which the bank is looked at; None means its head.
        ontologies: where the run's ontology is found.
        live_sandbox: whether its code is run again, in the sandbox.
        into: an empty directory for the bank in which it runs; a temporary one unless given.

    Raises:
        NotInBank: there is no such run.
        CannotRerun: it can't be run again; the error says why.
        BadOntology, BadInput: what was given can't be used.
        SandboxUnavailable: `live_sandbox`, and there is none here.
        LoopStopped: it can't be finished here, for the disk is full, or the sandbox doesn't work.
    """
    recording = recording_of(bank, run, point)
    with ExitStack() as stack:
        source = (ontologies or stack.enter_context(Ontologies())).source_for(recording)
        played = stack.enter_context(_played(recording, live_sandbox))
        scratch = stack.enter_context(_scratch(bank, recording, into))
        again = stack.enter_context(_Again(scratch, recording.settings, source, played))
        _run(again, recording)
        difference = first_difference(recording.whole, tuple(_came(scratch, recording)))
    return Rerun(
        run=run,
        position=recording.position,
        events=len(recording.whole),
        difference=difference,
        notes=tuple(_notes(recording, source)),
    )


def _came(scratch: Bank, recording: Recording) -> Iterator[Event]:
    """The events of the run as it came out again, and of what was made of it."""
    for event in scratch.events(after=recording.position, run=recording.run, resolve=True):
        yield event
        if isinstance(event, RunFinished):
            alone = recording.settings.rollouts == 1
            yield from aftermath_of(scratch, recording.run, event.seq, scratch.position, alone=alone)
            return


@contextmanager
def _scratch(bank: Bank, recording: Recording, into: Path | None) -> Iterator[Bank]:
    """The bank as it was before the run, to be written to."""
    with ExitStack() as stack:
        if into is None:
            into = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rbank-rerun-"))) / "bank"
            log = bank.log.copy(into, recording.position, unsafe_no_sync=True)
        else:
            log = bank.log.copy(into, recording.position)
        yield stack.enter_context(Bank(log, bank.name))


class _Played(NamedTuple):
    """What is taken from the record: the keys of handles, what models said, and what code came to."""

    keys: tuple[str, ...]
    model: ReplayModel
    places: Interpreters | None


class _Again(Equipment):
    """What a recorded run needs to be run again: its handles get the keys that they had, for prompts hold them."""

    def __init__(self, scratch: Bank, settings: LoopSettings, source: Source | None, played: _Played) -> None:
        super().__init__(
            scratch,
            settings,
            source,
            model_for=lambda _role, _choice: played.model,
            interpreters=played.places,
        )
        self._keys = iter(played.keys)

    def tools(self, run: str, *, bank: Bank | None = None, new_id: Callable[[], str] | None = None) -> Toolbox:
        """See `Equipment.tools`."""
        return super().tools(run, bank=bank, new_id=self._next_key)

    def _next_key(self) -> str:
        return next(self._keys, None) or self.bank.log.new_id()


@contextmanager
def _played(recording: Recording, live_sandbox: bool) -> Iterator[_Played]:
    from rbank_es.executors.playback import recorded_keys
    from rbank_es.lms.replaying import ReplayModel

    with ExitStack() as stack:
        try:
            model = ReplayModel(recording.whole)
            places = stack.enter_context(_places(recording, live_sandbox))
        except CannotRerun:
            raise
        except BadInput as error:
            raise CannotRerun(recording.run, str(error)) from error
        yield _Played(recorded_keys(recording.events), model, places)


@contextmanager
def _places(recording: Recording, live_sandbox: bool) -> Iterator[Interpreters | None]:
    """Where the code of the run is run again, or played."""
    chosen = recording.settings
    if chosen.executor == "react":
        yield None
    elif live_sandbox:
        if chosen.unsafe_local:
            raise CannotRerun(recording.run, "its code ran without a sandbox; leave --live-sandbox out")
        from rbank_es.executors import deno
        from rbank_es.executors.pool import SandboxPool
        from rbank_es.executors.settings import SandboxSettings

        deno.find()
        with SandboxPool(1, SandboxSettings(step_time_s=chosen.step_time_s)) as pool:
            yield pool
    else:
        yield _recorded(recording)


def _recorded(recording: Recording) -> Interpreters:
    from rbank_es.executors.playback import recorded_steps
    from rbank_es.executors.recorded import RecordedInterpreter

    steps = recorded_steps(recording.events)

    def interpreter() -> RecordedInterpreter:
        return RecordedInterpreter(steps)

    told = RecordedInterpreter.execution_instructions
    if recording.settings.unsafe_local:
        import dspy

        told = dspy.LocalInterpreter.execution_instructions
    interpreter.execution_instructions = told  # type: ignore[attr-defined]
    return interpreter


def _run(again: Equipment, recording: Recording) -> None:
    """Begin and execute as a loop does. How it ends is in the events."""
    started, chosen = recording.started, recording.settings
    task = Task.asking(str(started.task))
    new = NewRun(run=started.run, group=started.rollout_group, index=started.rollout_index)
    begun = begin_runs(again, task, lambda: [new])
    put = question_of(task.question, chosen.perturbation, started.rollout_index or 0)
    try:
        execute(again, task, begun.context.text, new, question=put)
        learn_again(again, task, recording)
    except LoopStopped as stopped:
        if stopped.code in SURROUNDINGS:
            # Not the run came out otherwise: this machine can't do it.
            raise


def _notes(recording: Recording, source: Source | None) -> Iterator[str]:
    now = origin()
    for name in ("release", "commit"):
        was, is_ = getattr(recording.started, name), now[name]
        if was != is_:
            yield f"another {name}: recorded {str(was or 'none')[:12]}, now {str(is_ or 'none')[:12]}"
    ontology = source.ontology if source is not None else None
    if ontology is not None and ontology.digest != recording.ontology_digest:
        was, is_ = str(recording.ontology_digest)[:12], ontology.digest[:12]
        yield f"another ontology was given: SHA-256 recorded {was}…, now {is_}…"
    if recording.erased_since:
        yield "texts were erased from the bank since; what the run read of them is missing now"
