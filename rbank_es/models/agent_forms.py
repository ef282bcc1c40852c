"""An agent's reply in another form than the one that was asked for, where a person would read it all the same.

A reply without the headers of the prompt may be an object, labelled lines, one call, or one block of code. It is read
only if all that it has to say is there once: two that differ, half an object, a place of the form and a quotation are
nothing.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping, Set
from itertools import zip_longest
from typing import Any

from rbank_es.limits import reply_limits
from rbank_es.models.replies import ReplyReading
from rbank_es.models.reply_syntax import FENCE, TWICE, Span, label, merged

_SYNONYMS = {
    "next_thought": ("next_thought", "thought", "reasoning"),
    "next_tool_name": ("next_tool_name", "tool_name", "tool", "action", "function", "name"),
    "next_tool_args": ("next_tool_args", "tool_args", "args", "arguments", "action_input", "parameters", "input"),
    "reasoning": ("reasoning", "thought"),
    "code": ("code",),
    "answer": ("answer", "final_answer"),
    "sparql": ("sparql", "sparql_query", "query"),
    "evidence": ("evidence",),
}
"""Names under which models write each field; the first is the one that was asked for."""

THOUGHTS = frozenset({"next_thought", "reasoning"})
"""Fields that say why; a reply is one without them."""

_NEEDED = ({"next_tool_name", "next_tool_args"}, {"code"}, {"answer"})
"""The fields of which a reply has to have all, by what was asked for: a call, code, an answer."""

_ENDS = ("observation", "output", "result", "tool_output", "completed")
"""Labels behind which a model plays the part of its tools."""

_PLACE = re.compile(r"\s*(?:[<{]\s*[\w ]+\s*[>}]|\.{3}|…)?\s*")


def is_placeholder(text: str) -> bool:
    """Return whether a field repeats the prompt's place for it, or says nothing."""
    return _PLACE.fullmatch(text) is not None


def fields_in(text: str, outputs: Collection[str]) -> dict[str, str]:
    """Return the fields that a reply without headers has, as texts; empty where it is not certain."""
    needed = next((each for each in _NEEDED if each <= set(outputs)), None)
    if needed is None:
        return {}
    for look in (_of_objects, _of_lines, _alone):
        found = look(text, outputs, needed)
        if found and not any(is_placeholder(found[name]) for name in needed):
            return found
    return {}


# ---------------------------------------------------------------- objects


def _of_objects(text: str, outputs: Collection[str], needed: Set[str]) -> dict[str, str]:
    read = ReplyReading(text, outputs)
    if read.half:
        return {}
    own = [each for each in read.values if isinstance(each.parsed, dict) and read.standing(each.span) == "own"]
    found = [made for each in own if (made := _of_object(_named_alike(each.parsed, each.text), outputs, needed))]
    return found[0] if found and all(each == found[0] for each in found) else {}


def _named_alike(value: Mapping[Any, Any], text: str) -> dict[str, Any]:
    """Return an object with lower-case names: the one call inside of it, or itself. `text` is how it is written."""
    names = {str(name).strip().casefold().replace(" ", "_"): each for name, each in value.items()}
    calls = names.get("tool_calls")
    inner = calls[0] if isinstance(calls, list) and len(calls) == 1 else names.get("function")
    if isinstance(inner, dict):
        return _named_alike(inner, text)
    submits = text.lstrip()[:6].upper() == "SUBMIT"
    return {"next_tool_name": "SUBMIT", "next_tool_args": names, **names} if submits else names


def _of_object(names: Mapping[str, Any], outputs: Collection[str], needed: Set[str]) -> dict[str, str]:
    found = dict[str, str]()
    for field in outputs:
        value = next((names[name] for name in _SYNONYMS.get(field, (field,)) if name in names), None)
        inner = value if isinstance(value, dict) else {}
        if any(each is TWICE for each in (value, *inner.values())) or {"properties", "$ref"} & inner.keys():
            return {}
        if value is not None:
            found[field] = _text_of(value)
    return found if needed <= found.keys() else {}


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


