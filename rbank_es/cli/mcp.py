"""`mcp`: a bank for hosts that speak the Model Context Protocol."""

from __future__ import annotations

import os
import signal

import click

from rbank_es.cli.shared.arguments import open_whole
from rbank_es.cli.shared.command_registry import Command, debug_option
from rbank_es.cli.shared.output import echo, flush

TOKEN = "RBANK_MCP_TOKEN"


@click.command("mcp", cls=Command, examples=("rbank-es mcp notes", "rbank-es mcp notes --read-only --http 8643"))
@click.argument("bank")
@click.option("--read-only", is_flag=True, help="Only the tools that read: search, get and why.")
@click.option(
    "--http", "port", metavar="PORT", type=click.IntRange(0, 65535),
    help="Serve hosts of this machine over HTTP at this port (0: any free one), not the process that starts this one.",
)  # fmt: skip
def mcp(bank: str, read_only: bool, port: int | None) -> None:
    """Serve a bank to a host of agents: recall before a task, report afterwards, reasons at any time.

    Without --http the host starts this command, and speaks over its standard input and output. Over HTTP a host must
    send a token: that of the environment variable RBANK_MCP_TOKEN, else a new one, printed at the start.
    """
    from rbank_es.agents import mcp_server

    with open_whole(bank) as opened:
        if port is None:
            mcp_server.serve_stdio(opened, read_only=read_only)
            return
        from rbank_es.page.page_server import listen

        given = os.environ.get(TOKEN)
        token = given or mcp_server.new_token()
        with listen(port, "--http") as listening:
            address = f"http://{mcp_server.HOST}:{listening.getsockname()[1]}{mcp_server.PATH}"
            echo(f"{opened.name} at {address}; Ctrl-C stops it")
            echo(f"Authorization: Bearer {f'${TOKEN}' if given else token}")
            flush()
            # The library raises the signal again when it has stopped, and stopping was the wish.
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, lambda *_: None)
            mcp_server.serve_http(opened, listening, token, read_only=read_only)
    echo("stopped")


mcp.params.append(debug_option())
