"""Middleware for agents of LangChain 1.x: each invocation is a run, with recall, calls and an end. Loads langchain.

>>> agent = create_agent(model, tools, middleware=[BankMiddleware(bank)])  # doctest: +SKIP
>>> agent.invoke({"messages": "Which lamps are lit?"})["rbank_run"]  # doctest: +SKIP
'run-4b1d…'
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any
from uuid import UUID

from rbank_es.agents.answer_judges import AnswerJudge, judge_answer
from rbank_es.agents.open_runs import OpenRuns
from rbank_es.bank import Bank
from rbank_es.bank.agent_run import AgentRun
from rbank_es.system.extras import named_extra

with named_extra():
    from langchain.agents.middleware.types import AgentMiddleware, AgentState, ModelRequest, OmitFromInput
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import SystemMessage, convert_to_openai_messages
    from langchain_core.tracers.context import register_configure_hook
    from langgraph.config import get_config
    from langgraph.errors import GraphBubbleUp


class RecordedState(AgentState):
    """The state of an agent with the run of its last invocation, which the result has, too."""

    rbank_run: Annotated[str, OmitFromInput]


class BankMiddleware(AgentMiddleware):
    """The recorder of an agent's invocations in one bank, each a run; threads and tasks may share it.

    Last in the list of middleware it sees requests as they are sent. The lessons that fit the last message of the user
    are added to the system prompt of each call. An exception that leaves the agent ends its run, also where another
    middleware raised it; one that is paused for a person goes on with its run, in the same process.
    """

    state_schema = RecordedState

    def __init__(
        self, bank: Bank, *, judge: AnswerJudge | None = None, domain: str | None = None, model: str | None = None
    ) -> None:
        """Record in `bank`; `judge` gives a verdict on each answer, `domain` and `model` are facts of the runs."""
        super().__init__()
        self._open, self._judge = OpenRuns(bank), judge
        self._facts = {"domain": domain, "model": model, "executor": "langchain"}

    # ---------------------------------------------------------------- beginning and end

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Begin a run and recall for it. Raises as `AgentRun.begin_with_recall`."""
        # A run that was paused, and whose thread goes on with something else.
        self._open.drop(state.get("rbank_run") or "")
        run, _ = self._open.begin(_text(_last(state, "human")), **self._facts)
        _ends.watch(run)
        return {"rbank_run": run.id}

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """See `before_agent`: on a thread, because a search would hold the loop."""
        return await asyncio.to_thread(self.before_agent, state, runtime)

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Record the answer, and the verdict on it. Raises as the judge."""
        run = self._open.get(state.get("rbank_run") or "")
        if run is None or run.ended:
            return
        structured = state.get("structured_response")
        answer = _text(_last(state, "ai")) if structured is None else structured
        run.finish(answer)
        self._open.drop(run.id)
        judge_answer(run, self._judge, answer)

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """See `after_agent`."""
        await asyncio.to_thread(self.after_agent, state, runtime)

    # ---------------------------------------------------------------- in between

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Give the lessons to the model, and record the call."""
        with _recorded_call(self._running(request.state), request) as call:
            call.response = handler(call.request)
        return call.response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """See `wrap_model_call`."""
        with _recorded_call(self._running(request.state), request) as call:
            call.response = await handler(call.request)
        return call.response

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Record a call of a tool."""
        with _recorded_tool(self._running(request.state), request) as call:
            call.response = handler(call.request)
        return call.response

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """See `wrap_tool_call`."""
        with _recorded_tool(self._running(request.state), request) as call:
            call.response = await handler(call.request)
        return call.response

    def _running(self, state: Any) -> AgentRun | None:
        """Return the run of an agent; None where it has ended, or the agent is resumed in another process."""
        run = self._open.get(state.get("rbank_run") or "")
        if run is None or run.ended:
            return None
        _ends.watch(run)
        return run


class _Call:
    """A call under way: its request, and its response when it is there."""

    def __init__(self, request: Any) -> None:
        self.request, self.response = request, None
        self._began = time.perf_counter()

    @property
    def took_s(self) -> float:
        return round(time.perf_counter() - self._began, 6)


@contextmanager
def _recorded_call(run: AgentRun | None, request: ModelRequest) -> Iterator[_Call]:
    if run is None:
        yield _Call(request)
        return
    given = request.override(system_message=_with_lessons(request.system_message, run.recalled))
    call = _Call(given)
    messages = [*([given.system_message] if given.system_message else []), *given.messages]
    model = getattr(given.model, "model_name", None) or getattr(given.model, "model", None)
    asked = {"model": model, "messages": convert_to_openai_messages(messages)}
    try:
        yield call
    except BaseException as error:
        _record(run, run.call, request=asked, model=model, error=error, duration_s=call.took_s)
        raise
    result = _result_of(call.response)
    reply = {"messages": convert_to_openai_messages(result)}
    _record(run, run.call, request=asked, response=reply, model=model, duration_s=call.took_s, **_tokens(result))


@contextmanager
def _recorded_tool(run: AgentRun | None, request: Any) -> Iterator[_Call]:
    call, name, arguments = _Call(request), request.tool_call["name"], request.tool_call["args"]
    if run is None:
        yield call
        return
    try:
        yield call
    except GraphBubbleUp:  # paused for a person: the tool is called again afterwards
        raise
    except BaseException as error:
        _record(run, run.tool, name, arguments, error=error, duration_s=call.took_s)
        raise
    result = getattr(call.response, "content", call.response)
    failed = result if getattr(call.response, "status", None) == "error" else None
    _record(run, run.tool, name, arguments, result, error=failed, duration_s=call.took_s)


def _record(run: AgentRun, method: Callable[..., None], *given: Any, **facts: Any) -> None:
    # Of calls side by side one may fail, which ends the run, while the others are under way.
    if not run.ended:
        method(*given, **facts)


class _Ends(BaseCallbackHandler):
    """The ends of graphs: an exception that leaves an agent's graph ends the agent's run.

    No hook of a middleware sees what others raise, nor the limit of steps. LangChain asks a handler that is registered
    with it about each graph; a run is noted under the ids of the graphs and nodes that it is in.
    """

    run_inline = True  # else an asynchronous graph calls it on a thread, perhaps after the agent's next call

    def __init__(self) -> None:
        self._parents: dict[UUID, UUID | None] = {}
        # Several under one id, because an agent may be a tool of another.
        self._runs: dict[UUID, dict[str, AgentRun]] = {}

    def watch(self, run: AgentRun) -> None:
        """End `run` when an exception leaves a graph that it is in now."""
        id: UUID | None = getattr(get_config().get("callbacks"), "parent_run_id", None)
        while id in self._parents and id is not None:
            self._runs.setdefault(id, {})[run.id] = run
            id = self._parents[id]

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any
    ) -> None:
        """Note what a graph or a node is in."""
        self._parents[run_id] = parent_run_id

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """Forget it."""
        self._parents.pop(run_id, None)
        self._runs.pop(run_id, None)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """End its runs, unless they are paused."""
        self._parents.pop(run_id, None)
        runs = self._runs.pop(run_id, {})
        if not isinstance(error, GraphBubbleUp):
            for run in runs.values():
                run.__exit__(type(error), error, None)

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Do nothing: without it, LangChain would write the whole prompt out for `on_llm_start`."""


