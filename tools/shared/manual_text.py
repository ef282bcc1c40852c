"""The manual of a run's tools as prompts hold it: a line for each tool, in the order of the toolbox.

A short manual has a line for each common tool, without the explanation of arguments and results, and names the others:
the tool `tools` returns the rest. It is 40 % of the whole, which prompts of every step would repeat.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rbank_es.events.run_events import ToolManual
from rbank_es.tools.shared.tool_family import Manual

_EXPLAINED = re.compile(r" (?:Args|Returns): .*?(?= Example: |$)")


def manual_text(manual: Iterable[Manual], kind: ToolManual) -> str:
    """Return the manual of tools, a line each; a short one names those that are rare in its last line."""
    manual = tuple(manual)
    if kind == "all":
        return "\n".join(_line(tool, one_line(tool)) for tool in manual)
    lines = [_line(tool, _EXPLAINED.sub("", one_line(tool))) for tool in manual if not tool.rare]
    rare = ", ".join(tool.name for tool in manual if tool.rare)
    return "\n".join([*lines, *([f"Also there: {rare}."] if rare else [])])


def one_line(tool: Manual) -> str:
    """Return the whole manual of a tool as one line, without its usage."""
    return " ".join(tool.doc.split())


def _line(tool: Manual, words: str) -> str:
    return f"- `{tool.usage}` - {words}"
