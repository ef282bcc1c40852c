"""A call of a tool by name, as an agent without code writes it: arguments, reply, submission. Loads no dspy."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, NamedTuple

from rbank_es import limits as lim
from rbank_es.events.codec import encodable
from rbank_es.executors.run_step import Fault
from rbank_es.executors.submission import FIELDS, Submission
from rbank_es.sandbox.step_outcome import SubmissionRefused

SUBMIT = "SUBMIT"


class CallOutcome(NamedTuple):
    """The outcome of a tool call: the reply as JSON, the submission, the fault."""

    output: str
    submission: Submission | None = None
    fault: Fault | None = None


def call_tool(
    functions: Mapping[str, Callable[..., Any]], name: str, arguments: Mapping[str, Any], told: Iterable[str] = ()
) -> CallOutcome:
    """Call a tool, or hand in the result, which is none of the texts `told`. Errors become replies for the agent."""
    # Models write it in any case.
    if name.upper() == SUBMIT:
        return _submitted(arguments, told)
    function = functions.get(name)
    if function is None:
        there = ", ".join([*functions, SUBMIT])
        shown = name[: lim.GIVEN_CHARS]
        return failed_call("unknown_tool", f"no tool is called {shown!r}", f"call one of: {there}", "unknown_tool")
    try:
        answer = function(**arguments)
    # Tools return their failures with ok=false, so this is a sub-call's.
    except Exception as error:
        words = f"{name}: {error}"[: lim.ERROR_CHARS]
        return failed_call("sub_call_failed", words, "give other arguments, or go on without it", "tool_failed")
    failed = isinstance(answer, Mapping) and answer.get("ok") is False
    return CallOutcome(json_text(answer), fault="tool_failed" if failed else None)


_CALL = re.compile(r"`?([A-Za-z_]\w*)`?\s*\(")
"""The beginning of a call, or of a line of the manual, where a tool's name belongs."""

_SCHEMA_KEYS = {"type", "additionalProperties"}


def named_call(
    name: str, arguments: dict[str, Any], functions: Mapping[str, Callable[..., Any]] | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the name of a tool and its arguments, as models write them: in quotes, or with the whole call.

    `functions` name the arguments that a call gives by position; those of SUBMIT are known.
    """
    name = name.strip().strip("`'\"")
    # The place of the arguments, as the prompt describes it, in their stead.
    arguments = {} if arguments.keys() == _SCHEMA_KEYS else arguments
    call = _CALL.match(name)
    if call is None or arguments:
        return (name if call is None else call[1]), arguments
    return call[1], plain_arguments(_arguments_of(name, parameters_of(functions or {}, call[1]) or ()))


def parameters_of(functions: Mapping[str, Callable[..., Any]], name: str) -> tuple[str, ...] | None:
    """Return the names of the arguments of a tool, in their order; None if there is no such tool."""
    if name.upper() == SUBMIT:
        return FIELDS
    return tuple(signature(functions[name]).parameters) if name in functions else None


def binds(functions: Mapping[str, Callable[..., Any]], name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether there is a tool of this name that takes these arguments; an answer is all that SUBMIT needs."""
    if name.upper() == SUBMIT:
        return "answer" in arguments and arguments.keys() <= {*FIELDS}
    try:
        signature(functions[name]).bind(**arguments)
    except (KeyError, TypeError):
        return False
    return True


def _arguments_of(call: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of a call that are values; none of a text that is no call, or holds other arguments.

    A manual's line has names in the place of values: they are not taken for values.
    """
    try:
        tree = ast.parse(call, mode="eval").body
        if not isinstance(tree, ast.Call) or len(tree.args) > len(names):
            return {}
        if len(tree.args) == 1 and isinstance(tree.args[0], ast.Dict) and not tree.keywords:
            # As a call's JSON is written: all arguments by name, in one object.
            whole = ast.literal_eval(tree.args[0])
            return whole if {*whole} <= {*names} else {}
        given = [
            *zip(names, tree.args, strict=False),
            *((str(each.arg), each.value) for each in tree.keywords if each.arg),
        ]
        return {name: ast.literal_eval(value) for name, value in given}
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return {}


def _submitted(arguments: Mapping[str, Any], told: Iterable[str]) -> CallOutcome:
    try:
        submission = Submission.of(arguments, told)
    except SubmissionRefused as refused:
        return failed_call("no_answer", str(refused), "call SUBMIT with answer, sparql and evidence", "refused")
    return CallOutcome(submission.output, submission)


def failed_call(code: str, message: str, hint: str, fault: Fault) -> CallOutcome:
    """Return the reply to a call that was not made."""
    return CallOutcome(json_text({"ok": False, "error": {"code": code, "message": message, "hint": hint}}), fault=fault)


def plain_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as plain data: what JSON and UTF-8 can hold."""
    # Twice through JSON, because any value may come.
    clean: dict[str, Any] = json.loads(json_text(arguments))
    return clean


def json_text(value: Any) -> str:
    """Return a value as JSON that UTF-8 can hold."""
    return encodable(json.dumps(value, ensure_ascii=False, default=str))
