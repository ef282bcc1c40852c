"""Parts of an agent's prompt that give way, in a fixed order, where the model's context has no room for all of it.

The history gives way first, which its executor shortens. Then go the words of the manual of tools, then the layers of
the context: the guide (L3), constraints (L1), lessons (L2), and last the card of the ontology (L0).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from rbank_es.models.lm_request import LmRequest

LAYERS_GIVING_WAY = ("L3", "L1", "L2", "L0")
"""Layers in the order in which they give way."""

LEFT_OUT = "(left out: the model's context has no room for it)"


class PromptPart(NamedTuple):
    """A part of prompts: its name as recorded, its text as prompts hold it, and what takes its place."""

    name: str
    text: str
    short: str = LEFT_OUT


class GivingWay:
    """The parts of one run's prompts, and those that gave way. What gave way stays so: the context doesn't grow."""

    def __init__(self) -> None:
        self._left: list[PromptPart] = []
        self._gone: list[PromptPart] = []
        self._shown, self._with_tools = "", False
        self.of_history = False
        """Whether the history was shortened for want of room."""

    def offer(self, parts: Iterable[PromptPart]) -> None:
        """Set the parts that may give way, in order."""
        self._left = [part for part in parts if part.text.strip() and len(part.text) > len(part.short)]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what gave way, in order."""
        return (*(("history",) if self.of_history else ()), *(part.name for part in self._gone))

    def next(self) -> bool:
        """Let the next part of the last prompt give way; return False if it has none that may."""
        while self._left:
            part = self._left.pop(0)
            # Without it the same prompt would be sent again; a manual may stand in the tools of a request.
            if part.text in self._shown or (part.name == "manual" and self._with_tools):
                self._gone.append(part)
                return True
        return False

    def shortened(self, request: LmRequest) -> LmRequest:
        """Return a request without what gave way."""
        self._shown, self._with_tools = request.words, bool(request.tools)
        if not self._gone:
            return request
        messages = [
            msgspec.structs.replace(each, parts=[self._part(part) for part in each.parts]) for each in request.messages
        ]
        system = self._text(request.system) if isinstance(request.system, str) else request.system
        tools = (
            [_brief(tool) for tool in request.tools]
            if any(part.name == "manual" for part in self._gone)
            else request.tools
        )
        return msgspec.structs.replace(request, messages=messages, system=system, tools=tools)

    def _part(self, part: dict[str, Any]) -> dict[str, Any]:
        return {**part, "text": self._text(part["text"])} if isinstance(part.get("text"), str) else part

    def _text(self, text: str) -> str:
        for part in self._gone:
            text = text.replace(part.text, part.short)
        return text


def _brief(tool: Any) -> Any:
    """Return a tool of a request with the first sentence of its description."""
    told = tool.get("description") if isinstance(tool, dict) else None
    return {**tool, "description": told.split(". ", 1)[0]} if isinstance(told, str) else tool
