"""The resources that the runs of one loop share: bank, source, models, tools, sandboxes."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from rbank_es import __version__, limits
from rbank_es.bank.ontology_registrations import as_registered
from rbank_es.errors import BadInput, LogError, ProjectionError, SandboxUnavailable
from rbank_es.events.event_envelope import Timer
from rbank_es.events.run_events import Trial
from rbank_es.executors.executor import Executor, Interpreters, RunLimits, executor_class
from rbank_es.loop.settings import LoopSettings
from rbank_es.loop.tasks import Task
from rbank_es.sandbox.sandbox_pool import SandboxPool
from rbank_es.sparql.data_source import opened_source
from rbank_es.tools.shared.call_budget import RunMeter

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.bank.memory_graph import MemoryGraph
    from rbank_es.events.run_events import Role
    from rbank_es.events.server_traits import ServerTraits
    from rbank_es.models.embedder import SearchVectors
    from rbank_es.models.model_choice import LmChoice
    from rbank_es.models.run_models import Lms, ModelFor
    from rbank_es.sandbox.session import SandboxSettings, Session
    from rbank_es.sparql.data_source import Source, SourceLike
    from rbank_es.tools.shared.toolbox import Toolbox


Origin = Callable[[], Mapping[str, Any]]
"""As `origin`: names the code that runs."""


def origin() -> Mapping[str, Any]:
    """Return the release and the commit of the code that runs; the commit is None outside a checkout."""
    return {"release": __version__, "commit": code_commit()}


class LoopResources:
    """Resources of all runs of a loop, for any thread. Use it in a `with`, because it keeps sandboxes ready."""

    def __init__(
        self,
        bank: Bank,
        settings: LoopSettings,
        source: SourceLike | None = None,
        *,
        model_for: ModelFor | None = None,
        interpreters: Interpreters | None = None,
        clock: Timer = time.perf_counter,
        origin: Origin = origin,
        at_once: bool = True,
        suite: str | None = None,
        trial: Trial | None = None,
        vectors: SearchVectors | None = None,
    ) -> None:
        """Keep the parts; start and ask nothing, and load nothing but an ontology that is named.

        Args:
            bank: where everything is recorded.
            settings: every choice.
            source: the ontology or endpoint that agents ask, see `SourceLike`; None for tasks that need none. One that
                is open already is never closed here.
            model_for: answers instead of the chosen models, as `Lms` takes it.
            interpreters: where code runs instead of the sandbox.
            clock: returns seconds, to measure calls and runs.
            origin: names the code that runs, for the record.
            at_once: whether the rollouts of a task run side by side; else one after the other, for models that take
                one call at a time and for logs that must be reproducible.
            suite: digest of the tasks that these were chosen from, for the record; see `suite_digest`.
            trial: the loop's place in an experiment, for the record.
            vectors: gives searches their vectors, where the bank's policy ranks by them; never closed here.
        """
        self.bank, self.settings = bank, settings
        self._stack = ExitStack()
        self.source = None if source is None else as_registered(bank, self._stack.enter_context(opened_source(source)))
        self.clock, self.origin, self.at_once = clock, origin, at_once
        self.suite, self.trial = suite, trial
        self._model_for, self._interpreters, self._vectors = model_for, interpreters, vectors
        self._servers: tuple[ServerTraits, ...] | None = None if model_for is None else ()
        self._sandboxes: Sandboxes | None = None
        self._mutex = threading.Lock()
        self.runs_to_come: int | None = None
        """The number of runs to come if known before the first: no more sandboxes are started."""

    # ---------------------------------------------------------------- before anything is recorded

    def check(self) -> None:
        """Raise as `check` does, leaving out the parts that were brought."""
        check(self.settings, models=self._model_for is None, sandbox=self._interpreters is None)

    def require_tool_calls(self) -> None:
        """Raise `LmFailed` if the executor calls tools by the chat protocol, and the agent's model takes none.

        Where nobody knows, the model is asked once, and the call is recorded, outside of any run.
        """
        if not executor_class(self.settings.executor).calls_tools:
            return
        from rbank_es.models.run_models import Lms
        from rbank_es.models.tool_support import require_tool_calls

        parts: dict[str, Any] = {"model_for": self._model_for, "clock": self.clock}
        with Lms(self.bank, None, self.choices, servers=self.servers, **parts) as lms:
            found = require_tool_calls(lms)
        if found.known:
            others = (each for each in self.servers if each.model != found.model)
            self._servers = (found, *others)

    @property
    def source_id(self) -> str | None:
        """The id of the ontology or endpoint in the bank."""
        return self.source.id if self.source is not None else None

    @property
    def source_digest(self) -> str:
        """The identity of the source's content: the digest of an ontology, the URL of an endpoint."""
        if self.source is None:
            return ""
        return self.source.ontology.digest if self.source.ontology is not None else self.source.url or ""

    def catch_up(self) -> None:
        """Bring the bank's read models up to its head, because contexts are read from them. Failures are ignored."""
        # A context is then made from the log in memory: slower, with the same result.
        with suppress(ProjectionError, LogError, OSError):
            self.bank.project()

    def embed(self, bank: Bank, query: str, *, run: str | None = None) -> None:
        """Have vectors recorded for a query: in a run for it alone, before one for all active items too."""
        if self._vectors is not None:
            self._vectors.prepare(bank, query, run=run, items=run is None)

    # ---------------------------------------------------------------- of one run

    def limits(self) -> RunLimits:
        """Return the limits of each run."""
        chosen = self.settings
        return RunLimits(iterations=chosen.iterations, subcalls=chosen.subcalls, bounds=chosen.bounds)

    def lms(self, run: str, task: Task, rollout: int = 0, *, bank: Bank | None = None) -> Lms:
        """Return the models of a run, which record each call in it. The caller closes them."""
        from rbank_es.models.run_models import Lms

        into = bank or self.bank
        where: dict[str, Any] = {"task": task.id, "rollout": rollout, "servers": self.servers}
        return Lms(into, run, self.choices, **where, model_for=self._model_for, clock=self.clock)

    @property
    def servers(self) -> tuple[ServerTraits, ...]:
        """The known traits of the models' servers, looked up once, before the first run."""
        if self._servers is None:
            from rbank_es.models.server_properties import traits_by_model

            self._servers = tuple(each for each in traits_by_model(self.choices.values()).values() if each.known)
        return self._servers

    @property
    def choices(self) -> Mapping[Role, LmChoice]:
        """The models by role."""
        return self.settings.choices

    def memory_graph(self, run: str) -> MemoryGraph | None:
        """Return the bank's provenance as of the start of a run, None unless it is offered. The caller closes it."""
        if not self.settings.memory_graph:
            return None
        from rbank_es.bank.memory_graph import MemoryGraph

        return MemoryGraph(self.bank, self.bank.resolve(f"run:{run}"))

    def tools(
        self,
        run: str,
        task: Task,
        *,
        bank: Bank | None = None,
        memory_graph: MemoryGraph | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> Toolbox:
        """Return the tools of a run of a task. Don't close them, because all share the source.

        `new_id`: see `build_tools`.
        """
        from rbank_es.tools.shared.tool_family import ToolPolicy
        from rbank_es.tools.shared.toolbox import build_tools

        chosen = self.settings
        without = task.id if chosen.leave_one_out else None
        policy = ToolPolicy(
            payloads=chosen.payloads,
            mode=chosen.mode,
            manual=chosen.tool_manual,
            without_task=without,
            level=task.level,
            domain=chosen.domain,
            # Without L2 a run in the mode `auto` is one without memory: the control of experiments.
            related=chosen.mode != "auto" or "L2" in chosen.layers,
        )
        into = bank or self.bank
        return build_tools(
            into,
            run=run,
            source=self.source,
            memory_graph=memory_graph,
            policy=policy,
            meter=self.meter(),
            clock=self.clock,
            new_id=new_id,
            embed=lambda query: self.embed(into, query, run=run),
        )

    def meter(self) -> RunMeter:
        """Return the meter of one run."""
        return RunMeter(self.settings.bounds)

    def executor(self, rollout: int = 0) -> Executor:
        """Return the chosen executor; of several rollouts, each records its index with its calls."""
        several = self.settings.rollouts > 1
        chosen = executor_class(self.settings.executor)
        return chosen(
            self._places() if chosen.runs_code else None,
            temperature=self.settings.temperature,
            rollout_id=rollout if several else None,
        )

    def _places(self) -> Interpreters | None:
        """Return where code runs; the first call starts sandboxes, one ahead for each rollout."""
        with self._mutex:
            self._set_up_places()
        return self._interpreters

    def _set_up_places(self) -> None:
        if self._interpreters is not None:
            return
        if self.settings.unsafe_local:
            from rbank_es.sandbox.interpreter import UnsafeLocal

            self._interpreters = UnsafeLocal(step_wall_s=self.settings.bounds.step_wall_s)
        else:
            from rbank_es.executors.agent_step import sandbox_settings

            settings = sandbox_settings(self.settings.bounds)
            self._sandboxes = Sandboxes(self.settings.rollouts, settings, needed=self.runs_to_come)
            self._interpreters = self._stack.enter_context(self._sandboxes)

    @property
    def unavailable(self) -> SandboxUnavailable | None:
        """The error of the last sandbox that could not be started; None without one."""
        return self._sandboxes.unavailable if self._sandboxes is not None else None

    def __enter__(self) -> LoopResources:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def check(settings: LoopSettings, *, models: bool = True, sandbox: bool = True) -> None:
    """Raise the error that would fail every run, if it can be known before: a key, a script, the sandbox's parts.

    Nothing is sent, started or recorded. Raises `LmFailed`, `BadInput`, `MissingExtra`, `SandboxUnavailable`.
    """
    # First, because without its extra no key helps.
    chosen = executor_class(settings.executor)
    if models:
        from rbank_es.models.live_model import require_prices
        from rbank_es.models.run_models import check_choices

        check_choices(settings.choices)
        if settings.bounds.run_usd is not UNSET:
            require_prices([settings.lm, settings.sub_lm or settings.lm])
    if sandbox and not settings.unsafe_local and chosen.runs_code:
        from rbank_es.sandbox.deno import ready_runtime

        ready_runtime()


# Once a process, because starting git takes milliseconds and the code that runs doesn't change.
@cache
def code_commit() -> str | None:
    """Return the commit of the checkout that this code runs from; None outside of one, or without git."""
    root = Path(__file__).resolve().parents[2]
    # git searches parent folders too: it would name the commit of a repository around an installed package.
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limits.COMMIT_WAIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def check_source(tasks: tuple[Task, ...], source: Source | None) -> None:
    """Raise `BadInput` if a task is about another ontology than the one that is asked."""
    if source is None:
        return
    # Tasks name an ontology as its file does, whatever it is called in the bank.
    names = (None, source.id, source.ontology.id if source.ontology is not None else source.id)
    if others := sorted({task.ontology for task in tasks if task.ontology not in names} - {None}):
        raise BadInput(
            f"there are tasks about {', '.join(map(str, others))}, but the source is called {source.id}; "
            "leave them out, or name it as they do"
        )


class Sandboxes(SandboxPool):
    """A pool that keeps the error of a sandbox that could not be started: a run records only its words."""

    unavailable: SandboxUnavailable | None = None

    def take(self, settings: SandboxSettings) -> Session:
        """Take a session as `SandboxPool` does."""
        try:
            return super().take(settings)
        except SandboxUnavailable as error:
            self.unavailable = SandboxUnavailable(error.code, error.reason, error.fix)
            raise
