"""One run run again, from its own events, into a bank of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, CannotRerun, LoopStopped
from rbank_es.events import Event, MemoriesRead, MemoriesRetrieved, RunFinished, ToolCalled
from rbank_es.loop.history import task_key
from rbank_es.loop.rollouts import best_of, question_of
from rbank_es.loop.run_context import origin
from rbank_es.loop.single_run import NewRun, begin_runs, execute
from rbank_es.loop.tasks import Task
from rbank_es.rerun.event_comparison import Difference, first_difference
from rbank_es.rerun.hints import live_hint
from rbank_es.rerun.ontology_lookup import Ontologies
from rbank_es.rerun.playback import Again, Played, played_calls, played_run
from rbank_es.rerun.recorded_run import SURROUNDINGS, Recording, holds_erased, recording_of
from rbank_es.rerun.recorded_stages import Stage, do_again, events_of, rollouts_of

if TYPE_CHECKING:
    from rbank_es.sparql.source import Source

NO_GOLD = {
    "verdict": "it was judged by the right answer, which is not in the bank: name its tasks with --tasks to compare",
    "score": "its score is not compared, for the right answer is not in the bank: name its tasks with --tasks",
}
UNFINISHED = {
    "verdict": "judging came to no verdict; it is compared as far as it went",
    "lesson": "extraction came to no end; it is compared as far as it went",
}


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """What came of running a run again: how many events were compared, and the first difference, if there is one.

    `scripted`: a script had stood in for the model. `notes` say what could not be compared, and what is not and yet may
    explain a difference: another release, another ontology, erasures.
    """

    run: str
    position: int
    events: int
    scripted: bool
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
    tasks: Sequence[Task] = (),
    live_sandbox: bool = False,
    into: str | Path | None = None,
) -> Rerun:
    """Run a recorded run again and compare it event by event. Asks no model, uses no key and no network.

    What it retrieves and what its tools answer is found anew, and so are its verdict, its score and what is learnt of
    it; what its models said and, unless `live_sandbox`, what its code came to is taken from the record. What several
    rollouts taught together is compared with the best of them. The bank is only read.

    Args:
        bank: where the run is recorded.
        run: its id.
        point: the point up to which the bank is looked at; None means its head.
        ontologies: where the run's ontology is found.
        tasks: where its right answer is found, which no bank holds; the shipped tasks are always looked at.
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
        played = played_run(recording, live_sandbox)
        scratch = stack.enter_context(bank.copy(recording.position, into))
        _run(scratch, recording, source, played)
        parts = [_Part(recording.events, first_difference(recording.events, tuple(_came(scratch, recording))))]
        for stage in recording.aftermath if parts[0].difference is None else ():
            passed = sum(len(part.events) for part in parts)
            parts.append(_staged(bank, scratch, recording, source, stage, _task(recording, stage, tasks), passed))
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


def _explained(difference: Difference | None, recording: Recording, live_sandbox: bool) -> Difference | None:
    """With a likelier cause than that of its event alone, where there is one.

    Raises `CannotRerun` where what was read of the bank comes out otherwise, and texts were erased from it since: then
    nobody can tell whether anything else changed.
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
    """Whether an event tells what was found in the bank; other tools read the ontology, which nobody erases."""
    if isinstance(event, ToolCalled):
        return event.tool.startswith("mem_")
    return isinstance(event, (MemoriesRetrieved, MemoriesRead))


class _Part(NamedTuple):
    """A part of what is compared: its events, where it came out otherwise, and what is to be said of it."""

    events: Sequence[Event]
    difference: Difference | None = None
    note: str = ""


# ---------------------------------------------------------------- the run itself


def _run(scratch: Bank, recording: Recording, source: Source | None, played: Played) -> None:
    """Begin and execute as a loop does. How it ends is in the events."""
    started, chosen = recording.started, recording.settings
    task = Task.asking(str(started.task))
    new = NewRun(run=started.run, group=started.rollout_group, index=started.rollout_index)
    with Again(scratch, chosen, source, played) as again, _as_it_ends(recording.run):
        begun = begin_runs(again, task, lambda: [new])
        put = question_of(task.question, chosen.perturbation, started.rollout_index or 0)
        execute(again, task, begun.context.text, new, question=put)


def _came(scratch: Bank, recording: Recording) -> Iterator[Event]:
    """The events of the run as it came out again."""
    for event in scratch.events(after=recording.position, run=recording.run, resolve=True):
        yield event
        if isinstance(event, RunFinished):
            return


@contextmanager
def _as_it_ends(run: str) -> Iterator[None]:
    """How something ends is in the events, unless it is this machine that can't do it."""
    try:
        yield
    except LoopStopped as stopped:
        if stopped.code in SURROUNDINGS:
            raise
    except BadInput as error:
        raise CannotRerun(run, str(error)) from error


# ---------------------------------------------------------------- what was made of it


def _staged(
    bank: Bank,
    scratch: Bank,
    recording: Recording,
    source: Source | None,
    stage: Stage,
    task: Task | None,
    passed: int,
) -> _Part:
    """A stage taken again, in the bank as it was just before: that of the run, where nothing came between."""
    if task is None:
        return _Part((), note=NO_GOLD[stage.what])
    played = played_calls(recording.run, stage.events)
    with ExitStack() as stack:
        if scratch.position != stage.position:
            scratch = stack.enter_context(bank.copy(stage.position))
        again = stack.enter_context(Again(scratch, recording.settings, source, played))
        if note := _elsewhere(scratch, recording, stage):
            return _Part((), note=note)
        with _as_it_ends(recording.run):
            do_again(stage, again, task, recording.started)
        came: Iterable[Event] = events_of(scratch, stage.what, stage.runs, stage.position, scratch.position)
        if not stage.complete:
            came = islice(came, len(stage.events))
        found = first_difference(stage.events, tuple(came), passed)
    return _Part(stage.events, found, "" if stage.complete else UNFINISHED[stage.what])


def _elsewhere(scratch: Bank, recording: Recording, stage: Stage) -> str:
    """Why what several rollouts taught is not compared with this one; empty where it is."""
    if stage.what != "lesson" or len(stage.runs) == 1:
        return ""
    best = best_of(rollouts_of(scratch, stage.runs)).run
    if best != recording.run:
        return f"what its rollouts taught together is compared with the best of them, {best}"
    for run in stage.runs:
        if any(map(holds_erased, scratch.events(run=run, resolve=True))):
            return f"what its rollouts taught together is not compared, for texts of {run} were erased"
    return ""


def _task(recording: Recording, stage: Stage, given: Sequence[Task]) -> Task | None:
    """The task of a stage. Where the right answer decided: the one that has it, or None.

    The ids of runs hold a digest of their task, its right answer included, so it is the very same.
    """
    if not stage.by_gold:
        return Task.asking(str(recording.started.task))
    from rbank_es.data import lights
    from rbank_es.loop.tasks import load_tasks

    config, source = recording.started.config_digest or "", recording.ontology_digest or ""
    for task in (*given, *load_tasks(lights().tasks)):
        if recording.run.startswith(f"{task.slug}-{task_key(task, config, source)}-"):
            return task
    return None


def _notes(recording: Recording, source: Source | None) -> Iterator[str]:
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
