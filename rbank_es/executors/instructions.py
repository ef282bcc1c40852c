"""The instructions for an agent's steps, the same in every prompt of a run: what a step is, the tools, how to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbank_es.tools.shared.toolbox import Toolbox

_CODE = (
    "You work in steps: in each you write Python code, and see what it prints and the value of its last expression. "
    "Variables last; `context` and `question` are two. {execution}\n"
    "Look at data before you process it, a little at a time. If a result looks wrong (zero, empty, unexpected), look "
    "again. Don't retype long values: use variables. SUBMIT only after you have seen your results.{shown}"
)
_CALLS = (
    "You work in steps: in each you call one tool, and see what it answers. There is no Python here: where "
    "instructions or examples speak of code or variables, call the tools one by one. `next_tool_name` is the name "
    "alone; `next_tool_args` is a JSON object of its arguments by name, `{}` for none."
)
_TOOLS = (
    "Tools{kind}; use them for all data:\n"
    "{manual}\n"
    "- `llm_query(prompt)`, `llm_query_batched(prompts)` - Ask a sub-model what takes reading; {subcalls} prompts in "
    "all.\n"
    "- `SUBMIT(answer, sparql, evidence)` - Hand in the result, and end."
)

FRAME = (_CODE, _CALLS, _TOOLS)
"""The texts of instructions, with places for what differs."""


def code_instructions(tools: Toolbox, subcalls: int, execution: str, shown: str = "") -> str:
    """Return the instructions for steps of code. `execution` describes the interpreter; `shown`, the history."""
    step = _CODE.format(execution=execution, shown=shown)
    return f"{step}\n{_tools(tools, subcalls, ' (functions, ready to be called)')}"


def call_instructions(tools: Toolbox, subcalls: int) -> str:
    """Return the instructions for steps of a tool call each."""
    return f"{_CALLS}\n{_tools(tools, subcalls)}"


def _tools(tools: Toolbox, subcalls: int, kind: str = "") -> str:
    return _TOOLS.format(kind=kind, manual=tools.manual_text(), subcalls=subcalls)
