"""The server of the Model Context Protocol over one bank, by the protocol's own library. Loads mcp.

Tools run on threads, because the bank blocks; a call that its host gives up ends there, and its thread soon after.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from socket import socket
from typing import Any, Literal

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from starlette.types import ASGIApp, Receive, Scope, Send

from rbank_es import __version__
from rbank_es.agents.mcp_tools import INSTRUCTIONS, BankTools, input_schema
from rbank_es.bank import Bank
from rbank_es.errors import RBankError
from rbank_es.limits import mcp_limits

HOST = "127.0.0.1"
PATH = "/mcp"

_URI = re.compile(r"rbank://(item|run)/([^/?#]+)")
_TEMPLATES = {"item": "A lesson with what it rests on.", "run": "A run with its verdicts and what it was given."}
_PROMPT = "use-the-bank"


@contextmanager
def served_tools(bank: Bank, *, read_only: bool) -> Iterator[BankTools]:
    """Give the tools of a bank, and end the open runs afterwards."""
    with suppress(ImportError):  # a search loads it once many were made: a host would wait 0.1 s for that one
        import numpy  # noqa: F401
    tools = BankTools(bank, writes=not read_only)
    try:
        yield tools
    finally:
        tools.close()


def make_server(bank: Bank, tools: BankTools) -> Server[Any]:
    """Return a server with tools, resources and a prompt; it is not running yet."""

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, description=tool.description, input_schema=input_schema(tool))
                for name, tool in tools.tools.items()
            ]
        )

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            answer = await _on_thread(partial(tools.call, params.name, params.arguments or {}))
        except (RBankError, OSError) as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        text = msgspec.json.encode(answer).decode()
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], structured_content=msgspec.json.decode(text)
        )

    async def list_templates(_: Any, __: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    name=kind, uri_template=f"rbank://{kind}/{{id}}", description=words, mime_type="application/json"
                )
                for kind, words in _TEMPLATES.items()
            ]
        )

    async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    async def read_resource(_: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        found = _URI.fullmatch(uri)
        if found is None:
            raise MCPError(code=types.INVALID_PARAMS, message="a resource is rbank://item/ID or rbank://run/ID")
        kind: Literal["item", "run"] = "item" if found[1] == "item" else "run"
        try:
            answer = await _on_thread(partial(tools.resource, kind, found[2]))
        except (RBankError, OSError) as error:
            raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from None
        text = msgspec.json.encode(answer).decode()
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, text=text, mime_type="application/json")]
        )

    async def list_prompts(_: Any, __: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name=_PROMPT, description="How to use this bank.")])

    async def get_prompt(_: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != _PROMPT:
            raise MCPError(code=types.INVALID_PARAMS, message=f"there is one prompt: {_PROMPT}")
        content = types.TextContent(type="text", text=INSTRUCTIONS)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    return Server(
        f"rbank-es {bank.name}",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


async def _on_thread(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


def serve_stdio(bank: Bank, *, read_only: bool) -> None:
    """Serve the process that started this one, over standard input and output, until it closes them."""

    async def serve(server: Server[Any]) -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    with served_tools(bank, read_only=read_only) as tools:
        anyio.run(serve, make_server(bank, tools))


def new_token() -> str:
    """Return a token that lets a host in over HTTP."""
    return secrets.token_urlsafe(mcp_limits.MCP_TOKEN_BYTES)


def serve_http(bank: Bank, listening: socket, token: str, *, read_only: bool) -> None:
    """Serve hosts of this machine that send `token` at a listening socket, until SIGINT or SIGTERM.

    The library refuses other hosts' names and origins of web pages.
    """
    with served_tools(bank, read_only=read_only) as tools:
        app = with_token(make_server(bank, tools).streamable_http_app(streamable_http_path=PATH, host=HOST), token)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=mcp_limits.MCP_STOP_S))
        anyio.run(server.serve, [listening])


def with_token(app: ASGIApp, token: str) -> ASGIApp:
    """Return an application that answers 401 to requests without the header `Authorization: Bearer TOKEN`."""
    expected = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "http" and not secrets.compare_digest(given, expected):
            headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"the token is missing or wrong"})
            return
        await app(scope, receive, send)

    return guarded
