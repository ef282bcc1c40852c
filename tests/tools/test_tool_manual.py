"""The manual of tools: what prompts hold of it, and the tool that returns the rest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rbank_es.bank import Bank
from rbank_es.bank.memory_graph import MemoryGraph
from rbank_es.errors import BadInput
from rbank_es.events import ToolCalled
from rbank_es.limits import tool_limits
from rbank_es.sparql.data_source import Source
from rbank_es.tools.manual_tools import FAMILY
from rbank_es.tools.shared.tool_answers import size
from rbank_es.tools.shared.tool_family import Reply, ToolPolicy
from rbank_es.tools.shared.toolbox import Toolbox, build_tools
from tests.tools.tool_sessions import session_for


@pytest.fixture
def box(bank: Bank, source: Source) -> Iterator[Toolbox]:
    """Every tool of the project."""
    with MemoryGraph(bank, bank.position) as graph:
        yield build_tools(bank, run="r", source=source, memory_graph=graph, policy=ToolPolicy(mode="both"))


def test_the_whole_manual_of_every_tool_is_one_small_answer(box: Toolbox) -> None:
    """Without a handle, so that one call is enough; arguments, result and example are in it."""
    names = box.functions["tools"]()["names"]
    assert names == list(box.functions) and len(names) > 20
    for tool in box.manual():
        answer = box.functions["tools"](tool.name)
        assert answer == {"ok": True, "usage": tool.usage, "manual": " ".join(tool.doc.split())}
        assert size(answer) <= tool_limits.TOOL_RETURN_CHARS
        assert all(part in answer["manual"] for part in ("Args: ", "Returns: ", "Example: "))


def test_looking_into_the_manual_is_recorded_as_any_call(bank: Bank, box: Toolbox) -> None:
    box.call("tools", {"name": "g_props"})
    [call] = [event for event in bank.events(types={"tool_called"}) if isinstance(event, ToolCalled)]
    assert (call.tool, call.arguments, call.alias) == ("tools", '{"name":"g_props"}', None)


def test_a_name_that_no_tool_has_is_an_error_that_names_the_nearest(box: Toolbox) -> None:
    error = box.call("tools", {"name": "sparql_peak"})["error"]
    assert (error["code"], error["hint"]) == ("unknown_tool", "tools() names all")
    assert "did you mean 'sparql_peek'?" in error["message"]


def test_a_manual_that_does_not_fit_is_behind_a_handle(bank: Bank) -> None:
    def tide() -> Reply:
        return Reply({})

    tide.__doc__ = f"Tell the tide. {'More. ' * 400}"
    session = session_for(bank)
    box = Toolbox(session, {"tide": tide, **dict(FAMILY.build(session))})
    answer = box.call("tools", {"name": "tide"})
    assert answer["truncated"] and size(answer) <= tool_limits.TOOL_RETURN_CHARS
    assert session.store.get(answer) == tide.__doc__.strip()


def test_the_whole_manual_has_all_of_every_tool_and_needs_no_tool_for_it(bank: Bank, source: Source) -> None:
    box = build_tools(bank, run="r", source=source, policy=ToolPolicy(mode="both", manual="all"))
    assert "tools" not in box.functions
    expected = [f"- `{tool.usage}` - {' '.join(tool.doc.split())}" for tool in box.manual()]
    assert box.manual_text().splitlines() == expected


def test_a_manual_of_another_kind_is_refused() -> None:
    with pytest.raises(BadInput, match="short, all"):
        ToolPolicy(manual="long")  # type: ignore[arg-type]
