"""The tools of a bank for a host that speaks the Model Context Protocol. Nothing here is of the protocol's library.

A tool is a struct of arguments and a method: JSON in, an answer of the bank out. The protocol has no sessions, so
`recall` returns the id of the run that it began, and the tools that write to a run take it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.agents.open_runs import OpenRuns
from rbank_es.answers import Moment, bounds_of
from rbank_es.errors import BadInput, LimitExceeded, NotInBank
from rbank_es.events import MemoriesRead, MemoryProposed, RunJudged
from rbank_es.events.items import JUDGE_SOURCES, Item, Polarity
from rbank_es.events.redaction import redact_event
from rbank_es.events.run_events import VerdictValue
from rbank_es.extraction.candidates import consolidate
from rbank_es.extraction.judged_run import Judgment
from rbank_es.extraction.proposals import from_proposals, proposals_of
from rbank_es.limits import mcp_limits
from rbank_es.system.validation_messages import reason_of

if TYPE_CHECKING:
    from rbank_es.answers.items import ItemRow
    from rbank_es.bank import Bank
    from rbank_es.bank.agent_run import AgentRun

JUDGE, JUDGE_VERSION = "report", "1"
"""The judge of a verdict that an agent reports of itself: a model's, so people, tests and checks outrank it."""

INSTRUCTIONS = (
    "A memory of lessons from earlier tasks, right and wrong ones. Call recall with the task before you begin, and "
    "keep the run that it returns. At the end call report with that run, what you answered, and whether it worked."
)

Name = Annotated[str, Meta(max_length=mcp_limits.MCP_NAME_CHARS)]
At = Annotated[Name, Meta(description="A point in time: a position, a tag, HEAD~9, a date. Default: now.")]
OpenRun = Annotated[str, Meta(min_length=1, max_length=mcp_limits.MCP_NAME_CHARS, description="The run, of recall.")]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool."""


class RecallArguments(Arguments, frozen=True, kw_only=True):
    """What to recall lessons for."""

    question: Annotated[
        str, Meta(min_length=1, max_length=mcp_limits.MCP_QUESTION_CHARS, description="The task, in plain words.")
    ]
    run: Annotated[Name, Meta(description="The run that goes on with another question. Default: a new run.")] = ""
    domain: Annotated[Name, Meta(description="What a new run is about, such as the project's name.")] = ""


class SearchArguments(Arguments, frozen=True, kw_only=True):
    """What to search for."""

    query: Annotated[str, Meta(max_length=limits.QUERY_CHARS, description="Plain words.")]
    k: Annotated[int, Meta(ge=1, le=limits.SEARCH_HITS, description="Hits at most.")] = limits.FOUND_ITEMS_DEFAULT
    at: At = ""


class GetArguments(Arguments, frozen=True, kw_only=True):
    """Which lessons to read whole."""

    ids: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=mcp_limits.MCP_ITEMS, description="Ids of lessons.")]
    run: Annotated[Name, Meta(description="The run that reads them, so that the reading counts as a use.")] = ""
    at: At = ""


class WhyArguments(Arguments, frozen=True, kw_only=True):
    """What to give reasons for."""

    id: Annotated[
        str, Meta(min_length=1, max_length=mcp_limits.MCP_NAME_CHARS, description="The id of a lesson or of a run.")
    ]
    at: At = ""


class ReportArguments(Arguments, frozen=True, kw_only=True):
    """How a run ended."""

    run: OpenRun
    outcome: Annotated[VerdictValue, Meta(description="Whether it worked; undecided if you can't tell.")]
    answer: Annotated[str, Meta(max_length=mcp_limits.MCP_ANSWER_CHARS, description="What you answered or did.")] = ""
    evidence: Annotated[
        str, Meta(max_length=mcp_limits.MCP_ANSWER_CHARS, description="What shows it: tests, exit codes, output.")
    ] = ""


class ProposeArguments(Arguments, frozen=True, kw_only=True):
    """A lesson to propose."""

    run: OpenRun
    title: Annotated[str, Meta(min_length=1, max_length=limits.ITEM_TITLE_CHARS, description="One line.")]
    content: Annotated[
        str, Meta(min_length=1, max_length=limits.ITEM_CONTENT_CHARS, description="What to do or avoid, and why.")
    ]
    polarity: Annotated[Polarity, Meta(description="success: what to do; failure: what to avoid.")] = "success"


class BankTool(NamedTuple):
    """A tool: its arguments, what it does in a sentence for a model, and whether it writes."""

    arguments: type[Arguments]
    description: str
    writes: bool = False


TOOLS: dict[str, BankTool] = {
    "recall": BankTool(
        RecallArguments, "Get the lessons that fit a task, before you begin. Returns a run for the other tools.", True
    ),
    "search": BankTool(SearchArguments, "Find lessons by words: id, title, description, score."),
    "get": BankTool(GetArguments, "Read lessons whole, by id."),
    "why": BankTool(
        WhyArguments, "What a lesson rests on and what would end it; or what a run was given, and its verdicts."
    ),
    "report": BankTool(
        ReportArguments,
        "End a run: what came of it, with evidence. Counts as your opinion until somebody checks.",
        True,
    ),
    "propose": BankTool(
        ProposeArguments, "Propose a lesson of a run, before you report the run. A person decides about it.", True
    ),
}


def input_schema(tool: BankTool) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, an object without references."""
    _, parts = msgspec.json.schema_components((tool.arguments,))
    schema: dict[str, Any] = dict(parts[tool.arguments.__name__])
    del schema["title"], schema["description"]
    return schema


