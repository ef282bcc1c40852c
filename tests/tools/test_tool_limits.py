"""What an agent gets at most of each tool, in figures of its documentation: twice or half of one is another tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rbank_es.tools.shared.tool_answers import encode, size
from rbank_es.tools.shared.tool_family import offered_tools
from rbank_es.tools.shared.toolbox import Toolbox
from tests.tools.library import TURTLE, LibraryTools, open_library
from tests.tools.memories import LONG, lamps, remember
from tests.tools.tool_sessions import bank_at, ticking

LAMPS = "".join(f"t:l{n} a lib:Map ; rdfs:label 'lamp' .\n" for n in range(120))
NUMBERS = f"SELECT ?n WHERE {{ VALUES ?n {{ {'1 ' * 300} }} }}"


class Tools(NamedTuple):
    """The tools of one run, over 120 lamps of a graph and 50 of a bank."""

    box: Toolbox
    text: str
    blanks: str

    def __call__(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of a call."""
        answer = self.box.call(name, arguments)
        assert answer["ok"], answer
        return answer

    def page(self, rows: int = 300, **asked: int) -> dict[str, Any]:
        """Return a page of a result."""
        result = self("sparql_query", query=NUMBERS, limit=rows, store_pattern=False)
        return self("sparql_slice", result=result["alias"], **asked)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    place: Path = tmp_path_factory.mktemp("limits")
    source = open_library(place, TURTLE + LAMPS)
    with bank_at(place / "bank") as bank:
        remember(bank, *lamps(50, LONG))
        session = LibraryTools(bank, source).session
        raw, caps = offered_tools(session)
        text, blanks = (session.store.put(content, "text").key for content in (LONG * 4, " " * 100))
        yield Tools(Toolbox(session, raw, caps, ticking()), text, blanks)
    source.close()


def _found(tools: Tools, **asked: int) -> int:
    body = tools("mem_search", q="count lamps", **asked)
    return len(body["hits"]) + int(body.get("more", 0))


def _read(tools: Tools, n: int) -> dict[str, Any]:
    return tools.box.call("mem_get", {"ids": [each.id for each in lamps(n, LONG)]})


def _variables(tools: Tools) -> int:
    names = " ".join(f"?variable{n:02}" for n in range(40))
    body = tools("sparql_query", query=f"SELECT {names} WHERE {{ ?variable01 a lib:Map }}", store_pattern=False)
    assert body["variables_total"] == 40
    return size(body["variables"])


def _hits(tools: Tools) -> int:
    body = tools("ctx_find", ref=tools.blanks, pattern=r"\s")
    assert body["has_more"]
    return len(body["hits"])


def _depth(value: Any) -> int:
    return 1 + _depth(value[0]) if isinstance(value, list) else 0


def _nested(levels: int) -> Any:
    return [_nested(levels - 1)] if levels else 0


LARGEST = 10**9
LIMITS: dict[str, tuple[Callable[[Tools], int], int, int]] = {
    "mem_search, k": (lambda tools: _found(tools, k=LARGEST), 20, 20),
    "mem_search, k left out": (_found, 6, 6),
    "mem_get, ids": (lambda tools: max(n for n in range(1, 9) if _read(tools, n)["ok"]), 3, 3),
    "mem_get, characters": (
        lambda tools: size(_read(tools, 3)), 4_000, 4_500,
    ),
    "mem_quote, characters": (
        lambda tools: size(tools("mem_quote", id=lamps(1, LONG)[0].id, max_chars=LARGEST)), 900, 1_000,
    ),
    "mem_quote, max_chars left out": (
        lambda tools: len(tools("mem_quote", id=lamps(1, LONG)[0].id)["quote"]), 450, 500,
    ),
    "ctx_peek, characters": (lambda tools: size(tools("ctx_peek", ref=tools.text, n=LARGEST)), 800, 1_000),
    "ctx_slice, characters": (
        lambda tools: size(tools("ctx_slice", ref=tools.text, start=0, end=LARGEST)), 3_800, 4_000,
    ),
    "ctx_find, k left out": (_hits, 20, 20),
    "g_search, k left out": (lambda tools: len(tools("g_search", text="lamp")["hits"]), 10, 10),
    "g_sample, n left out": (lambda tools: len(tools("g_sample", cls="lib:Map")["instances"]), 5, 5),
    "g_sample, n": (lambda tools: len(tools("g_sample", cls="lib:Map", n=LARGEST)["instances"]), 11, 20),
    "sparql_peek, limit left out": (
        lambda tools: len(tools("sparql_peek", resource="lib:Map")["instances"]), 5, 5,
    ),
    "sparql_peek, limit": (
        lambda tools: len(tools("sparql_peek", resource="lib:Map", limit=LARGEST)["instances"]), 11, 20,
    ),
    "sparql_slice, limit": (lambda tools: tools.page(limit=LARGEST)["returned"], 100, 100),
    "sparql_slice, limit left out": (lambda tools: tools.page()["returned"], 50, 50),
    "sparql_query, limit left out": (lambda tools: tools("sparql_query", query=NUMBERS)["rows"], 100, 100),
    "sparql_query, characters of variables": (_variables, 120, 160),
    "any tool, levels of a result": (lambda tools: _depth(encode({"value": _nested(40)}, LARGEST)["value"]), 15, 15),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_a_tool_gives_as_much_as_is_documented(tools: Tools, name: str) -> None:
    """Neither more nor, of what is there, clearly less."""
    measured, least, most = LIMITS[name]
    assert least <= measured(tools) <= most
