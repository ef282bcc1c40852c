"""The tools of one run, built together: the calls of an agent, its manual, and the same calls for a Python program.

Each call is checked, bounded and recorded: its answer fits its cap, and its event is on disk before the agent sees it.
No failure raises into the sandbox: the agent gets data with a code, a message and a hint. An answer whose event can not
be appended is withheld, because an agent must not know anything that the log does not.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, PositionConflict, QueryFailed, QueryRefused, RBankError, UnknownHandle
from rbank_es.events import Event, MemoryProposed, Ref, ToolCalled
from rbank_es.events.event_envelope import Timer
from rbank_es.events.redaction import redact, redact_all
from rbank_es.limits import tool_limits
from rbank_es.log import ANY
from rbank_es.sparql.example_query import example_class
from rbank_es.system.extras import missing_extra
from rbank_es.system.registry import checked_result
from rbank_es.tools.shared.call_budget import Excess, RunMeter
from rbank_es.tools.shared.call_form import CallForm, WrongArguments
from rbank_es.tools.shared.example_calls import example_of, in_terms_of
from rbank_es.tools.shared.handle_store import Store
from rbank_es.tools.shared.manual_text import manual_text
from rbank_es.tools.shared.tool_answers import HANDLE, encode, handle_of, noted, size, told_by
from rbank_es.tools.shared.tool_family import (
    TOOL_FAMILIES,
    Manual,
    RawTool,
    Reply,
    ToolError,
    ToolPolicy,
    ToolSession,
    offered_tools,
    public_methods,
    tools_named_as,
)

if TYPE_CHECKING:
    from rbank_es.bank.memory_graph import MemoryGraph
    from rbank_es.sparql.data_source import Source, SourceLike
    from rbank_es.tools.memory.query_extractor import Extractor

NAIVE_KEY = "naive_payload"
"""The key under which the naive mode returns the payload itself."""

_PATH = re.compile(r"(?<![\w:/<.])/(?:[^\s/'\"<>]+/)+[^\s'\"<>:;,)]*")
_PYTHON = {"`object": "`dict", "| object": "| dict", "`array": "`list", "| array": "| list", "`null": "`None"}
_TYPES = re.compile("|".join(map(re.escape, _PYTHON)))
"""Names of types as msgspec reports them, to be replaced by Python's."""

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@lru_cache(maxsize=256)
def _typed(function: RawTool, is_method: bool) -> tuple[inspect.Signature, Mapping[str, Any]]:
    """Return the signature and the types of a function, of a method without `self`. Cached, because runs share them."""
    signature = inspect.signature(function)
    if is_method:
        signature = signature.replace(parameters=[*signature.parameters.values()][1:])
    return signature, get_type_hints(function)


