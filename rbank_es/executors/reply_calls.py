"""The calls of tools that a reply asks for, in their order: parts of the reply, or written out in its text.

Servers that miss a call, because they don't know the model's way to write one, pass it on as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from rbank_es import limits
from rbank_es.executors.tool_call import SUBMIT, binds, named_call, parameters_of, plain_arguments
from rbank_es.models.agent_forms import fields_in
from rbank_es.models.lm_request import CUT, LmResponse
from rbank_es.models.reply_syntax import TWICE, ReplyValue, values_in

_AROUND = re.compile(r"</?tool_calls?>|<\|python_tag\|>|\[TOOL_CALLS\]|```\w*|[\s,;\[\]]+")
"""What stands around calls that are written out, beside the calls."""


class Call(NamedTuple):
    """A call: the name of the tool, its arguments; `wrong` says why these can't be read, if they can't.

    `continuation` is the provider's own, to be sent back with the call.
    """

    name: str
    arguments: dict[str, Any]
    wrong: str = ""
    continuation: Any = None


Functions = Mapping[str, Callable[..., Any]]


def calls_of(response: LmResponse, functions: Functions) -> list[Call]:
    """Return the calls of a reply; of written ones, only to tools that are among the `functions`, and `SUBMIT`.

    Where its text is nothing but calls, these are its calls; amid words, one is, if there is no other that it could be.
    """
    parts = [part for part in response.message.parts if part.get("type") == "tool_call"]
    calls = [_call_of(part) for part in parts] or _written_calls(response.text, {*functions, SUBMIT})
    if calls or (amid := _call_amid_words(response.text, functions)) is None:
        return calls
    return [amid] if binds(functions, amid.name, amid.arguments) else []


def why_no_call(response: LmResponse, functions: Functions) -> str:
    """Return why a reply has no call, in words for the agent."""
    if response.finish_reason in CUT:
        return "it was cut at its bound: be shorter"
    amid = _call_amid_words(response.text, functions)
    if amid is None:
        return "it calls no tool"
    taken = parameters_of(functions, amid.name)
    if taken is None:
        return f"it calls {amid.name[: limits.GIVEN_CHARS]}, and there is no such tool"
    return f"it calls {amid.name} with other arguments than {', '.join(taken) or 'none'}"


def _call_of(part: dict[str, Any]) -> Call:
    given, wrong = part.get("input"), ""
    if not isinstance(given, dict) or given == {"value": None}:
        given = {}  # nothing, or null
    elif given.keys() == {"partial_json"}:
        given, wrong = _mended(str(given["partial_json"]))
    name, arguments = named_call(str(part.get("name")), plain_arguments(given))
    return Call(name, arguments, wrong, part.get("continuation"))


def _mended(text: str) -> tuple[dict[str, Any], str]:
    """Return arguments in another notation than JSON, or why they can't be read."""
    values, open_, _ = values_in(text)
    if len(values) == 1 and not open_ and _is_object(values[0].parsed):
        return values[0].parsed, ""
    why = "they end in the middle" if open_ else "they are no JSON object"
    return {}, f"the arguments can't be read, {why}: {text[: limits.GIVEN_CHARS]}"


_FIELDS = ("next_thought", "next_tool_name", "next_tool_args")


def _call_amid_words(text: str, functions: Functions) -> Call | None:
    """Return the one call that a text makes in the forms of an agent's step, whether it fits its tool or not."""
    fields = fields_in(text, _FIELDS)
    others = {repr(call) for each in _objects_of(values_in(text)[0]) if (call := _written_call(each)) is not None}
    if not fields or len(others) > 1:
        return None
    given, wrong = _mended(fields["next_tool_args"])
    name, arguments = named_call(fields["next_tool_name"], plain_arguments(given), functions)
    return None if wrong else Call(name, arguments)


def _written_calls(text: str, known: Collection[str]) -> list[Call]:
    values, open_, _ = values_in(text)
    objects = _objects_of(values)
    calls = [call for each in objects if (call := _written_call(each)) is not None and call.name in known]
    bare, at = "", 0
    for value in values:
        bare, at = bare + text[at : value.span.start], value.span.end
    alone = not open_ and not _AROUND.sub("", bare + text[at:])
    return calls if alone and len(calls) == len(objects) else []


def _objects_of(values: Sequence[ReplyValue]) -> list[Any]:
    """Return the values of a text, those of lists one by one."""
    lists = (value.parsed if isinstance(value.parsed, list) else [value.parsed] for value in values)
    return [each for entries in lists for each in entries]


def _written_call(value: Any) -> Call | None:
    if not _is_object(value):
        return None
    inner = value.get("function")
    value = inner if _is_object(inner) else value
    arguments: Any = next((value[name] for name in ("arguments", "parameters") if name in value), None)
    if not isinstance(value.get("name"), str) or not _is_object(arguments):
        return None
    return Call(*named_call(value["name"], plain_arguments(arguments)))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and all(each is not TWICE for each in value.values())
