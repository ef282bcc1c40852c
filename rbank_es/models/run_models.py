"""The models of one run, by role."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rbank_es.errors import BadInput
from rbank_es.events.event import Settings, Timer
from rbank_es.events.run_events import Role
from rbank_es.models.adapter import adapter
from rbank_es.models.call_recorder import RecordingEngine, RunCalls, Sleep
from rbank_es.models.choice import LmChoice, accepted_parameters, check_parameters
from rbank_es.models.model_call import (
    EngineModel,
    LmEngine,
    Model,
    load_dspy,
)
from rbank_es.models.scripted_model import Script, ScriptedModel

if TYPE_CHECKING:
    from dspy.clients.lm import LM

    from rbank_es.bank import Bank

ModelFor = Callable[[Role, LmChoice], Model | LmEngine]
"""Returns the model of a role where it is neither live nor scripted: a recorded one, or an engine of one's own."""


class Lms:
    """The models of one run: agent, sub, judge, extractor. Every call is recorded. Safe for several threads.

    A role without a choice of its own takes the agent's. `calls` has their totals and their failure; executors set its
    `step`, which is recorded with the calls of agent and sub. Close it, or use it in a `with`.
    """

    def __init__(
        self,
        bank: Bank,
        run: str | None,
        choices: Mapping[Role, LmChoice],
        *,
        task: str = "",
        rollout: int = 0,
        model_for: ModelFor | None = None,
        sleep: Sleep = time.sleep,
        clock: Timer = time.perf_counter,
    ) -> None:
        """Make models that record in `bank` as part of `run`. Nothing is sent.

        `task` and `rollout` (from 0) choose the turns of a script. Raises `LmFailed` (unknown_model, missing_key),
        `BadInput` for an invalid script or parameter, `MissingExtra`.
        """
        load_dspy()
        if not choices:
            raise BadInput("no model was chosen; give one with --lm")
        self._choices = dict(choices)
        self.calls = RunCalls(bank, run)
        self._task, self._rollout = task, rollout
        self._sleep, self._clock = sleep, clock
        self._models: dict[str, Model] = {}
        self._by_role = {role: self._made(role, choice, model_for) for role, choice in self._choices.items()}

    # ---------------------------------------------------------------- models

    def choice(self, role: Role) -> LmChoice:
        """Return the choice for a role. Raises `BadInput` if there is none."""
        found = self._choices.get(role) or self._choices.get("agent")
        if found is None:
            raise BadInput(f"no model was chosen for the {role}; give one with --lm")
        return found

    def lm(self, role: Role, *, temperature: float | None = None, rollout_id: int | None = None) -> LM:
        """Return a `dspy.LM` without cache and retries of its own. Its calls raise `LmFailed`.

        `temperature` overrides the choice's own. `rollout_id` is recorded, because rollouts of one task must get
        distinct samples. Raises `BadInput` for parameters that the model does not accept.
        """
        choice = self.choice(role)
        wanted: Settings = dict(choice.parameters)
        if temperature is not None:
            wanted["temperature"] = temperature
        given = accepted_parameters(choice.name, wanted)
        recorded = {name: value for name, value in wanted.items() if name in given}
        if rollout_id is not None:
            recorded["rollout_id"] = rollout_id
        engine = RecordingEngine(
            self._by_role.get(role) or self._by_role["agent"],
            self.calls,
            role,
            choice.name,
            parameters=recorded,
            sleep=self._sleep,
            clock=self._clock,
        )
        # No cache: it would return the same sample to all rollouts. No retries: each must be recorded.
        lm: LM = load_dspy().LM(choice.name, engine=engine, cache=False, num_retries=0, **given)
        return lm

    def context(
        self, role: Role, *, temperature: float | None = None, rollout_id: int | None = None
    ) -> AbstractContextManager[None]:
        """Return `dspy.context` with the role's model, `adapter()`, and no history."""
        lm = self.lm(role, temperature=temperature, rollout_id=rollout_id)
        # No history, because dspy would keep every prompt of the process in memory.
        context: AbstractContextManager[None] = load_dspy().context(lm=lm, adapter=adapter(), disable_history=True)
        return context

    def _made(self, role: Role, choice: LmChoice, model_for: ModelFor | None) -> Model:
        if model_for is not None:
            return _as_model(model_for(role, choice))
        script = choice.script
        if script is not None:
            return self._shared(choice.model, lambda: ScriptedModel(Script.load(script), self._task, self._rollout))
        from rbank_es.models.live_model import LiveModel

        check_parameters(choice)
        return self._shared(repr(choice), lambda: LiveModel(choice))

    def _shared(self, key: str, make: Callable[[], Model]) -> Model:
        # Roles with equal choices share one model, and with it its connections.
        if key not in self._models:
            self._models[key] = make()
        return self._models[key]

    # ---------------------------------------------------------------- the run

    @property
    def unused(self) -> tuple[str, ...]:
        """Turns of a script, or recorded calls, that were not requested yet; empty for live models."""
        models = {id(model): model for model in self._by_role.values()}
        return tuple(turn for model in models.values() for turn in getattr(model, "unused", ()))

    def close(self) -> None:
        """Close all connections."""
        for model in self._models.values():
            model.close()

    def __enter__(self) -> Lms:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def check_choices(choices: Mapping[Role, LmChoice]) -> None:
    """Raise what `Lms` would raise for these choices, before anything is recorded. Nothing is sent."""
    for choice in choices.values():
        check_parameters(choice)
        if choice.script is not None:
            Script.load(choice.script)
        else:
            from rbank_es.models.live_model import require_key

            require_key(choice)


def _as_model(given: Model | LmEngine) -> Model:
    return given if hasattr(given, "prepare") else EngineModel(given)  # type: ignore[return-value]
