"""`serve`: the pages of a bank in a browser of this machine, live."""

from __future__ import annotations

import signal
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rbank_es.bank import Bank
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_whole
from rbank_es.cli.shared.output import Progress, echo, echo_json, flush, warn
from rbank_es.errors import ProjectionUnavailable
from rbank_es.system.shown_locator import shown_locator

if TYPE_CHECKING:
    from rbank_es.page.page_handler import PageHandler
    from rbank_es.page.page_server import PageServer

# A port that is seldom in use; --port takes any other.
PORT = 8642


@command("serve", "rbank-es serve notes --open", "rbank-es serve notes --port 0 --no-prompts")
@click.argument("bank")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65535), default=PORT,
    help=f"The port of this machine; 0 is any free one. Default: {PORT}.",
)  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option("--no-prompts", is_flag=True, help="Leave out what models were sent and answered.")
@click.option("--no-path", is_flag=True, help="Name the bank in the page's commands as BANK, not by its whole path.")
def serve(bank: str, port: int, opens: bool, no_prompts: bool, no_path: bool, as_json: bool) -> None:
    """Show a bank in the browser, live: its runs, its items, and any moment of its past, until Ctrl-C.

    Only this machine is answered, and only the browser that opened the printed address, which is a key: give it to
    nobody. Nothing can be changed from the page; it shows the commands that do.
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
        handler = PageHandler(opened, listening.getsockname()[1], prompts=not no_prompts, argument=argument)
        server = PageServer(handler, listening)
        with _stopped_by_signals(server):
            _announce(handler, opened, opens=opens, as_json=as_json)
            server.serve()
    if not as_json:
        echo("stopped")


def _bring_up(bank: Bank) -> None:
    # Where the cache can't be written, each view is of a copy in memory: slower, and as right.
    with Progress("events") as progress, suppress(ProjectionUnavailable):
        bank.project(progress=progress)


def _announce(handler: PageHandler, bank: Bank, *, opens: bool, as_json: bool) -> None:
    if as_json:
        echo_json({"bank": bank.name, "position": bank.position, "port": handler.port, "address": handler.address})
    else:
        echo(f"{bank.name} at position {bank.position:,}, live; Ctrl-C stops it\n{handler.address}")
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
