"""The JSON schemas of the tools that a model may call, made of the toolbox's manual. Loads no dspy."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from rbank_es.executors.tool_call import SUBMIT
from rbank_es.models.lm_request import JsonSchema, Tool
from rbank_es.tools.shared.manual_text import one_line
from rbank_es.tools.shared.toolbox import Toolbox

MANUAL_TOOL = "tools"
"""The tool that returns the manual of another."""

SUBMIT_TOOL: Tool = {
    "type": "function",
    "name": SUBMIT,
    "description": "Hand in the result and end. Do it only after you have seen what it rests on.",
    "parameters": {
        "type": "object",
        "properties": {
            "answer": {"type": "string", "description": "The answer, in words"},
            "sparql": {"type": "string", "description": "The SPARQL query that it rests on; empty if there is none"},
            "evidence": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Keys of handles, and IRIs, that it rests on",
            },
        },
        "required": ["answer"],
    },
}
"""The tool that ends a run."""


ANSWER_SCHEMA: dict[str, Any] = {
    **SUBMIT_TOOL["parameters"],
    "required": [*SUBMIT_TOOL["parameters"]["properties"]],
    "additionalProperties": False,
}
"""The JSON schema of an answer that is forced; strict ones require every field."""


def call_schema(tools: Sequence[Tool]) -> JsonSchema:
    """Return the JSON schema of a call of one of these tools, as most templates write calls."""
    named = {tool["name"]: ANSWER_SCHEMA if tool is SUBMIT_TOOL else tool["parameters"] for tool in tools}
    return {"anyOf": [_call_of(name, arguments) for name, arguments in named.items()]}


def _call_of(name: str, arguments: JsonSchema) -> JsonSchema:
    properties = {"name": {"type": "string", "enum": [name]}, "arguments": arguments}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_EXPLAINED = re.compile(r" (?:Args|Returns|Example): ")


def tool_schemas(tools: Toolbox, more: Mapping[str, Callable[..., Any]], asked: Collection[str] = ()) -> list[Tool]:
    """Return the tools of the manual, in its order, then other functions, last the one that ends the run.

    A short manual describes each in its line of use alone, and leaves out `rare_tools` that were not `asked` for.
    """
    left_out = {*rare_tools(tools)}.difference(asked)
    whole = tools.session.policy.manual == "all"
    lines = {tool.name: one_line(tool) for tool in tools.manual() if tool.name not in left_out}
    shown = [
        schema_of(tools.functions[name], line if whole else _EXPLAINED.split(line, maxsplit=1)[0], defaults=whole)
        for name, line in lines.items()
    ]
    others = (schema_of(function, inspect.getdoc(function) or "", defaults=whole) for function in more.values())
    return [*shown, *others, SUBMIT_TOOL]


def rare_tools(tools: Toolbox) -> tuple[str, ...]:
    """Return the tools that a short manual only names; none by the whole one."""
    whole = tools.session.policy.manual == "all"
    return () if whole else tuple(tool.name for tool in tools.manual() if tool.rare)


def schema_of(function: Callable[..., Any], doc: str, *, defaults: bool = True) -> Tool:
    """Return the schema of a function with this description; without `defaults`, small models fill in less."""
    hints = get_type_hints(function)
    parameters = inspect.signature(function).parameters.values()
    return {
        "type": "function",
        "name": function.__name__,
        "description": doc,
        "parameters": {
            "type": "object",
            "properties": {
                each.name: _property(hints.get(each.name, Any), each.default if defaults else None)
                for each in parameters
            },
            "required": [each.name for each in parameters if each.default is each.empty],
        },
    }


def _property(hint: Any, default: Any) -> dict[str, Any]:
    """Return the schema of a parameter: of several types the first, because small models fill in one."""
    first = next((each for each in _alternatives(hint) if each is not NoneType), Any)
    try:
        made = msgspec.json.schema(first)
    except TypeError:
        made = {}
    # A reference leads nowhere within a parameter.
    kept = {} if "$ref" in made else made
    return kept if default in (None, inspect.Parameter.empty) else {**kept, "default": default}


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
