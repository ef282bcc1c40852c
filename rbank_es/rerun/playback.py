"""What is taken from the record where a run is run again: what models said, what code came to, the keys of handles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from rbank_es.errors import BadInput, CannotRerun
from rbank_es.events import Event
from rbank_es.executors.executor import executor_class
from rbank_es.loop.run_context import Equipment

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.executors.executor import Interpreters
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.models.recorded_model import RecordedModel
    from rbank_es.rerun.recorded_run import Recording
    from rbank_es.sparql.source import Source
    from rbank_es.tools.runtime.toolbox import Toolbox


class Played(NamedTuple):
    """What a run, or a stage after it, takes from the record."""

    model: RecordedModel
    keys: tuple[str, ...] = ()
    places: Interpreters | None = None


class Again(Equipment):
    """What a recorded run needs to be run again: its handles get the keys that they had, for prompts hold them."""

    def __init__(self, scratch: Bank, settings: LoopSettings, source: Source | None, played: Played) -> None:
        super().__init__(
            scratch,
            settings,
            source,
            model_for=lambda _role, _choice: played.model,
            interpreters=played.places,
        )
        self._keys = iter(played.keys)

    def catch_up(self) -> None:
        """Nothing: the bank is read once, for this one context, and to make that in memory is quicker than a file."""

    def tools(self, run: str, *, bank: Bank | None = None, new_id: Callable[[], str] | None = None) -> Toolbox:
        """See `Equipment.tools`."""
        return super().tools(run, bank=bank, new_id=self._next_key)

    def _next_key(self) -> str:
        return next(self._keys, None) or self.bank.log.new_id()


def played_calls(run: str, events: Iterable[Event]) -> Played:
    """What models said in some events of a run. Raises `CannotRerun` where that was not recorded whole."""
    from rbank_es.models.recorded_model import RecordedModel

    try:
        return Played(RecordedModel(events))
    except BadInput as error:
        raise CannotRerun(run, str(error)) from error


def played_run(recording: Recording, live_sandbox: bool) -> Played:
    """All that a run takes from the record; with `live_sandbox` its code is run again.

    Raises `CannotRerun` where it was not recorded whole, `SandboxUnavailable`.
    """
    from rbank_es.executors.run_record import recorded_keys

    model = played_calls(recording.run, recording.events).model
    return Played(model, recorded_keys(recording.events), _places(recording, live_sandbox))


def _places(recording: Recording, live_sandbox: bool) -> Interpreters | None:
    """Where the code of the run is run again, or played."""
    chosen = recording.settings
    if not executor_class(chosen.executor).runs_code:
        return None
    if not live_sandbox:
        return _recorded(recording)
    if chosen.unsafe_local:
        raise CannotRerun(recording.run, "its code ran without a sandbox; leave --live-sandbox out")
    return _live(chosen.step_time_s)


def _live(step_time_s: float) -> Interpreters:
    """One sandbox, started with the first step: no run follows for which another should be ready."""
    from rbank_es.executors.code_step import make_sandboxes
    from rbank_es.executors.executor import RunLimits
    from rbank_es.sandbox import deno

    deno.find()
    return make_sandboxes(RunLimits(step_time_s=step_time_s))


def _recorded(recording: Recording) -> Interpreters:
    from rbank_es.executors.run_record import recorded_steps
    from rbank_es.sandbox.recorded_interpreter import RecordedInterpreter

    try:
        steps = recorded_steps(recording.events)
    except BadInput as error:
        raise CannotRerun(recording.run, str(error)) from error

    def interpreter() -> RecordedInterpreter:
        return RecordedInterpreter(steps)

    told = RecordedInterpreter.execution_instructions
    if recording.settings.unsafe_local:
        import dspy

        told = dspy.LocalInterpreter.execution_instructions
    interpreter.execution_instructions = told  # type: ignore[attr-defined]
    return interpreter
