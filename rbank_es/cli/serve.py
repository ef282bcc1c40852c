"""`serve`: the pages of a bank in a browser of this machine, live."""

from __future__ import annotations

import os
import signal
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rbank_es.bank import Bank
from rbank_es.cli.shared.arguments import open_whole
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Progress, echo, echo_json, flush, warn
from rbank_es.errors import ProjectionUnavailable
from rbank_es.system.redacted_locator import shown_locator

if TYPE_CHECKING:
    from rbank_es.page.page_handler import PageHandler
    from rbank_es.page.page_server import PageServer
    from rbank_es.page.trace_receiver import TraceReceiver

# A port that is seldom in use; --port takes any other.
PORT = 8642


TOKEN = "RBANK_OTLP_TOKEN"


@command(
    "serve",
    "rbank-es serve notes --open",
    "rbank-es serve notes --port 0 --no-prompts",
    "rbank-es serve notes --otlp",
)
@click.argument("bank")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65535), default=PORT,
    help=f"The port of this machine; 0 is any free one. Default: {PORT}.",
)  # fmt: skip
@click.option("--otlp", is_flag=True, help="Take the traces of agents in, by OpenTelemetry's protocol over HTTP.")
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option("--no-prompts", is_flag=True, help="Leave out what models were sent and answered.")
@click.option("--no-path", is_flag=True, help="Name the bank in the page's commands as BANK, not by its whole path.")
def serve(bank: str, port: int, otlp: bool, opens: bool, no_prompts: bool, no_path: bool, as_json: bool) -> None:
    """Show a bank in the browser, live: its runs, its items, and any moment of its past, until Ctrl-C.

    Only this machine is answered, and only the browser that opened the printed address, which is a key: give it to
    nobody. Nothing can be changed from the page; it shows the commands that do.

    With --otlp, agents of this machine that are instrumented send their traces here, and each trace becomes a run: set
    the variables of their environment that are printed. The token is that of the variable RBANK_OTLP_TOKEN, else a
    new one. What was answered 200 to is on the disk; it is in the bank some seconds after its root came.
    """
    from rbank_es.page.page_handler import PageHandler
    from rbank_es.page.page_server import PageServer, listen

    with open_whole(bank) as opened:
        _bring_up(opened)
        listening = listen(port)
        # Typed in whatever folder: only a bank in a directory has a path.
        place = Path(opened.place)
        argument = str(place.absolute()) if place.is_dir() and not no_path else shown_locator(bank)
        # The port in use, because 0 asks for any.
        receiver = _receiver(opened) if otlp else None
        handler = PageHandler(
            opened, listening.getsockname()[1], prompts=not no_prompts, argument=argument, receiver=receiver
        )
        server = PageServer(handler, listening)
        with _stopped_by_signals(server):
            _announce(handler, opened, opens=opens, as_json=as_json)
            server.serve()
    if not as_json:
        echo("stopped")


def _receiver(bank: Bank) -> TraceReceiver:
    from rbank_es.page.trace_receiver import TraceReceiver

    return TraceReceiver(bank, os.environ.get(TOKEN, ""))


def _bring_up(bank: Bank) -> None:
    # Where the cache can't be written, each view is of a copy in memory: slower, and as right.
    with Progress("events") as progress, suppress(ProjectionUnavailable):
        bank.project(progress=progress)


def _announce(handler: PageHandler, bank: Bank, *, opens: bool, as_json: bool) -> None:
    receiver = handler.receiver
    variables = receiver.variables(handler.port) if receiver is not None else {}
    if as_json:
        facts = {"bank": bank.name, "position": bank.position, "port": handler.port, "address": handler.address}
        echo_json(facts | ({"variables": variables} if variables else {}))
    else:
        echo(f"{bank.name} at position {bank.position:,}, live; Ctrl-C stops it\n{handler.address}")
        for name, value in variables.items():
            echo(f"{name}={value}")
    flush()
    if opens and not webbrowser.open(handler.address_once()):
        warn("no browser could be started; open the address above in one")


@contextmanager
def _stopped_by_signals(server: PageServer) -> Iterator[None]:
    """Let SIGINT and SIGTERM stop a server, instead of breaking off whatever it does."""
    names = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(name, lambda *_: server.stop()) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
