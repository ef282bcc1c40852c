"""The manual family: one tool, which returns what a short manual leaves out."""

from __future__ import annotations

from typing import Any

from rbank_es.limits import tool_limits
from rbank_es.system.nearest_name import hint
from rbank_es.tools.shared.manual_text import one_line
from rbank_es.tools.shared.tool_answers import HANDLE, OK_CHARS, size
from rbank_es.tools.shared.tool_family import Reply, SessionTools, ToolError, ToolFamily


class ManualTools(SessionTools):
    """The tool over the manual of the run's tools."""

    def tools(self, name: str = "") -> Reply:
        """The manual of a tool, with arguments and result; without a name, the names of all tools.

        Args: name: a tool, such as 'sparql_peek'.
        Returns: usage, manual; without a name, names. A manual that doesn't fit is also behind the handle.
        Example: print(tools('sparql_peek')['manual'])
        """
        manual = {tool.name: tool for tool in self._session.manual}
        if not name:
            return Reply({"names": [*manual]})
        tool = manual.get(name)
        if tool is None:
            raise ToolError("unknown_tool", f"no tool is called {name!r}{hint(name, manual)}", "tools() names all")
        words = one_line(tool)
        body: dict[str, Any] = {"usage": tool.usage, "manual": words}
        if size(body) + OK_CHARS <= tool_limits.TOOL_RETURN_CHARS or self._session.naive:
            return Reply(body)
        body["next"] = f"ctx_slice(ref={HANDLE}, start=0, end={len(words)}) reads all"
        return Reply(body, words, "text", truncated=True)


FAMILY = ToolFamily(ManualTools, lambda session, tool: session.policy.manual == "short")
