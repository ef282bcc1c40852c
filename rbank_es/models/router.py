"""The models of one run, by role."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from rbank_es.errors import BadInput, LmFailed
from rbank_es.events.event import Settings
from rbank_es.events.run_events import Role
from rbank_es.models.adapter import adapter
from rbank_es.models.call_recorder import Clock, RecordingEngine, Sleep
from rbank_es.models.choice import LmChoice
from rbank_es.models.model import Engine, EngineModel, Model
from rbank_es.models.run_calls import Ledger, Totals
from rbank_es.models.scripted_model import Script, ScriptedModel
from rbank_es.models.serialization import load_dspy

if TYPE_CHECKING:
    from dspy.clients.lm import LM

    from rbank_es.bank import Bank

ModelFor = Callable[[Role, LmChoice], Model | Engine]
"""What answers in a role, where it is neither a provider nor a script: a replay, or an engine of a test."""


class Lms:
    """The models of one run: agent, sub, judge, extractor. Every call is recorded. May be used by several threads.

    A role that has no choice of its own takes the agent's. Executors set `step`, the index of the step from 1, which
    the calls of agent and sub are recorded with. Use it in a `with`, or close it.
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
        clock: Clock = time.perf_counter,
    ) -> None:
        """Models that record in `bank` as of `run`. Nothing is sent.

        `task` and `rollout` (from 0) are where a script is looked up. Raises `LmFailed` (unknown_model, missing_key),
        `BadInput` for a script or parameters that can't be used, `MissingExtra`.
        """
        load_dspy()
        if not choices:
            raise BadInput("no model was chosen; give one with --lm")
        self._choices = dict(choices)
        self._ledger = Ledger(bank, run)
        self._task, self._rollout = task, rollout
        self._sleep, self._clock = sleep, clock
        self._models: dict[str, Model] = {}
        self._by_role = {role: self._made(role, choice, model_for) for role, choice in self._choices.items()}

    # ---------------------------------------------------------------- models

    def choice(self, role: Role) -> LmChoice:
        """The model that answers in a role."""
        found = self._choices.get(role) or self._choices.get("agent")
        if found is None:
            raise BadInput(f"no model was chosen for the {role}; give one with --lm")
        return found

    def lm(self, role: Role, *, temperature: float | None = None, rollout_id: int | None = None) -> LM:
        """A model for `dspy.context(lm=…)`, or to be called. It caches nothing and tries nothing again by itself.

        `temperature` goes before the choice's own. `rollout_id` is recorded: rollouts of one task tell their samples
        apart by it. Calls raise `LmFailed`. Raises `BadInput` for parameters that the model can't be given.
        """
        choice = self.choice(role)
        wanted: Settings = dict(choice.parameters)
        if temperature is not None:
            wanted["temperature"] = temperature
        given = _accepted(choice.name, wanted)
        recorded = {name: value for name, value in wanted.items() if name in given}
        if rollout_id is not None:
            recorded["rollout_id"] = rollout_id
        engine = RecordingEngine(
            self._by_role.get(role) or self._by_role["agent"],
            self._ledger,
            role,
            choice.name,
            parameters=recorded,
            sleep=self._sleep,
            clock=self._clock,
        )
        lm: LM = load_dspy().LM(choice.name, engine=engine, cache=False, num_retries=0, **given)
        return lm

    def context(
        self, role: Role, *, temperature: float | None = None, rollout_id: int | None = None
    ) -> AbstractContextManager[None]:
        """`dspy.context` with the role's model and `adapter()`, in which dspy keeps no history of its own."""
        lm = self.lm(role, temperature=temperature, rollout_id=rollout_id)
        context: AbstractContextManager[None] = load_dspy().context(lm=lm, adapter=adapter(), disable_history=True)
        return context

    def _made(self, role: Role, choice: LmChoice, model_for: ModelFor | None) -> Model:
        if model_for is not None:
            return _as_model(model_for(role, choice))
        if choice.script is not None:
            return self._shared(choice.model, lambda: ScriptedModel(_loaded(choice), self._task, self._rollout))
        from rbank_es.models.live_model import LiveModel

        _check_parameters(choice)
        return self._shared(repr(choice), lambda: LiveModel(choice))

    def _shared(self, key: str, make: Callable[[], Model]) -> Model:
        if key not in self._models:
            self._models[key] = make()
        return self._models[key]

    # ---------------------------------------------------------------- the run

    @property
    def step(self) -> int | None:
        """Index of the step that is being made, from 1; None before the first."""
        return self._ledger.step

    @step.setter
    def step(self, index: int | None) -> None:
        """Set by the executor, before the calls of the step."""
        self._ledger.step = index

    @property
    def last_prompt_chars(self) -> int:
        """Characters of the words of the agent's last request."""
        return self._ledger.prompt_chars

    @property
    def totals(self) -> Totals:
        """Calls, tokens and cost so far."""
        return self._ledger.totals

    @property
    def broken(self) -> LmFailed | None:
        """The failure after which nothing more may be asked: a script or a replay that departs, a call not recorded."""
        return self._ledger.broken

    @property
    def unused(self) -> tuple[str, ...]:
        """Turns of a script, or calls of a replay, that nobody asked for yet; empty for providers."""
        models = {id(model): model for model in self._by_role.values()}
        return tuple(turn for model in models.values() for turn in getattr(model, "unused", ()))

    def close(self) -> None:
        """Close the connections."""
        for model in self._models.values():
            model.close()

    def __enter__(self) -> Lms:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def check_choices(choices: Mapping[Role, LmChoice]) -> None:
    """Raise what `Lms` would raise for these choices, before anything is recorded. Nothing is sent."""
    from rbank_es.models.providers import require_key

    for choice in choices.values():
        _check_parameters(choice)
        if choice.script is not None:
            _loaded(choice)
        else:
            require_key(choice)


def _loaded(choice: LmChoice) -> Script:
    if choice.script is None:
        raise BadInput(f"{choice.model} is no script")
    return Script.load(choice.script)


def _as_model(given: Model | Engine) -> Model:
    return given if hasattr(given, "asked") else EngineModel(given)  # type: ignore[return-value]


def _accepted(name: str, given: Settings) -> dict[str, Any]:
    """The parameters as dspy takes them for this model: without a temperature where the model reasons and has none.

    Raises `BadInput`.
    """
    dspy = load_dspy()
    plain = {argument: list(value) if isinstance(value, tuple) else value for argument, value in given.items()}
    cold = {argument: value for argument, value in plain.items() if argument != "temperature"}
    try:
        dspy.LM(name, cache=False, **cold)
    except dspy.LMConfigurationError as error:
        raise BadInput(f"{name}: {error.message}") from None
    try:
        # Any but 0, which dspy takes for none and sends all the same.
        dspy.LM(name, cache=False, **cold, temperature=plain.get("temperature") or 0.5)
    except dspy.LMConfigurationError:
        return cold
    return plain


def _check_parameters(choice: LmChoice) -> None:
    """Whether a request can hold the parameters. Raises `BadInput`."""
    from dspy.lm15 import LM15Error, request_from_openai_chat

    message = {"role": "user", "content": "?"}
    for name, value in choice.parameters.items():
        given = list(value) if isinstance(value, tuple) else value
        try:
            request_from_openai_chat({"model": choice.model, "messages": [message], name: given})
        except (LM15Error, TypeError, ValueError) as error:
            reason = str(error).split(" — ")[0].split("\n")[0]
            raise BadInput(f"{choice.model} can't be given the argument {name}: {reason}") from None
