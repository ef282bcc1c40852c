"""A run as a judge sees it: the task, the demands in its words, the submission, and the queries of the run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.errors import NotInBank
from rbank_es.events import RunFinished, RunStarted, StepTaken, ToolCalled
from rbank_es.events.run_events import Outcome, has_source, source_of
from rbank_es.log.run_reader import RunEvents, read_run
from rbank_es.policies.words import words_of
from rbank_es.sparql.results import Answer
from rbank_es.tools.shared.tool_family import tools_named_as

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.sparql.data_source import Source


PROVIDERS = frozenset(
    {"timeout", "rate_limited", "server_error", "unreachable", "bad_response", "refused", "wrong_key", "missing_key"}
) | frozenset({"unknown_model", "no_credit"})
"""Error codes of a model's provider: what came was not the model's word, so it is no evidence about the agent."""

AGENTS_OWN = frozenset({"unreadable", "stalled", "sandbox_exhausted", "bound_spent"}) | frozenset(
    {"response_too_long", "context_too_long", "request_too_long"}
)
"""Error codes of failures that the agent caused. A run that failed for another reason says nothing about the agent: it
is neither judged nor learned from, and a resumed loop runs its task again."""


def is_agents_own(outcome: str, error_code: str | None) -> bool:
    """Return whether the end of a run says something about the agent.

    An answer that was forced at a limit and didn't come because of the provider says nothing either.
    """
    return error_code in AGENTS_OWN if outcome == "failed" else error_code not in PROVIDERS


class QueryRun(msgspec.Struct, frozen=True, kw_only=True):
    """A query of a run with its answer (None if unknown), or the `error_code` with which it failed."""

    query: str
    answer: Answer | None = None
    error_code: str | None = None


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a judge sees it. Make it from a bank's events with `outcome_of`, or by hand.

    `ontology` is the domain of the task, `source` the ontology or endpoint that the run asked, if any. `queries` are
    those that the run executed, in order; None if unknown, as for imported runs. `looked` names the other tools that
    showed the run some of the data. `ending` is the text of its last steps, and of its last calls where it had no
    source, within `JUDGE_STEPS_CHARS`. `recorded` is False if the submission is not in the bank, because an import
    brought only its size, or because it was erased. `error_code` is that of `run_finished`.
    """

    task: str
    answer: str = ""
    sparql: str = ""
    run: str = ""
    ontology: str | None = None
    source: str | None = None
    outcome: Outcome = "submitted"
    iterations: int | None = None
    evidence: str = ""
    error: str = ""
    error_code: str | None = None
    queries: tuple[QueryRun, ...] | None = None
    looked: tuple[str, ...] = ()
    ending: str = ""
    recorded: bool = True

    @property
    def converged(self) -> bool:
        """Whether the agent itself submitted, within its limits."""
        return self.outcome == "submitted"

    @property
    def handed_in(self) -> RunOutcome:
        """The run as the right answer sees it: an answer that was forced at a limit is as right as a submitted one."""
        answered = self.outcome == "forced_at_limit" and (self.answer + self.sparql).strip()
        return msgspec.structs.replace(self, outcome="submitted") if answered else self

    def over_source(self, source: Source | None = None) -> bool:
        """Return whether it is about an ontology or an endpoint, or is judged by one: see `has_source`."""
        if source is not None:
            return True
        queries = [each.query for each in self.queries or ()]
        return has_source(self.source, self.sparql, *queries, *self.looked)

    @property
    def by_provider(self) -> bool:
        """Whether the run ended as it did because the model's provider failed: then nobody judges it."""
        return not self.converged and self.error_code in PROVIDERS

    @property
    def saw_data(self) -> bool:
        """Whether the run is known to have seen some of the data, by a query or by another tool."""
        return bool(self.looked) or any(run.error_code is None for run in self.queries or ())

    @classmethod
    def of(cls, result: Any, task: str) -> RunOutcome:
        """Return the outcome of any result that has some of these attributes.

        They are `answer`, `sparql`, `run`, `outcome` or `converged`, `iterations` or `iters`, and `error`. A
        `RunOutcome` is returned as it is, with this task.
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
    """Return the outcome of a run from its events. An unfinished run counts as failed; erased texts are empty.

    Raises `NotInBank` if no such run started or finished.
    """
    events = read_run(bank.log, run, types={"run_started", "tool_called", "step_taken", "run_finished"})
    if events.started is None and events.end is None:
        raise NotInBank(run, bank.position)
    outcome = outcome_from(bank, events)
    # Over a source, the output of a step shows its calls; other agents may record both, each with its own words.
    kinds = StepTaken if outcome.over_source() else StepTaken | ToolCalled
    acts = [event for event in events.events if isinstance(event, kinds)]
    return msgspec.structs.replace(outcome, ending=_ending(bank, acts))


def outcome_from(bank: Bank, events: RunEvents) -> RunOutcome:
    """Return the outcome of a run from these events, without its last steps (`ending`), which no check reads."""
    started, end, calls = events.started, events.end, events.calls
    answered = {call.tool for call in calls if call.error_code is None}
    return RunOutcome(
        run=events.run,
        ontology=started.ontology if started else None,
        source=source_of(started.ontology, started.endpoint, started.executor, started.mode) if started else None,
        task=(bank.text(started.task) or "") if started else "",
        **_end(bank, end),
        queries=_queries(bank, calls, imported=_imported(started, end)),
        looked=tuple(sorted(answered & tools_named_as("looks"))),
    )


def _ending(bank: Bank, acts: Sequence[StepTaken | ToolCalled]) -> str:
    """Return the last steps and calls of a run as text, as many as fit; of a longer one, the last of its texts."""
    kept, room = list[str](), limits.JUDGE_STEPS_CHARS
    for act in reversed(acts):
        block = _block(bank, act)
        if len(block) > room:
            kept += [f"…{block[-room:]}"] if not kept else []
            break
        kept.append(block)
        room -= len(block) + 2
    return "\n\n".join(reversed(kept))


def _block(bank: Bank, act: StepTaken | ToolCalled) -> str:
    """Return a step with its code and output, or with its words alone where it has neither; or a call of a tool."""
    if isinstance(act, ToolCalled):
        head, named = f"call of {act.tool}", {"arguments": act.arguments, "result": act.result, "error": act.error}
    else:
        head, named = f"step {act.index}", {"code": act.code, "output": act.output}
        if not any((bank.text(text) or "").strip() for text in named.values()):
            named = {"words": act.reasoning}
    texts = {name: (bank.text(text) or "").strip() for name, text in named.items()}
    return "\n".join([head, *(f"{name}:\n{words}" for name, words in texts.items() if words)])


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
        "error_code": finished.error_code,
        "recorded": _is_recorded(bank, finished),
    }


def _is_recorded(bank: Bank, finished: RunFinished) -> bool:
    """Return whether the submission is in the bank. An empty one is, if the event says that it was empty."""
    if finished.outcome != "submitted":
        return True
    words = [bank.text(text) for text in (finished.answer, finished.sparql) if text is not None]
    # An import may know that there was an answer, or its size, without its text.
    silent = bool(finished.answer_chars) or finished.occurred_at is not None or finished.extra is not None
    return None not in words and (any(words) or not silent)


def _imported(started: RunStarted | None, finished: RunFinished | None) -> bool:
    """Return whether a run was executed elsewhere, where its tool calls may not have been recorded."""
    return any(event is not None and (event.occurred_at or event.extra) for event in (started, finished))


def _queries(bank: Bank, calls: Sequence[ToolCalled], *, imported: bool) -> tuple[QueryRun, ...] | None:
    """Return the queries of a run; None if one is not known in full, or the run may have had others."""
    query_tools = tools_named_as("queries")
    made = [call for call in calls if call.tool in query_tools]
    arguments = [_arguments(bank, call) for call in made]
    # Because any unknown query may be the submitted one, "never ran its query" must not be concluded from the others.
    if (imported and not made) or None in arguments:
        return None
    return tuple(
        QueryRun(query=given["query"], answer=_answer(bank, call), error_code=call.error_code)
        for call, given in zip(made, arguments, strict=True)
        # `explain` only plans a query: the agent saw no rows.
        if given and isinstance(given.get("query"), str) and given.get("explain") is not True
    )


def _arguments(bank: Bank, call: ToolCalled) -> dict[str, Any] | None:
    """Return the arguments of a call; None if they were not recorded, recorded in part, or erased."""
    text = bank.text(call.arguments) if "arguments" not in call.previews else None
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text else None
    except msgspec.DecodeError:
        return None


def _answer(bank: Bank, call: ToolCalled) -> Answer | None:
    from rbank_es.sparql.results import NotResults, from_json  # only runs with recorded results need the parser

    text = bank.text(call.result) if "result" not in call.previews else None
    try:
        return from_json(text) if text else None
    except NotResults:
        return None


# ---------------------------------------------------------------- the task's words

_CERTAIN = frozenset({"all", "every", "each", "complete"})
"""Words that ask for everything. `which` and `list` often do too, but are also used for a few."""

_SOME = frozenset(
    words_of(
        "top first last few some example examples sample longest shortest largest smallest highest lowest most least "
        "biggest latest earliest oldest newest best worst maximum minimum max min random "
        "one two three four five six seven eight nine ten twelve twenty fifty hundred"
    )
)
_NAMING = frozenset(
    words_of(
        "name names named label labels labelled title titles titled called word words text texts description "
        "descriptions comment comments synonym synonyms term terms say says"
    )
)
_COUNTING = re.compile(r"\bhow many\b|\bnumber of\b|\bcount\b", re.IGNORECASE)


def asks_for_all(task: str) -> bool:
    """Return whether a task says that it wants everything of a kind, with no number and no superlative."""
    words = set(words_of(task))
    # At most 3 digits, because 4 are usually a year.
    some = bool(_SOME & words) or any(word.isdigit() and len(word) <= 3 for word in words)
    return bool(_CERTAIN & words) and not some


def asks_for_count(task: str) -> bool:
    """Return whether a task asks how many things there are."""
    return _COUNTING.search(task) is not None


def asks_for_names(task: str) -> bool:
    """Return whether a task asks for names of things, or for texts about them."""
    return bool(_NAMING & set(words_of(task)))


def plain(text: str) -> str:
    """Return a text without case, white space, punctuation and thousands separators, to compare answers by."""
    return re.sub(r"[\W_]+", "", re.sub(r"(?<=\d)\.(?=\d)", "dot", text.casefold()))