class Tool:
    """One tool as the agent calls it: checked, bounded, recorded. Its calls never raise, whatever the arguments."""

    def __init__(
        self, name: str, raw: RawTool, session: ToolSession, cap_chars: int, clock: Timer = time.perf_counter
    ) -> None:
        self.name = name
        self.cap_chars = cap_chars
        function = getattr(raw, "__func__", raw)
        self.form = CallForm(name, *_typed(function, function is not raw))
        self.doc = inspect.cleandoc(raw.__doc__ or "")
        self.raw = raw
        self._session = session
        self._clock = clock

    def call(self, given: tuple[Any, ...], named: Mapping[str, Any], excess: Excess | None = None) -> dict[str, Any]:
        """Answer a call, and record it. With `excess`, refuse it."""
        began = self._clock()
        # Redact first: neither a tool nor an event nor an error may hold a key.
        given, named = tuple(map(self._clean, given)), {name: self._clean(value) for name, value in named.items()}
        try:
            shown = self._shown(given, named)
        except Exception as error:
            return self._recorded(error_of(error), "{}", began)
        for _ in range(limits.TOOL_TRIES):
            reply = self._reply(given, named, shown) if excess is None else error_of_bound(excess)
            try:
                return self._recorded(reply, shown, began)
            except PositionConflict:
                # Somebody appended after this answer was read. A retrieval must be of the position right before it.
                continue
            except Exception as error:
                return self._withheld(error)
        return self._withheld(None)

    def _shown(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> str:
        """Return the arguments as redacted JSON for the event."""
        names = [*self.form.signature.parameters]
        unnamed = {names[at] if at < len(names) else f"argument {at + 1}": value for at, value in enumerate(given)}
        plain = encode({**unnamed, **named}, tool_limits.READ_ARGUMENT_CHARS)
        return redact(msgspec.json.encode(plain).decode(), self._session.hidden)

    def _clean(self, value: Any) -> Any:
        return redact_all(_slim(value), self._session.hidden)

    def _arguments(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by parameter. A name that can only mean one parameter is taken so, which is noted."""
        needed = self._session.needed
        meant = self.form.meant(given, named, needed)
        self._session.note = "" if meant is None else meant.note
        try:
            return self.form.bound(given, named, meant)
        except WrongArguments as error:
            words = _TYPES.sub(lambda found: _PYTHON[found[0]], str(error))
            example = example_of(self.form, self._session, self.form.choice_named(named))
            strange = (name for name in named if name in needed and name not in self.form.hints)
            belongs = "".join(f"; {name} is an argument of {' and '.join(needed[name])}" for name in strange)
            hint = f"call it as {self.form.usage}{example and ', such as '}{example}{belongs}"
            raise ToolError("bad_arguments", words, hint) from None

    def _reply(self, given: tuple[Any, ...], named: Mapping[str, Any], shown: str) -> Reply | ToolError:
        try:
            if len(shown) > tool_limits.TOOL_ARGUMENT_CHARS:
                raise ToolError(
                    "too_long",
                    f"the arguments have {len(shown):,} characters; {tool_limits.TOOL_ARGUMENT_CHARS:,} are taken",
                    "put large values behind a handle, or ask in parts",
                )
            return checked_result(self.raw(**self._arguments(given, named)), Reply, self.name, self.raw)
        except Exception as error:
            return error_of(error)

    def _recorded(self, reply: Reply | ToolError, shown: str, began: float) -> dict[str, Any]:
        """Append the event, then return the answer."""
        if isinstance(reply, ToolError):
            return self._failed(reply, shown, began)
        cap_chars = tool_limits.NAIVE_RETURN_CHARS if self._session.naive else self.cap_chars
        if reply.payload is not None:
            reply = reply._replace(payload=redact(reply.payload, self._session.hidden))
        ref = None if reply.payload is None else self._session.store.put(reply.payload, reply.dtype or "text")
        body = noted(self._session.note, self._named(ref, reply.body))
        result = encode({"ok": True, **self._handle(ref), **self._inlined(reply), **body}, cap_chars)
        cut = result.get("truncated") is True
        event = self._event(shown, began, size(result), truncated=reply.truncated or cut)
        if ref is not None:
            named = {"id": ref.key, "dtype": ref.dtype, "alias": self._session.store.alias_of(ref)}
            event = msgspec.structs.replace(event, **named, result=reply.payload)
        excess = self._session.meter.room_for(*reply.beside, event)
        if excess is not None:
            if ref is not None:
                self._session.store.drop(ref)
            return self._failed(error_of_bound(excess), shown, began)
        try:
            self._append((*reply.beside, event), reply.position)
        # Also for an interrupt: the key would name an event that doesn't exist.
        except BaseException:
            if ref is not None:
                self._session.store.drop(ref)
            raise
        if ref is not None:
            self._session.store.settle(ref)
        self._session.proposed.update(
            (each.head.id, each.by) for each in reply.beside if isinstance(each, MemoryProposed)
        )
        return result

    def _handle(self, ref: Ref | None) -> dict[str, Any]:
        return {} if ref is None else {"alias": self._session.store.alias_of(ref), **handle_of(ref)}

    def _named(self, ref: Ref | None, body: dict[str, Any]) -> dict[str, Any]:
        """Return a body whose next step names the handle that goes with it."""
        following = body.get("next")
        if ref is None or not isinstance(following, str):
            return body
        return {**body, "next": following.replace(HANDLE, repr(self._session.store.alias_of(ref)))}

    def _inlined(self, reply: Reply) -> dict[str, Any]:
        return {NAIVE_KEY: reply.payload} if self._session.naive and reply.payload is not None else {}

    def _failed(self, error: ToolError, shown: str, began: float) -> dict[str, Any]:
        result = self._error(error)
        cause = error.__cause__
        words = f"{error.message}. {error.hint}" if cause is None else f"{type(cause).__name__}: {cause}"
        event = self._event(shown, began, size(result), truncated=False)
        self._append((msgspec.structs.replace(event, error_code=error.code, error=words[: limits.ERROR_CHARS]),), None)
        return result

    def _event(self, shown: str, began: float, chars: int, *, truncated: bool) -> ToolCalled:
        clipped = len(shown) > tool_limits.TOOL_ARGUMENT_CHARS
        return ToolCalled(
            run=self._session.run,
            tool=self.name,
            call=self._session.call,
            step=self._session.step,
            chars=chars,
            truncated=truncated,
            duration_s=max(0.0, round(self._clock() - began, 6)),
            previews=("arguments",) if clipped else (),
            arguments=shown[: tool_limits.TOOL_ARGUMENT_CHARS],
        )

    def _append(self, events: tuple[Event, ...], position: int | None) -> None:
        self._session.bank.append(events, expected=ANY if position is None else position)
        self._session.meter.wrote(*events)

    def refusal(self, excess: Excess) -> dict[str, Any]:
        """Return the reply to a call that a bound leaves no room for. It is not recorded."""
        return self._error(error_of_bound(excess))

    def _error(self, error: ToolError) -> dict[str, Any]:
        fields = {"code": error.code, "message": error.message, "hint": error.hint}
        return encode({"ok": False, "error": fields}, self.cap_chars)

    def _withheld(self, error: Exception | None) -> dict[str, Any]:
        """Return the error of a call whose event could not be appended."""
        self._session.unrecorded.append(error or RuntimeError(f"{self.name}: other writers were faster each time"))
        why = "other writers were faster each time" if error is None else _words_of(error)
        hint = "the answer is withheld; call again, and if that fails too, submit what you have"
        return self._error(ToolError("not_recorded", f"the call could not be recorded: {why}", hint))


def _slim(value: Any) -> Any:
    """Return a handle without the payload that the naive mode puts into it; agents pass handles on as they came."""
    if isinstance(value, dict) and NAIVE_KEY in value:
        return {name: part for name, part in value.items() if name != NAIVE_KEY}
    return value


def error_of_bound(excess: Excess) -> ToolError:
    """Return the error of a call that a bound leaves no room for; its code is the name of the bound."""
    return ToolError(excess.bound, excess.message, excess.hint)


def error_of(error: Exception) -> ToolError:
    """Return an error as data: its code, a message, the next step; no path of the host, no traceback."""
    if isinstance(error, ToolError):
        return error
    error = missing_extra(error) or error
    if isinstance(error, (QueryRefused, QueryFailed)):
        return ToolError(error.code, _place_of(error) + error.message, error.hint)
    if isinstance(error, UnknownHandle):
        return ToolError("unknown_handle", f"{error.key!r}: {error.reason}", "give a handle that a tool returned")
    if isinstance(error, RBankError):
        # The class name is stable; the message is for people.
        code = _CAMEL.sub("_", type(error).__name__).lower()
        made = ToolError(code, _words_of(error), "change the arguments, or go on without this tool")
    else:
        words = f"the tool failed unexpectedly ({type(error).__name__})"
        made = ToolError("tool_failed", words, "try other arguments; the call was recorded")
    made.__cause__ = error
    return made


def _place_of(error: QueryRefused | QueryFailed) -> str:
    line = getattr(error, "line", None)
    return f"line {line}, column {getattr(error, 'column', 1)}: " if line is not None else ""


def _words_of(error: Exception) -> str:
    return _PATH.sub("…", str(error)) if isinstance(error, RBankError) else type(error).__name__


Function = Callable[..., dict[str, Any]]


class Toolbox:
    """The tools of one run, by name. A context manager; calls from several threads are made one at a time."""

    def __init__(
        self,
        session: ToolSession,
        tools: Mapping[str, RawTool],
        caps_chars: Mapping[str, int] | None = None,
        clock: Timer = time.perf_counter,
    ) -> None:
        def built(named: Mapping[str, RawTool]) -> dict[str, Tool]:
            caps = caps_chars or {}
            return {
                name: Tool(name, raw, session, caps.get(name, tool_limits.TOOL_RETURN_CHARS), clock)
                for name, raw in named.items()
            }

        self.session = session
        self._calls = session.calls
        self._lock = RLock()
        self._tools = built(tools)
        self._python = built(dict(public_methods(TOOL_FAMILIES.get("python").tools(session))))
        self.functions: dict[str, Function] = {name: self._function(tool) for name, tool in self._tools.items()}
        """Plain functions by name, with the signature and the docstring that the agent reads."""
        session.manual = self.manual()
        session.needed = {}
        for name, tool in self._tools.items():
            for parameter in tool.form.needed:
                session.needed.setdefault(parameter, []).append(name)

    def _function(self, tool: Tool) -> Function:
        def function(*given: Any, **named: Any) -> dict[str, Any]:
            return self._call(tool, given, named)

        hints = {**tool.form.hints, "return": dict[str, Any]}
        known = tool.form.signature.parameters.values()
        parameters = [each.replace(annotation=hints.get(each.name, Any)) for each in known]
        function.__name__ = function.__qualname__ = tool.name
        function.__doc__ = tool.doc
        function.__annotations__ = hints
        function.__signature__ = inspect.Signature(parameters, return_annotation=dict[str, Any])  # type: ignore[attr-defined]
        return function

    def _call(self, tool: Tool, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        # One at a time, because a call's number and its place in the log must agree.
        with self._lock:
            meter = self.session.meter
            excess = meter.count_call()
            # Of many refusals only the first is recorded: a loop over calls must not fill the log with them.
            if excess is not None and not meter.is_first(excess):
                return tool.refusal(excess)
            self._calls += 1
            self.session.call = f"call-{self._calls}"
            reply = tool.call(given, named, excess)
            self.session.told += told_by(reply)
            meter.answered += reply["ok"] is True
            return reply

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a tool by name. A failure is data: `{"ok": false, "error": {code, message, hint}}`.

        Raises `BadInput` for a name that no tool has.
        """
        if name not in self._tools:
            raise BadInput(f"no tool {name!r}; there are: {', '.join(self._tools)}")
        return self._call(self._tools[name], (), arguments or {})

    def manual(self) -> tuple[Manual, ...]:
        """Return every tool as the agent reads about it."""
        rare, known = tools_named_as("rare"), example_class(self.session.source)
        return tuple(
            Manual(tool.name, tool.form.usage, in_terms_of(tool.doc, known), tool.cap_chars, tool.name in rare)
            for tool in self._tools.values()
        )

    def manual_text(self) -> str:
        """Return the manual as prompts hold it, by the run's policy."""
        return manual_text(self.session.manual, self.session.policy.manual)

    def load_graph(self, path: str | Path) -> Ref:
        """Return a handle to a graph as N-Quads, read from a file or a directory. Raises `QueryFailed`."""
        return self._ref("load_graph", {"path": str(path)})

    def execute_query(self, sparql: str, limit: int = limits.QUERY_ROWS_DEFAULT) -> Ref:
        """Return a handle to the result of a query on the run's source. Raises `QueryFailed`."""
        return self._ref("execute_query", {"query": sparql, "limit": limit})

    def retrieve_memories(self, query: str, k: int = 1) -> Ref:
        """Return a handle to the `k` items that fit a query best, in full, as JSON. Raises `QueryFailed`."""
        return self._ref("retrieve_memories", {"query": query, "k": k})

    def _ref(self, name: str, arguments: Mapping[str, Any]) -> Ref:
        result = self._call(self._python[name], (), arguments)
        if not result["ok"]:
            error = result["error"]
            raise QueryFailed(error["code"], error["message"], error["hint"])
        return self.session.store.resolve(result)

    def close(self) -> None:
        """Release the source's processes and connections."""
        if self.session.source is not None:
            self.session.source.close()

    def __enter__(self) -> Toolbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def build_tools(
    bank: Bank,
    *,
    run: str,
    source: SourceLike | None = None,
    endpoint: str | Path | None = None,
    void: str | Path | None = None,
    skip_unreadable: bool = False,
    memory_graph: MemoryGraph | None = None,
    policy: ToolPolicy | None = None,
    extractor: Extractor | None = None,
    meter: RunMeter | None = None,
    clock: Timer = time.perf_counter,
    new_id: Callable[[], str] | None = None,
    embed: Callable[[str], None] | None = None,
) -> Toolbox:
    """Build the tools of one run over a source, or over memory alone.

    Every call appends its events to `bank` under `run`. `source`, `endpoint`, `void` and `skip_unreadable` are those of
    `open_source`; what is opened here has the id that the bank knows it by. `memory_graph` is the bank's own
    provenance, which the agent may query too; the caller closes it. Without `extractor`, queries are proposed by
    `QueryPattern`; `meter` has the bounds of the run, by default those of `RunBounds`; `clock` measures the duration of
    calls, in seconds; `new_id` makes the keys of handles, by default the log does; `embed` has a vector recorded for a
    query before the bank is searched for it.

    Raises:
        BadInput: `run` is too long, or a source and an endpoint are given.
        BadOntology: the ontology can't be loaded.
        BadPlugin: a plugin fails, or its tool has a name that is taken.
    """
    from rbank_es.tools.memory.query_extractor import QueryPattern

    if not 1 <= len(run) <= limits.NAME_CHARS:
        raise BadInput(f"a run's id has 1 to {limits.NAME_CHARS} characters, not {len(run):,}")
    opened = _open(bank, source, endpoint, void, skip_unreadable=skip_unreadable)
    store = Store(bank, run, new_id)
    extractor, policy, meter = extractor or QueryPattern(), policy or ToolPolicy(), meter or RunMeter()
    session = ToolSession(bank, run, store, extractor, opened, memory_graph, policy, meter, embed=embed)
    _resume(session)
    return Toolbox(session, *offered_tools(session), clock)


def _resume(session: ToolSession) -> None:
    """Continue the numbers of calls and aliases where an earlier process of the same run stopped."""
    started_seq = _started_seq(session)
    if started_seq is None:
        return
    found = session.bank.events(after=started_seq, types={"tool_called"}, run=session.run)
    calls = [event for event in found if isinstance(event, ToolCalled)]
    session.calls = len(calls)
    session.meter.resume(len(calls), sum(map(_kept_chars, calls)))
    session.store.remember(calls)


def _kept_chars(call: ToolCalled) -> int:
    if isinstance(call.result, Ref):
        return call.result.sz
    return len(call.result) if isinstance(call.result, str) else 0


def _started_seq(session: ToolSession) -> int | None:
    """Return the position of the run's start, None if it hasn't begun."""
    from rbank_es.tools.memory.item_search import items_view

    # The newest events first, because most runs have only just begun: that saves bringing projections up to date.
    after = max(0, session.bank.position - tool_limits.LOOK_BACK_EVENTS)
    for started in session.bank.events(after=after, types={"run_started"}, run=session.run):
        return started.seq
    if not after:
        return None
    with items_view(session) as (view, _):
        row = view.run(session.run)
    return None if row is None else int(row["started_seq"])


def _open(
    bank: Bank,
    source: SourceLike | None,
    endpoint: str | Path | None,
    void: str | Path | None,
    *,
    skip_unreadable: bool,
) -> Source | None:
    """Return the source, open and by the id that the bank has for it; None where none is given."""
    if source is None and endpoint is None and void is None:
        return None
    from rbank_es.bank.ontology_registrations import as_registered
    from rbank_es.sparql.data_source import Source, open_source

    opened = open_source(source, endpoint=endpoint, void=void, skip_unreadable=skip_unreadable)
    # Whoever opened it has named it.
    return opened if isinstance(source, Source) else as_registered(bank, opened)