class BankTools:
    """The tools over one bank, for any number of threads. `close` ends the runs that nobody reported as unfinished."""

    def __init__(self, bank: Bank, *, writes: bool = True) -> None:
        """Serve `bank`; without `writes` only the tools that read are there."""
        self._bank = bank
        self.tools = {name: tool for name, tool in TOOLS.items() if writes or not tool.writes}
        self._open = OpenRuns(bank)
        self._bounds = bounds_of("agents")

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of a tool as plain JSON, at most `MCP_RESULT_BYTES` of it.

        Raises `BadInput` for an unknown tool or bad arguments, `LimitExceeded`, `NotInBank`, and as the bank.
        """
        tool = self.tools.get(name)
        if tool is None:
            raise BadInput(f"there is no tool {name[: limits.GIVEN_CHARS]!r} here; there are: {', '.join(self.tools)}")
        answer: dict[str, Any] = getattr(self, f"_{name}")(_checked(tool.arguments, arguments))
        size = len(msgspec.json.encode(answer))
        if size > mcp_limits.MCP_RESULT_BYTES:
            raise LimitExceeded("bytes of the result", size, mcp_limits.MCP_RESULT_BYTES, "ask for less")
        return answer

    def resource(self, kind: Literal["item", "run"], id: str) -> dict[str, Any]:
        """Return an item or a run with its reasons. Raises `NotInBank`, `AmbiguousId`."""
        return self._reasons_of(kind, id, self._moment(""))

    def close(self) -> None:
        """End what is open: a run that nobody reported failed as unfinished."""
        self._open.close()

    # ---------------------------------------------------------------- tools that read

    def _search(self, given: SearchArguments) -> dict[str, Any]:
        found = self._moment(given.at).ask("search", query=given.query, k=given.k)
        shown = ("id", "title", "desc", "polarity", "score")
        hits = [{name: getattr(hit, name) for name in shown} for hit in found.hits]
        return {"position": found.position, "policy": found.policy, "hits": hits, "withheld": len(found.withheld)}

    def _get(self, given: GetArguments) -> dict[str, Any]:
        run = self._running(given.run) if given.run else None
        moment = self._moment(given.at)
        rows = [
            _for_agents(moment.ask("item", item=id, history=False, limit=1).item) for id in dict.fromkeys(given.ids)
        ]
        shown = ("id", "title", "desc", "content", "polarity", "state", "support", "wins", "losses", "superseded_by")
        items = [{name: getattr(row, name) for name in shown} for row in rows]
        if run is not None:
            chars = sum(len(row.content) for row in rows)
            self._bank.append(MemoriesRead(run=run.id, ids=tuple(row.id for row in rows), how="get", chars=chars))
        return {"position": moment.position, "items": items}

    def _why(self, given: WhyArguments) -> dict[str, Any]:
        moment = self._moment(given.at)
        try:
            return self._reasons_of("item", given.id, moment)
        except NotInBank:
            pass
        try:
            return self._reasons_of("run", given.id, moment)
        except NotInBank as error:
            raise NotInBank(given.id, error.position, kind="lesson or run") from None

    def _reasons_of(self, kind: Literal["item", "run"], id: str, moment: Moment) -> dict[str, Any]:
        rows = mcp_limits.MCP_ROWS
        if kind == "item":
            found = moment.ask("item", item=id, limit=rows, history=False)
            _for_agents(found.item)
        else:
            found = moment.ask("run", run=id, limit=1, sentences=False)
        answer = msgspec.to_builtins(found)
        reasons = {name: _some(answer[name], rows) for name in _REASONS[kind]}
        return {"position": found.position, kind: answer[kind]} | reasons

    def _moment(self, at: str) -> Moment:
        return Moment(self._bank, self._bank.resolve(at or None), self._bounds)

    # ---------------------------------------------------------------- tools that write

    def _recall(self, given: RecallArguments) -> dict[str, Any]:
        if given.run:
            run = self._running(given.run)
            lessons = run.recall(given.question)
        else:
            run, lessons = self._open.begin(given.question, domain=given.domain or None, executor="mcp")
        items = [{"id": item.id, "title": item.title, "polarity": item.polarity} for item in lessons.items]
        return {"run": run.id, "position": lessons.position, "lessons": lessons.text, "items": items}

    def _report(self, given: ReportArguments) -> dict[str, Any]:
        run = self._running(given.run)
        run.finish(given.answer, evidence={"reported": given.evidence} if given.evidence else None)
        self._open.drop(run.id)
        judged = RunJudged(
            id=self._bank.log.new_id(),
            run=run.id,
            purpose="learning",
            verdict=given.outcome,
            kind="lm",
            judge=JUDGE,
            judge_version=JUDGE_VERSION,
            reason=given.evidence[: limits.ERROR_CHARS],
        )
        self._bank.append(redact_event(judged))
        self._keep_proposals(judged)
        return {"run": run.id, "position": self._bank.position, "verdict": given.outcome}

    def _propose(self, given: ProposeArguments) -> dict[str, Any]:
        run = self._running(given.run)
        item = Item.make(given.title.strip(), given.content.strip(), given.polarity)
        self._bank.append(redact_event(MemoryProposed(run=run.id, by="propose", head=item.head, candidate=item.text)))
        return {"run": run.id, "position": self._bank.position, "id": item.id, "state": "proposed"}

    def _keep_proposals(self, judged: RunJudged) -> None:
        """Record what a run proposed as pending candidates, which rest on its verdict: a person admits them."""
        judgment = Judgment(verdict=judged.verdict, event=judged.id)
        drawn = from_proposals(proposals_of(self._bank, judged.run), judgment)
        if drawn is not None:
            consolidate(self._bank, [replace(drawn, pending=True).event()])

    def _running(self, id: str) -> AgentRun:
        run = self._open.get(id)
        if run is None:
            raise BadInput(f"no run {id[: limits.GIVEN_CHARS]!r} is open here: recall without a run begins one")
        return run


_REASONS = {
    "item": ("warning", "ends", "grounds", "acts", "near", "used_in_total", "used_in"),
    "run": ("answer", "judgments", "given", "learned"),
}
"""The parts of the answers about an item and a run that are reasons."""


def _for_agents(item: ItemRow) -> ItemRow:
    """Return an item that agents may read. Raises `BadInput` for one that would tell them how they are judged."""
    if item.src in JUDGE_SOURCES:
        raise BadInput(f"{item.id} serves the judge, and is not given to agents")
    return item


def _some(value: Any, rows: int) -> Any:
    return value[:rows] if isinstance(value, list) else value


def _checked(form: type[Arguments], arguments: Mapping[str, Any]) -> Any:
    """Return arguments as their struct, read strictly. Raises `BadInput`, `LimitExceeded`."""
    try:
        size = len(msgspec.json.encode(arguments))
        if size > mcp_limits.MCP_ARGUMENTS_BYTES:
            raise LimitExceeded("bytes of the arguments", size, mcp_limits.MCP_ARGUMENTS_BYTES, "give less")
        return msgspec.convert(arguments, form)
    except msgspec.ValidationError as error:
        raise BadInput(f"the arguments don't fit: {reason_of(error, form)}") from None
    except (TypeError, ValueError, RecursionError, UnicodeError) as error:
        raise BadInput(f"the arguments are no JSON: {type(error).__name__}") from None
