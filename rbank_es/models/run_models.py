"""The models of one run, by role."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from rbank_es.errors import BadInput, LmFailed
from rbank_es.events.event_envelope import Settings, Timer
from rbank_es.events.run_events import Role
from rbank_es.events.server_traits import ServerTraits
from rbank_es.models.call_recorder import RecordingEngine, RunCalls, Sleep
from rbank_es.models.function_model import Complete, FunctionModel, choice_of
from rbank_es.models.lm_request import CUT, JsonSchema, LmMessage, LmRequest, LmResponse, Tool
from rbank_es.models.model_call import Model
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.parameters import BY_SCHEMA, accepted_parameters, config_of
from rbank_es.models.prompt import Message
from rbank_es.models.replies import ModelReply
from rbank_es.models.scripted_model import Script, ScriptedModel

if TYPE_CHECKING:
    from dspy.clients.lm import LM

    from rbank_es.bank import Bank
    from rbank_es.models.dspy_calls import LmEngine

_OF_SCHEMA = re.compile(r"response_format|schema|grammar|structured", re.IGNORECASE)
"""Words with which a server refuses a JSON schema."""

Asked = TypeVar("Asked")

ModelFor = Callable[[Role, LmChoice], "Model | LmEngine | Complete"]
"""Returns the model of a role where it is neither live nor scripted: a recorded one, an engine, or a function."""


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
        servers: Sequence[ServerTraits] | None = None,
        model_for: ModelFor | None = None,
        sleep: Sleep = time.sleep,
        clock: Timer = time.perf_counter,
    ) -> None:
        """Make models that record in `bank` as part of `run`. Nothing is sent.

        `task` and `rollout` (from 0) choose the turns of a script. `servers` are the known traits of the models'
        servers; None looks when they are needed. Raises `LmFailed` (unknown_model, missing_key), `BadInput` for an
        invalid script or parameter, `MissingExtra`.
        """
        if not choices:
            raise BadInput("no model was chosen; give one with --lm")
        self._choices = dict(choices)
        self.calls = RunCalls(bank, run)
        self._task, self._rollout = task, rollout
        self._sleep, self._clock = sleep, clock
        self._live = model_for is None
        self._traits = {each.model: each for each in servers or ()}
        self._asks_servers = servers is None and self._live
        self._without_schema: set[str] = set()
        self._models: dict[str, Model] = {}
        self._by_role = {role: self._made(role, self.choice(role), model_for) for role in self._own_roles()}

    # ---------------------------------------------------------------- models

    def choice(self, role: Role) -> LmChoice:
        """Return the choice for a role. Raises `BadInput` if there is none."""
        found = self._choices.get(role) or self._choices.get("agent")
        if found is None:
            raise BadInput(f"no model was chosen for the {role}; give one with --lm")
        return found.asked_by(role)

    def _own_roles(self) -> tuple[Role, ...]:
        """Return the roles with a choice or with arguments of their own."""
        shared = self._choices.get("agent")
        return tuple(
            role
            for role in get_args(Role)
            if role in self._choices or (shared is not None and shared.asked_by(role) != shared.asked_by("agent"))
        )

    def traits(self, role: Role) -> ServerTraits:
        """Return what is known of the server of a role's model, by a look at it at most; no model is called."""
        choice = self.choice(role)
        if choice.name not in self._traits and self._asks_servers:
            from rbank_es.models.server_properties import known_traits

            self._traits[choice.name] = known_traits(choice)
        return self._traits.get(choice.name) or ServerTraits(model=choice.name)

    def ask(
        self,
        role: Role,
        messages: Sequence[Message],
        *,
        temperature: float | None = None,
        rollout_id: int | None = None,
        schema: JsonSchema | None = None,
    ) -> ModelReply:
        """Return the model's reply to a conversation, unparsed, with what it was given. Loads no dspy.

        Where the model's server is known to keep a JSON schema, the reply has to keep `schema`; a server that refuses
        it is asked without from then on. Other arguments as of `lm`. Raises `LmFailed`, and `BadInput` for parameters
        that the model does not accept.
        """
        return self._by_schema(role, schema, lambda kept: self._reply(role, messages, temperature, rollout_id, kept))

    def _by_schema(self, role: Role, schema: JsonSchema | None, ask: Callable[[JsonSchema | None], Asked]) -> Asked:
        """Ask with the schema where the server keeps one, and without where not, or once it refuses it."""
        kept = schema if self.keeps_schemas(role) else None
        try:
            return ask(kept)
        except LmFailed as failure:
            if kept is None or failure.code != "refused" or not _OF_SCHEMA.search(failure.message):
                raise
        self._without_schema.add(self.choice(role).name)
        return ask(None)

    def keeps_schemas(self, role: Role) -> bool:
        """Return whether a role's model is asked for JSON by a schema where a caller has one."""
        choice = self.choice(role)
        if choice.name in self._without_schema:
            return False
        # What was given counts; a rerun has what was recorded.
        [(name, value)] = BY_SCHEMA.items()
        if name in choice.parameters or not self._live or choice.scripted:
            return choice.parameters.get(name) == value
        return self.traits(role).json_schema is True

    def _reply(
        self,
        role: Role,
        messages: Sequence[Message],
        temperature: float | None,
        rollout_id: int | None,
        schema: JsonSchema | None,
    ) -> ModelReply:
        engine, given = self._engine(role, temperature, rollout_id, by_schema=schema is not None)
        response = engine.complete(LmRequest.of(self.choice(role).name, messages, given, schema))
        # The model's own earlier answers are not given to it: it may repeat them.
        shown = "\n".join(each["content"] for each in messages if each["role"] == "user")
        return ModelReply(response.text, cut=response.finish_reason in CUT, given=shown)

    def takes_tools(self, role: Role) -> bool | None:
        """Return whether a role's model takes tool calls: by a look at its server at most; None where nobody knows.

        An engine of the caller's own is taken at its word; a function reads the tools in its prompt.
        """
        return self.traits(role).tools if self._live and not self.choice(role).scripted else True

    def converse(
        self,
        role: Role,
        system: str,
        messages: Sequence[LmMessage],
        tools: Sequence[Tool],
        *,
        forced: Sequence[Tool] = (),
        schema: JsonSchema | None = None,
        temperature: float | None = None,
        rollout_id: int | None = None,
    ) -> LmResponse:
        """Return the model's response to a conversation with tools; it has to call one of `forced`. Loads no dspy.

        Arguments and errors as of `ask`. The calls are parts of the response, as the model wrote them; one that is
        forced where the server keeps a `schema` is an object of it in the text, because some servers ignore without a
        word that a call is required.
        """

        def ask(kept: JsonSchema | None) -> LmResponse:
            engine, given = self._engine(role, temperature, rollout_id, by_schema=kept is not None)
            name = self.choice(role).name
            # By a schema the others stay in the prompt, of which the server has kept the beginning.
            offered = forced if forced and kept is None else tools
            return engine.complete(
                LmRequest.with_tools(name, system, messages, offered, given, forced=bool(forced), schema=kept)
            )

        return self._by_schema(role, schema if forced else None, ask)

    def lm(self, role: Role, *, temperature: float | None = None, rollout_id: int | None = None) -> LM:
        """Return a `dspy.LM` without cache and retries of its own. Its calls raise `LmFailed`.

        `temperature` overrides the choice's own. `rollout_id` is recorded, because rollouts of one task must get
        distinct samples. Raises `BadInput` for parameters that the model does not accept, `MissingExtra` without dspy.
        """
        from rbank_es.models.dspy_calls import DspyEngine, load_dspy

        engine, given = self._engine(role, temperature, rollout_id)
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
        dspy = load_dspy()
        try:
            # No cache: it would return the same sample to all rollouts. No retries: each must be recorded.
            asked = DspyEngine(engine, whole=role == "agent")
            lm: LM = dspy.LM(self.choice(role).name, engine=asked, cache=False, num_retries=0, **plain)
        except dspy.LMConfigurationError as error:
            raise BadInput(f"{self.choice(role).name}: {error.message}") from None
        return lm

    def context(
        self, role: Role, *, temperature: float | None = None, rollout_id: int | None = None
    ) -> AbstractContextManager[None]:
        """Return `dspy.context` with the role's model, `adapter()`, and no history. Errors as of `lm`."""
        from rbank_es.models.dspy_adapter import adapter
        from rbank_es.models.dspy_calls import load_dspy

        lm = self.lm(role, temperature=temperature, rollout_id=rollout_id)
        # No history, because dspy would keep every prompt of the process in memory.
        context: AbstractContextManager[None] = load_dspy().context(lm=lm, adapter=adapter(), disable_history=True)
        return context

    def _engine(
        self, role: Role, temperature: float | None, rollout_id: int | None, *, by_schema: bool = False
    ) -> tuple[RecordingEngine, Settings]:
        """Return the engine of a role, and the parameters of its requests; `by_schema` is recorded."""
        choice = self.choice(role)
        warmed: Settings = {} if temperature is None else {"temperature": temperature}
        given = accepted_parameters(choice.name, {**self._parameters(role, choice), **warmed})
        given = {name: value for name, value in given.items() if name not in BY_SCHEMA}
        recorded = {**given, **(BY_SCHEMA if by_schema else {})}
        engine = RecordingEngine(
            self._by_role.get(role) or self._by_role["agent"],
            self.calls,
            role,
            choice.name,
            parameters=recorded if rollout_id is None else {**recorded, "rollout_id": rollout_id},
            context_tokens=choice.context_tokens or self.traits(role).context_tokens,
            bound=self.traits(role).bound,
            sleep=self._sleep,
            clock=self._clock,
        )
        return engine, given

    def _parameters(self, role: Role, choice: LmChoice) -> Settings:
        # A rerun's choices have the parameters that were recorded, and scripts and functions generate nothing.
        if not self._live or choice.scripted:
            return choice.parameters
        from rbank_es.models.live_model import reply_bounds

        return reply_bounds(choice, role)

    def _made(self, role: Role, choice: LmChoice, model_for: ModelFor | None) -> Model:
        if model_for is not None:
            return _as_model(model_for(role, choice))
        script = choice.script
        if script is not None:
            return self._shared(choice.model, lambda: ScriptedModel(Script.load(script), self._task, self._rollout))
        from rbank_es.models.live_model import live_model

        config_of(choice.model, choice.parameters)
        return self._shared(repr(choice), lambda: live_model(choice))

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
        for role in get_args(Role):
            config_of(choice.model, choice.asked_by(role).parameters)
        if choice.script is not None:
            Script.load(choice.script)
        else:
            from rbank_es.models.live_model import require_key

            require_key(choice)


