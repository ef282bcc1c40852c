"""One task, run once. Whatever goes wrong, the run is closed, and keeps the steps that it took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import (
    LmFailed,
    LogError,
    LoopStopped,
    PositionConflict,
    RBankError,
    SandboxUnavailable,
    message_of,
)
from rbank_es.events import Event, RunFinished, RunStarted
from rbank_es.events.redaction import redact_event
from rbank_es.executors.executor import RunResult
from rbank_es.loop.history import INTERRUPTED
from rbank_es.loop.run_context import Equipment, registration
from rbank_es.loop.tasks import Task

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.context.assembly import Context

AGENTS_OWN = frozenset(
    {
        "unreadable",
        "sandbox_exhausted",
        "bad_response",
        "response_too_long",
        "context_too_long",
        "request_too_long",
    }
)
"""Why a run can fail of what the agent does. All else that ends a run says nothing about the agent: nobody judges it,
nothing is learnt of it, and a loop that is resumed runs the task anew."""

PASSING = frozenset({"timeout", "rate_limited", "server_error", "refused", "sandbox_failed", INTERRUPTED})
"""What may not happen to the next run. After anything else that is not the agent's own, a loop stops."""


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is to begin: its id, and where it stands among the rollouts of its task."""

    run: str
    group: str | None = None
    index: int | None = None


class Begun(NamedTuple):
    """Runs that have begun, and the context that each of them gets."""

    runs: tuple[NewRun, ...]
    context: Context


def is_agents_own(outcome: str, error_code: str | None) -> bool:
    """Whether the way in which a run ended tells something about the agent."""
    return outcome != "failed" or error_code in AGENTS_OWN


def begin_runs(equipment: Equipment, task: Task, named: Callable[[], Sequence[NewRun]]) -> Begun:
    """Record that runs of a task begin, what was retrieved for them, and the context that they get: one group.

    All get the same context. `named` gives the runs; it is called again where other writers were faster, for then the
    context is built again. What was retrieved is exact: nothing stands between it and the memory that it is from.
    Raises as `build_context` and `Bank.append` do; then nothing was recorded.
    """
    bank = equipment.bank
    for left in reversed(range(limits.TOOL_TRIES)):
        runs = named()
        position = bank.position
        context = _context(equipment, task, position)
        events: list[Event] = [*_registered(equipment)]
        for new in runs:
            events += [
                _started(equipment, task, new),
                *(msgspec.structs.replace(each, run=new.run) for each in context.retrievals),
                context.event(new.run),
            ]
        try:
            bank.append([redact_event(event) for event in events], expected=position)
            return Begun(tuple(runs), context)
        except PositionConflict:
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def _context(equipment: Equipment, task: Task, position: int) -> Context:
    from rbank_es.context.assembly import build_context

    chosen = equipment.settings
    if "L2" in chosen.layers:
        equipment.catch_up()
    return build_context(
        task.question,
        equipment.source,
        equipment.bank,
        point=position,
        layers=chosen.layers,
        budgets=chosen.budgets,
        preset=chosen.preset,
        mode=chosen.mode,
        curated=chosen.constraints,
        guide=chosen.guide,
        domain=chosen.domain,
        observed=chosen.observed,
        task_slice=chosen.task_slice,
    )


def _registered(equipment: Equipment) -> list[Event]:
    """The registration of the ontology, unless the bank has that very one."""
    ontology = equipment.source.ontology if equipment.source is not None else None
    if ontology is None:
        return []
    known = None
    for event in equipment.bank.log.read(types={"ontology_registered"}):
        if getattr(event, "ontology", None) == ontology.id:
            known = getattr(event, "sha256", None)
    return [] if known == ontology.digest else [registration(ontology)]


def _started(equipment: Equipment, task: Task, new: NewRun) -> RunStarted:
    from rbank_es.context.assembly import BUDGETS

    chosen, source = equipment.settings, equipment.source
    return RunStarted(
        run=new.run,
        ontology=equipment.source_id,
        endpoint=source.url if source is not None else None,
        executor=chosen.executor,
        model=chosen.lm.name,
        layers=chosen.layers,
        budgets={**BUDGETS[chosen.preset], **chosen.budgets},
        mode=chosen.mode,
        iterations_max=chosen.iterations,
        rollout_group=new.group,
        rollout_index=new.index,
        config_digest=chosen.digest,
        scripted=chosen.scripted,
        task=task.question,
        settings=chosen.recorded,
        **equipment.origin(),
    )


def execute(
    equipment: Equipment,
    task: Task,
    context: str,
    new: NewRun,
    *,
    question: str | None = None,
    bank: Bank | None = None,
) -> RunResult:
    """Run a task that has begun, to its end, which is recorded.

    `question` is how it is put, where that differs from the task's own words. Raises `LoopStopped` where the next run
    would fail of the same; what interrupts it (`KeyboardInterrupt`) closes the run and goes on up.
    """
    into = bank or equipment.bank
    rollout = new.index or 0
    try:
        from rbank_es.executors.run_recorder import Recorder

        tools = equipment.tools(new.run, bank=into)
        with equipment.lms(new.run, task, rollout, bank=into) as lms:
            executor = equipment.executor(rollout)
            recorder = Recorder(into, new.run, tools, clock=equipment.clock)
            result = executor.execute(question or task.question, context, tools, recorder, lms, equipment.limits())
    except Exception as error:
        code, message = _code_of(error), message_of(error)
        close_run(into, new.run, code, message)
        raise LoopStopped(new.run, code, message, cause=error if isinstance(error, RBankError) else None) from error
    except BaseException:
        with suppress(RBankError, OSError):
            close_run(into, new.run, INTERRUPTED, "the run was interrupted")
        raise
    return _passed(result, equipment)


def _passed(result: RunResult, equipment: Equipment) -> RunResult:
    """The result, unless the next run would fail of the same."""
    code = result.error_code
    if result.outcome == "failed" and code not in AGENTS_OWN and code not in PASSING:
        known = equipment.unavailable
        cause = known if known is not None and known.code == code else None
        raise LoopStopped(result.run, code or "unexpected", result.error or "it did not say why", cause=cause)
    return result


def _code_of(error: Exception) -> str:
    if isinstance(error, LmFailed | SandboxUnavailable):
        return error.code
    return "not_recorded" if isinstance(error, LogError) else "unexpected"


def close_run(bank: Bank, run: str, code: str, message: str) -> None:
    """Record that a run failed, unless it ended already; its steps are those that were recorded.

    Raises as `Bank.append` does.
    """
    steps = 0
    for event in bank.log.read(types={"step_taken", "run_finished"}):
        if getattr(event, "run", None) == run:
            if isinstance(event, RunFinished):
                return
            steps += 1
    bank.append(
        RunFinished(run=run, outcome="failed", iterations=steps, error_code=code, error=message[: limits.ERROR_CHARS])
    )
