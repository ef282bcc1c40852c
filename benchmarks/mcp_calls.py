"""The cost of a recall over the Model Context Protocol, beside a tool of the same library that echoes its argument.

Both servers are processes that the library's own client starts and speaks with over standard input and output. A recall
begins a run of its own, so what it records is on disk before its answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import anyio
from mcp import Client, StdioServerParameters

from benchmarks.corpus import SEED, Corpus, make_item_bank
from benchmarks.measure import Goal, Row, Samples, duration, interval
from benchmarks.sizes import Sizes

ITEMS = 10_000
GOAL_MS = 20
STARTS = 5
_ECHO = """
from mcp.server import MCPServer
server = MCPServer("echo")
@server.tool()
def recall(question: str) -> dict[str, str]:
    return {"lessons": question}
server.run()
"""


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield a row of calls, and one of the servers' starts."""
    with make_item_bank(place / "bank", ITEMS) as bank:
        bank.project()
    servers = {
        "ours": StdioServerParameters(command=sys.executable, args=["-m", "rbank_es", "mcp", str(place / "bank")]),
        "echo": StdioServerParameters(command=sys.executable, args=["-c", _ECHO]),
    }
    calls, starts = anyio.run(_measured, servers, Corpus(SEED + 1).queries(sizes.queries))
    over = interval(calls.differences("ours", "echo"))
    yield Row(
        "MCP",
        f"`recall` of {ITEMS:,} items, which begins a run; {sizes.queries} questions",
        f"{duration(calls.median('ours'))} a call",
        f"an echo {duration(calls.median('echo'))}",
        goal=Goal("≤", GOAL_MS, "ms over the echo"),
        value=over.median * 1e3,
    )
    took = {name: duration(starts.median(name)) for name in servers}
    yield Row("MCP", "  a server, from its start to its list of tools", took["ours"], f"an echo {took['echo']}")


async def _measured(servers: dict[str, StdioServerParameters], questions: Sequence[str]) -> tuple[Samples, Samples]:
    """Return the seconds of each call by each server, in turn, and those of their starts."""
    calls, starts = ({name: list[float]() for name in servers} for _ in range(2))
    for _ in range(STARTS):
        for name, server in servers.items():
            begin = perf_counter()
            async with Client(server) as client:
                await client.list_tools()
                starts[name].append(perf_counter() - begin)
    async with Client(servers["ours"]) as ours, Client(servers["echo"]) as echo:
        clients = {"ours": ours, "echo": echo}
        # The first opens what a server holds open: connections, statements, the read models.
        for question in (questions[0], *questions):
            for name, client in clients.items():
                begin = perf_counter()
                answer = await client.call_tool("recall", {"question": question})
                calls[name].append(perf_counter() - begin)
                assert not answer.is_error, answer
    return Samples({name: each[1:] for name, each in calls.items()}), Samples(starts)
