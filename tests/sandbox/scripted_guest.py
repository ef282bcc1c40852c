"""A guest without a process, over real pipes: what it writes is given, so that a thousand steps take a second.

It gets ready, takes in its tools, and then writes the next part of its script each time the host has written a line:
the request of a step, or the answer to a call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es.sandbox import session
from rbank_es.sandbox.deno import Deno
from rbank_es.sandbox.process import Channel, Pipes
from rbank_es.sandbox.session import SandboxSettings, Session

TOKEN = "@REQUEST@"
"""Stands for the id of the step's request in what a guest writes: its code can't know it, and must not need to."""

CLOSE = b"@CLOSE@"
"""At the end of a part: the guest closes its output after it."""

NOBODY = 2**22 + 1
"""A process id that no process has."""

MOST_BYTES = 60_000
"""A pipe takes so much at once, when nobody reads."""


class ScriptedProcess:
    """Stands in for `SandboxProcess`. All of a test share one script, which each goes on with."""

    script: Iterator[bytes] = iter(())
    made: list[ScriptedProcess]

    def __init__(self, runtime: Deno, *, offline: bool) -> None:
        ends = [os.pipe() for _ in range(4)]
        self._open = {descriptor for pair in ends for descriptor in pair}
        (self._requests, ours_in), (ours_out, self._output), (ours_err, _), (life, _) = ends
        self.pipes = Pipes(ours_in, ours_out, ours_err, life)
        os.set_blocking(self._requests, False)
        self._request_id = ""
        self.made.append(self)

    @property
    def alive(self) -> bool:
        return bool(self._open)

    def status(self) -> int | None:
        return -9

    def receive_pid(self, timeout_s: float) -> int:
        return NOBODY

    def end(self) -> None:
        while self._open:
            os.close(self._open.pop())

    stop = end

    def react(self) -> None:
        """Write what comes next, because the host has written a line."""
        said = json.loads(os.read(self._requests, 2**20))
        if "params" in said:
            self._request_id = said["id"]
            part = self._of_ours(said["params"]["code"])
        else:
            part = next(self.script, CLOSE)
        self._write(part.replace(TOKEN.encode(), self._request_id.encode()))

    def _of_ours(self, said: str) -> bytes:
        if said.endswith("'ready'"):
            return line(reply_frame("ready"))
        return line(reply_frame("registered")) if "workspace.register(" in said else next(self.script, CLOSE)

    def _write(self, part: bytes) -> None:
        data = part.removesuffix(CLOSE)
        assert len(data) <= MOST_BYTES
        os.write(self._output, data)
        if data != part:
            self._open.remove(self._output)
            os.close(self._output)


class _Reacting(Channel):
    def __init__(self, pipes: Pipes, fatal_mark: bytes) -> None:
        super().__init__(pipes, fatal_mark)
        self._guest = ScriptedProcess.made[-1]

    def send(self, line: bytes, deadline: float) -> None:
        super().send(line, deadline)
        self._guest.react()


class _NoDeno(Deno):
    def prepare(self) -> None:
        """There is nothing to prepare."""


def stand_in(patch: pytest.MonkeyPatch) -> None:
    """Let sessions have scripted guests from now on."""
    ScriptedProcess.made = []
    patch.setattr(session, "SandboxProcess", ScriptedProcess)
    patch.setattr(session, "Channel", _Reacting)


def take_session(settings: SandboxSettings) -> Session:
    """A session with a scripted guest."""
    return Session(_NoDeno(Path(), Path(), Path()))


def line(frame: Any) -> bytes:
    """A frame as the runner writes it."""
    return json.dumps(frame).encode() + b"\n"


def call_frame(number: int, tool: str = "note", packed: str = "{}", **changes: Any) -> dict[str, Any]:
    """A call of a tool, the `number`-th of its session."""
    params = {"name": tool, "kwargs": {"packed": packed}}
    return {"jsonrpc": "2.0", "id": f"tc_1_{number}", "method": "tool_call", "params": params} | changes


def reply_frame(value: Any, **changes: Any) -> dict[str, Any]:
    """The reply to the step's request."""
    return {"jsonrpc": "2.0", "id": TOKEN, "result": {"output": value}} | changes


def outcome(**facts: Any) -> str:
    """What the guest tells of a step."""
    return json.dumps({"kind": "output", "calls": 0} | facts)


def final(text: str, **facts: Any) -> bytes:
    """A reply that hands in a submission."""
    return line(reply_frame(outcome(kind="final", final=text, **facts)))