def _as_model(given: Any) -> Model:
    made: Any
    if hasattr(given, "prepare"):
        made = given
    elif hasattr(given, "complete"):
        from rbank_es.models.dspy_calls import EngineModel

        made = EngineModel(given)
    elif callable(given):
        complete: Any = given
        made = FunctionModel(complete)
    else:
        wanted = "a function from a prompt's text to a reply's text, or an engine"
        raise BadInput(f"a model is {wanted}; {type(given).__name__!r} is neither")
    model: Model = made
    return model


def lms_for(
    bank: Bank, run: str, *, complete: Complete | None = None, lm: str | None = None, api_base: str | None = None
) -> Lms:
    """Return the models that judge a run and learn from it: one function, or one named model; the extra isn't needed.

    Args:
        complete: a function from a prompt's text to a reply's text, see `rbank_es.models.function_model`.
        lm: a name as `LmChoice` takes it (`openai/gpt-4.1-mini`, `script:FILE`).
        api_base: the URL of a server of one's own, for `lm`.

    Raises `BadInput` unless exactly one of `complete` and `lm` is given, and as `Lms`.
    """
    if (complete is None) == (lm is None):
        raise BadInput("give either complete, a function from a prompt's text to a reply's text, or lm, a model's name")
    if complete is not None:
        if api_base is not None:
            raise BadInput("api_base is the address of a model named by lm: leave it out beside complete")
        model = _as_model(complete)
        choice = choice_of(complete)
        return Lms(bank, run, _both(choice), model_for=lambda role, choice: model)
    if not isinstance(lm, str):
        raise BadInput("lm is the name of a model; give a function as complete")
    return Lms(bank, run, _both(LmChoice.parse(lm, api_base=api_base)), task=run)


def _both(choice: LmChoice) -> dict[Role, LmChoice]:
    return {"judge": choice, "extractor": choice}
