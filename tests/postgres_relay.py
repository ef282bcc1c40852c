"""A relay before a server: it counts round trips, leads to another server, or breaks off behind a message."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

PORT = "5432"


class Relay:
    """A socket of a folder whose connections go on to that of a server. `trips` counts what a client asked for."""

    def __init__(self, server: Path, folder: Path) -> None:
        self.folder, self.server, self.trips = folder, server, 0
        self._broken: bytes | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def break_behind(self, words: bytes) -> None:
        """Break the next connection in which a client says so, when the server has answered."""
        self._broken = words

    @property
    def is_broken(self) -> bool:
        """Whether a connection was broken since `break_behind`."""
        return self._broken is None

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_unix_server(self._relay, str(self.folder / f".s.PGSQL.{PORT}")))
        self._ready.set()
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    async def _relay(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(str(self.server / f".s.PGSQL.{PORT}"))
        said = bytearray()  # since the server's last answer

        async def client() -> None:
            while data := await from_client.read(65536):
                self.trips += not said
                said.extend(data)
                to_server.write(data)

        async def server() -> None:
            while data := await from_server.read(65536):
                if self._broken is not None and self._broken in said:
                    self._broken = None
                    return
                said.clear()
                to_client.write(data)

        # Either end closes the other, also where a read fails: who waits there would wait for ever.
        ways = [asyncio.ensure_future(way()) for way in (client, server)]
        with suppress(asyncio.CancelledError):
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for writer in (to_server, to_client):
            writer.close()
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
