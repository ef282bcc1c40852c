"""What a judge sees of a run: the task, what was submitted, and what the run itself had asked before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es.errors import NotInBank
from rbank_es.events import Event, RunFinished, RunStarted, ToolCalled
from rbank_es.events.run import Outcome
from rbank_es.sparql.results import Answer

if TYPE_CHECKING:
    from rbank_es.bank import Bank

QUERY_TOOLS = frozenset({"sparql_query", "g_query", "execute_query"})
"""The tools that run a query, which is their argument `query`."""

LOOKING_TOOLS = frozenset({"g_classes", "g_props", "g_search", "g_describe", "g_sample", "g_stats", "sparql_peek"})
"""The tools that tell of the data without a query."""


class QueryRun(msgspec.Struct, frozen=True, kw_only=True):
    """A query that the run had answered, or that failed (`error_code`). `answer` is None where it isn't known."""

    query: str
    answer: Answer | None = None
    error_code: str | None = None


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a judge sees it. Make it of a bank's events with `outcome_of`, or by hand.

    `queries` are those that the run had answered, in order; None where nobody knows, as with imported runs. `looked`
    names the tools, other than queries, that told it something of the data. `recorded` is False where what the run
    submitted is not known: an import brought only its size, or it was erased.
    """

    task: str
    answer: str = ""
    sparql: str = ""
    run: str = ""
    outcome: Outcome = "submitted"
    iterations: int | None = None
    evidence: str = ""
    error: str = ""
    queries: tuple[QueryRun, ...] | None = None
    looked: tuple[str, ...] = ()
    recorded: bool = True

    @property
    def converged(self) -> bool:
        """Whether the agent itself submitted what it found, within its limits."""
        return self.outcome == "submitted"

    @classmethod
    def of(cls, result: Any, task: str) -> RunOutcome:
        """What can be told of a result by its attributes: `answer` and `sparql`, `outcome` or `converged`, and
        `run`, `iterations` (or `iters`), `error`, where it has them. What it is itself, if it is a `RunOutcome`.
        """
        if isinstance(result, RunOutcome):
            return msgspec.structs.replace(result, task=task)
        converged = getattr(result, "converged", True)
        return cls(
            task=task,
            answer=_text(getattr(result, "answer", "")),
            sparql=_text(getattr(result, "sparql", "")),
            run=_text(getattr(result, "run", "")),
            outcome=getattr(result, "outcome", None) or ("submitted" if converged else "forced_at_limit"),
            iterations=getattr(result, "iterations", getattr(result, "iters", None)),
            error=_text(getattr(result, "error", "")),
        )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def outcome_of(bank: Bank, run: str) -> RunOutcome:
    """A run as its events tell it; one that didn't finish counts as failed. Texts that were erased are empty.

    Raises `NotInBank` if no such run began or finished.
    """
    types = {"run_started", "tool_called", "run_finished"}
    events = list(bank.events(types=types, run=run))
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    finished = next((event for event in reversed(events) if isinstance(event, RunFinished)), None)
    if started is None and finished is None:
        raise NotInBank(run, bank.position)
    calls = [event for event in events if isinstance(event, ToolCalled) and event.error_code is None]
    return RunOutcome(
        run=run,
        task=(bank.text(started.task) or "") if started else "",
        **_end(bank, finished),
        queries=_queries(bank, events, imported=_imported(started, finished)),
        looked=tuple(sorted({call.tool for call in calls} & LOOKING_TOOLS)),
    )


def _end(bank: Bank, finished: RunFinished | None) -> dict[str, Any]:
    if finished is None:
        return {"outcome": "failed", "error": "the run did not finish"}
    return {
        "outcome": finished.outcome,
        "iterations": finished.iterations,
        "answer": bank.text(finished.answer) or "",
        "sparql": bank.text(finished.sparql) or "",
        "evidence": bank.text(finished.evidence) or "",
        "error": bank.text(finished.error) or finished.error_code or "",
        "recorded": _is_recorded(bank, finished),
    }


def _is_recorded(bank: Bank, finished: RunFinished) -> bool:
    """Whether what was submitted is there. A run that submitted nothing, and says so, hides nothing."""
    submitted = [text for text in (finished.answer, finished.sparql) if text is not None]
    words = [bank.text(text) for text in submitted]
    if finished.outcome != "submitted":
        return True
    silent = bool(finished.answer_chars) or finished.occurred_at is not None or finished.extra is not None
    return None not in words and (any(words) or not silent)


def _imported(started: RunStarted | None, finished: RunFinished | None) -> bool:
    """Whether a run was made elsewhere, where its calls may not have been recorded."""
    return any(event is not None and (event.occurred_at or event.extra) for event in (started, finished))


def _queries(bank: Bank, events: Iterable[Event], *, imported: bool) -> tuple[QueryRun, ...] | None:
    """The queries of a run; None where one of them is not known whole, or the run may have had others."""
    made = [event for event in events if isinstance(event, ToolCalled) and event.tool in QUERY_TOOLS]
    arguments = [_arguments(bank, call) for call in made]
    if (imported and not made) or None in arguments:
        return None
    return tuple(
        QueryRun(query=given["query"], answer=_answer(bank, call), error_code=call.error_code)
        for call, given in zip(made, arguments, strict=True)
        if given and isinstance(given.get("query"), str) and given.get("explain") is not True
    )


def _arguments(bank: Bank, call: ToolCalled) -> dict[str, Any] | None:
    """The arguments of a call; None where they were not recorded, only begun, or erased."""
    text = bank.text(call.arguments) if "arguments" not in call.previews else None
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text else None
    except msgspec.DecodeError:
        return None


def _answer(bank: Bank, call: ToolCalled) -> Answer | None:
    from rbank_es.sparql.results import NotResults, from_json

    text = bank.text(call.result) if "result" not in call.previews else None
    try:
        return from_json(text) if text else None
    except NotResults:
        return None