_ends = _Ends()
register_configure_hook(ContextVar("rbank_ends", default=_ends), inheritable=True)


def _with_lessons(system: Any, lessons: str) -> Any:
    """Return a system message with the lessons at its end, as LangChain has it: a text, or a list of blocks."""
    if not lessons:
        return system
    if system is None:
        return SystemMessage(lessons)
    if isinstance(system.content, str):
        return SystemMessage(f"{system.content}\n\n{lessons}")
    return SystemMessage([*system.content, {"type": "text", "text": lessons}])


def _result_of(response: Any) -> Sequence[Any]:
    """Return the messages of a model's response, in each of the forms that a handler may give it."""
    response = getattr(response, "model_response", response)
    return list(getattr(response, "result", None) or [response])


def _tokens(result: Sequence[Any]) -> dict[str, Any]:
    usage: dict[str, Any] = next((used for each in result if (used := getattr(each, "usage_metadata", None))), {})
    cached = (usage.get("input_token_details") or {}).get("cache_read")
    return {
        "tokens_in": usage.get("input_tokens"),
        "tokens_out": usage.get("output_tokens"),
        "tokens_cached": cached,
    }


def _last(state: Any, kind: str) -> Any:
    return next((each for each in reversed(state["messages"]) if each.type == kind), None)


def _text(message: Any) -> str:
    return str(message.text) if message is not None else ""
