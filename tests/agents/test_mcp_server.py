"""The MCP server, by the protocol's own client: over standard input and output, and over HTTP on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from rbank_es import Bank
from rbank_es.agents.mcp_tools import TOOLS

QUESTION = "How are lamps counted?"
TOKEN = "a-token-of-this-test"  # noqa: S105
COMMAND = (sys.executable, "-m", "rbank_es", "mcp")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with Bank.create(tmp_path / "bank") as bank:
        bank.remember("Count lamps with DISTINCT", "Joins repeat rows of lamps: write COUNT(DISTINCT ?lamp).")
    return tmp_path / "bank"


def stdio(place: Path, *options: str) -> StdioServerParameters:
    return StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], str(place), *options])


class HttpServer:
    """A server over HTTP, and its address."""

    def __init__(self, place: Path) -> None:
        self.process = subprocess.Popen(  # noqa: S603
            [*COMMAND, str(place), "--http", "0"],
            env=os.environ | {"RBANK_MCP_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[2].rstrip(";")
        assert self.process.stdout.readline() == "Authorization: Bearer $RBANK_MCP_TOKEN\n"

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        assert self.process.stdout is not None
        self.process.stdout.read()
        return self.process.wait(60)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as http,
            Client(streamable_http_client(self.address, http_client=http), read_timeout_seconds=60) as client,
        ):
            yield client


@pytest.fixture
def served(place: Path) -> Iterator[HttpServer]:
    server = HttpServer(place)
    yield server
    server.process.kill()
    server.process.wait()


async def whole_life(client: Client) -> str:
    """Recall, report, read: what a host does. Returns the run."""
    assert {tool.name for tool in (await client.list_tools()).tools} == set(TOOLS)
    recalled = await client.call_tool("recall", {"question": QUESTION})
    given: Any = recalled.structured_content
    assert "COUNT(DISTINCT ?lamp)" in given["lessons"]
    refused = await client.call_tool("recall", {"question": 5})
    assert refused.is_error and "Expected `str`" in refused.content[0].text  # type: ignore[union-attr]
    reported = await client.call_tool("report", {"run": given["run"], "outcome": "success", "evidence": "tests"})
    assert not reported.is_error
    [text] = (await client.read_resource(f"rbank://run/{given['run']}")).contents
    assert '"verdict":"success"' in text.text  # type: ignore[union-attr]
    with pytest.raises(MCPError, match="no run"):
        await client.read_resource("rbank://run/zzz")
    with pytest.raises(MCPError, match="a resource is"):
        await client.read_resource("rbank://item/../../etc/passwd")
    [message] = (await client.get_prompt("use-the-bank")).messages
    assert "recall" in message.content.text  # type: ignore[union-attr]
    run: str = given["run"]
    return run


@pytest.mark.slow
def test_a_host_over_standard_input_and_output(place: Path) -> None:
    async def talk() -> str:
        async with Client(stdio(place), read_timeout_seconds=60) as client:
            return await whole_life(client)

    run = anyio.run(talk)
    with Bank.open(place) as bank:
        assert bank.run(run).run.verdict == "success"


@pytest.mark.slow
def test_eight_hosts_at_once_over_http(place: Path, served: HttpServer) -> None:
    runs: list[str] = []

    async def talk() -> None:
        async with served.client() as client:
            runs.append(await whole_life(client))

    async def all_of_them() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(talk)

    anyio.run(all_of_them)
    assert served.stop() == 0
    with Bank.open(place) as bank:
        assert {row.run: row.verdict for row in bank.runs().rows} == dict.fromkeys(runs, "success")
        assert len(set(runs)) == 8


@pytest.mark.slow
def test_nobody_without_the_token_is_let_in_and_no_page_of_another_origin(served: HttpServer) -> None:
    async def ask() -> list[int]:
        async with httpx2.AsyncClient(timeout=60) as http:
            right = {"Authorization": f"Bearer {TOKEN}"}
            tries: list[dict[str, str]] = [
                {}, {"Authorization": "Bearer wrong"}, right | {"Origin": "https://evil.example"},
                right | {"Host": "evil.example"},
            ]  # fmt: skip
            return [(await http.post(served.address, json={}, headers=each)).status_code for each in tries]

    assert anyio.run(ask) == [401, 401, 403, 421]
    assert served.stop() == 0


@pytest.mark.slow
def test_hostile_calls_are_refused_over_both_transports_and_the_server_goes_on(place: Path, served: HttpServer) -> None:
    hostile: list[tuple[str, dict[str, Any]]] = [
        ("recall", {"question": "x" * 10_000_000}),
        ("recall", {"question": ["x"], "zzz": {"y": None}}),
        ("report", {"run": "run-of-nobody", "outcome": "success"}),
        ("get", {"ids": ["../../etc/passwd"]}),
        ("search", {"query": "lamps", "at": "no such point"}),
        ("no_such_tool", {}),
    ]

    async def talk(client: Client) -> None:
        for name, arguments in hostile:
            try:
                assert (await client.call_tool(name, arguments)).is_error, name
            except MCPError:  # what the library itself refuses, such as a body over its bound
                assert len(str(arguments)) > 1_000_000 or name == "no_such_tool", name
        await whole_life(client)

    async def over_both() -> None:
        async with Client(stdio(place), read_timeout_seconds=60) as client:
            await talk(client)
        async with served.client() as client:
            await talk(client)

    anyio.run(over_both)
    assert served.stop() == 0


@pytest.mark.slow
def test_a_host_that_goes_away_in_mid_call_leaves_no_process_and_no_run_open(place: Path) -> None:
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
    recall = {"name": "recall", "arguments": {"question": QUESTION}}
    lines = [
        {"id": 1, "method": "initialize", "params": begin},
        {"method": "notifications/initialized"},
        *({"id": number, "method": "tools/call", "params": recall} for number in range(2, 8)),
    ]
    pipe = subprocess.PIPE
    server = subprocess.Popen([*COMMAND, str(place)], stdin=pipe, stdout=pipe, stderr=pipe, text=True)  # noqa: S603
    assert server.stdin and server.stdout and server.stderr
    for number, line in enumerate(lines):
        server.stdin.write(json.dumps({"jsonrpc": "2.0"} | line) + "\n")
        server.stdin.flush()
        if not number:
            server.stdout.readline()
    server.stdin.close()
    server.stdout.close()
    assert server.wait(30) in (0, 141) and server.stderr.read() == ""
    with Bank.open(place) as bank:
        with bank.record("the next one") as run:  # which ends what a process left
            run.finish()
        assert {row.outcome for row in bank.runs().rows} <= {"failed", "submitted"}


@pytest.mark.slow
def test_only_reading(place: Path) -> None:
    async def talk() -> list[str]:
        async with Client(stdio(place, "--read-only"), read_timeout_seconds=60) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert anyio.run(talk) == ["search", "get", "why"]