# ---------------------------------------------------------------- labelled lines


def _labels(text: str, outputs: Collection[str]) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the fields whose name begins a line as a label, each with its match; `completed` for one that ends all."""
    fields = {name: field for field in reversed(list(outputs)) for name in _SYNONYMS.get(field, (field,))}
    blocks = _blocks(text)
    for mark in label((*fields, *_ENDS)).finditer(text):
        if any(each.start < mark.start() < each.end for each in blocks):
            continue
        name = mark["name"].casefold().replace(" ", "_")
        set_apart = mark["open"].strip(" \t-(") and mark["close"].strip(" \t`")
        if mark["colon"] or not mark["rest"] or set_apart:
            yield fields.get(name, "completed"), mark


def _of_lines(text: str, outputs: Collection[str], needed: Set[str]) -> dict[str, str]:
    found = dict[str, str]()
    marks = list(_labels(text, outputs))
    for (field, mark), following in zip_longest(marks, marks[1:]):
        if field == "completed" or field in found:
            break
        end = following[1].start() if following is not None else len(text)
        found[field] = re.sub(r"</[\w ]+>\s*\Z", "", text[mark.start("rest") : end].strip()).strip()
    answers = [field for field, _ in marks if field == "answer"]
    if not needed <= found.keys() or len(answers) > 1:
        return {}
    name = found.get("next_tool_name", "").strip("`'\"* ")
    if name and not re.fullmatch(r"\w+(?:\s*\(.*\))?", name, re.DOTALL):
        return {}
    # A word behind "code:" is a number or a name more often than a program.
    return {} if "code" in found and "reasoning" not in found and "```" not in found["code"] else found


def _blocks(text: str) -> list[Span]:
    """Return the spans of fenced blocks, to the end if they aren't closed."""
    marks = [mark.span() for mark in FENCE.finditer(text)]
    ends = [*(end for _, end in marks[1::2]), len(text)]
    return merged([Span(start, end) for (start, _), end in zip(marks[::2], ends, strict=False)])


# ---------------------------------------------------------------- one call, one block of code


def _alone(text: str, outputs: Collection[str], needed: Set[str]) -> dict[str, str]:
    before, block = _only_block(text)
    tree = _parsed(block)
    if tree is None:
        return {}
    if "code" in outputs:
        calls = any(isinstance(node, ast.Call) for node in ast.walk(tree))
        return {"reasoning": before, "code": f"```python\n{block}\n```"} if calls else {}
    call = tree.body[0].value if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not _has_values(call):
        return {}
    if "next_tool_name" in outputs:
        return {"next_thought": before, "next_tool_name": block.strip(), "next_tool_args": "{}"}
    if call.func.id.upper() != "SUBMIT" or len(call.args) > 1:
        return {}
    given = [("answer", each) for each in call.args] + [(str(each.arg), each.value) for each in call.keywords]
    values = {name: ast.literal_eval(value) for name, value in given if name in outputs}
    return {name: _text_of(value) for name, value in values.items()} if needed <= values.keys() else {}


def _only_block(text: str) -> tuple[str, str]:
    """Return the words before the only fenced block of Python, and its text; of a text without one, itself."""
    marks = list(FENCE.finditer(text))
    if not marks:
        return "", text
    if len(marks) != 2 or marks[0][2].casefold() not in ("python", "py", "python3", ""):
        return "", ""
    return text[: marks[0].start()].strip(), text[marks[0].end() : marks[1].start()].strip("\n")


def _parsed(block: str) -> ast.Module | None:
    if len(block) > reply_limits.REPLY_PROGRAM_CHARS:
        return None
    try:
        return ast.parse(block.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _has_values(call: ast.Call) -> bool:
    """Return whether all arguments of a call are values: a line of the manual has names in their place."""
    try:
        for each in [*call.args, *(named.value for named in call.keywords if named.arg)]:
            ast.literal_eval(each)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return False
    return all(named.arg for named in call.keywords)
