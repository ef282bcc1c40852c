"""Put the manual of the tools into docs/tools.md: their docstrings, and the real result of a call of each.

    python docs/make_tools.py

The calls run over the shipped ontology, in a bank with the shipped items; a test compares the output. Keys are random,
so they are shown as `key-1`, `key-2` and so on.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rbank_es.bank import Bank
from rbank_es.cli.tools import format_result
from rbank_es.data import lights
from rbank_es.events import RunStarted
from rbank_es.events.items import Item
from rbank_es.exchange import import_paths
from rbank_es.ontology.loader import load_ontology
from rbank_es.tools.shared.tool_family import ToolPolicy
from rbank_es.tools.shared.toolbox import Manual, Toolbox, build_tools

DOCUMENT = Path(__file__).resolve().parent / "tools.md"
BEGIN = "<!-- manual: made by docs/make_tools.py -->\n"
END = "<!-- end of manual -->\n"
KEY = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

FAMILIES = {
    "sparql": "The graph, by query: local or at an endpoint",
    "g": "The graph, by looking: local only",
    "ctx": "What stands behind a handle",
    "mem": "Memory",
    "event": "The log",
    "tools": "The manual itself",
}
QUERY = "SELECT ?name ?metres WHERE { ?l lt:name ?name ; lt:focalHeight ?metres } ORDER BY DESC(?metres) LIMIT 3"
ITEM = next(item for item in json.loads(lights().seed.read_text()) if item["title"].startswith("All lights"))
ITEM_ID = Item.make_id(ITEM["title"], ITEM["content"])
CALLS: dict[str, dict[str, Any]] = {
    "sparql_schema": {"output_mode": "classes", "limit": 2},
    "sparql_peek": {"resource": "lt:Wreck"},
    "sparql_query": {"query": QUERY},
    "sparql_slice": {"result": "results_0", "limit": 2},
    "g_stats": {},
    "g_classes": {"limit": 2},
    "g_props": {"cls": "lt:Watch", "limit": 2},
    "g_search": {"text": "cormorant", "k": 2},
    "g_describe": {"resource": "lt:focalHeight"},
    "g_sample": {"cls": "lt:CardinalBuoy"},
    "g_query": {"query": "ASK { ?hazard lt:markedBy ?mark }"},
    "ctx_stats": {"ref": "results_0"},
    "ctx_peek": {"ref": "results_0", "n": 40},
    "ctx_slice": {"ref": "results_0", "start": 60, "end": 120},
    "ctx_find": {"ref": "results_0", "pattern": "kitti", "k": 1},
    "mem_search": {"q": "lights in service in an area", "k": 2},
    "mem_get": {"ids": [ITEM_ID]},
    "mem_quote": {"id": ITEM_ID, "max_chars": 60, "about": "lights in service"},
    "mem_add": {"title": "Harbours are parts of districts", "content": "Ask with lt:partOf*.", "tags": ["areas"]},
    "mem_extract": {"result": "results_0", "task": "How high is each light?", "judgment": {"success": True}},
    "mem_learn_from_failure": {
        "result": "SELECT ?m WHERE { ?hazard lt:markedBy ?m }",
        "task": "What marks the Teeth?",
        "error": "no rows",
    },
    "event_log": {"obj": {"step": "schema", "found": 12}},
    "tools": {"name": "ctx_peek"},
}


def section() -> str:
    """Return the manual as Markdown, family by family."""
    with tempfile.TemporaryDirectory() as place, Bank.create(Path(place) / "bank") as bank:
        import_paths(bank, [lights().seed])
        bank.append(RunStarted(run="run-1", task="How high is each light?"))
        ontology, policy = load_ontology(lights().ontology), ToolPolicy(mode="both")
        with build_tools(bank, run="run-1", source=ontology, policy=policy) as box:
            box.call("sparql_schema")  # so that what is shown comes from the cache, as it mostly does
            return "\n".join(_lines(box))


def _lines(box: Toolbox) -> Iterator[str]:
    manual = {tool.name: tool for tool in box.manual()}
    keys: dict[str, str] = {}
    for family, title in FAMILIES.items():
        yield f"## {title}"
        yield ""
        for name in [name for name in manual if name.split("_")[0] == family]:
            yield from _tool(manual[name], box, keys)


def _tool(tool: Manual, box: Toolbox, keys: dict[str, str]) -> Iterator[str]:
    yield f"### {tool.name}"
    yield ""
    yield f"At most {tool.cap_chars:,} characters."
    yield ""
    yield from ("```text", tool.usage, *(f"    {line}".rstrip() for line in tool.doc.splitlines()), "```", "")
    arguments = CALLS[tool.name]
    result = format_result(box.call(tool.name, arguments))
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    masked = KEY.sub(lambda found: keys.setdefault(found[0], f"key-{len(keys) + 1}"), result)
    yield from ("```text", f"{tool.name}({given})", masked, "```", "")


def replaced(document: str) -> str:
    """Return the document with the current manual."""
    before, rest = document.split(BEGIN)
    return f"{before}{BEGIN}\n{section()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    DOCUMENT.write_text(replaced(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
