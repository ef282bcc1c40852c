"""Runs the real command in a process of its own: captured, on a terminal, or left running."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli_server import AT_START, call

COMMAND = (sys.executable, "-m", "rbank_es")
ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "logs" / "sample"


def maker(name: str, folder: str = "docs") -> Any:
    """Return the script that makes a document, or a bank that comes with the project, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    making = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(making)
    return making


CACHE = ROOT / ".pytest_cache" / "rbank"
"""Where commands keep what they derive, unless a test says otherwise: not in the home of whoever runs the tests."""
TIMEOUT_S = 100
PATIENCE_S = 20


class Result(NamedTuple):
    """What a finished command left behind; on a terminal all output is in `out`."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Standard output as JSON Lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command: this process's, without what would change how output looks."""
    dropped = ("RBANK_HOME", "RBANK_DEBUG", "NO_COLOR", "COLUMNS", "LINES", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {"RBANK_CACHE": str(CACHE)} | kept | {"PYTHONPATH": str(ROOT)} | dict(extra or {})


def run(
    *arguments: str | Path | int,
    cwd: Path,
    stdin: str | bytes = b"",
    env: Mapping[str, str] | None = None,
    code: int | None = 0,
) -> Result:
    """Run a command to its end. `code` is what it must exit with; None: anything."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    words, around = [*map(str, arguments)], environment(env)
    if any(name.startswith(AT_START) for name in env or ()):
        done = subprocess.run(
            [*COMMAND, *words], cwd=cwd, input=given, env=around, capture_output=True, timeout=TIMEOUT_S
        )
        result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
    else:
        ended = call(words, cwd=cwd, stdin=given, env=around, timeout_s=TIMEOUT_S)
        result = Result(ended.code, ended.out.decode(), ended.err.decode())
    assert code is None or result.code == code, (arguments, result)
    assert "Traceback" not in result.err, result.err
    return result


def fails(*arguments: str | Path | int, cwd: Path, code: int = 2, stdin: str | bytes = b"") -> str:
    """Run a command that must fail with this exit code and one message; returns the message."""
    result = run(*arguments, cwd=cwd, stdin=stdin, code=code)
    assert result.err.startswith("rbank-es: ") and result.err.endswith("\n"), result.err
    return result.err.removeprefix("rbank-es: ").strip()


def digest_of(folder: Path) -> dict[str, str]:
    """Every file below a folder, by its bytes."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def shell(line: str, cwd: Path) -> Result:
    """Run a line of bash in which `rbank-es` is the command; the exit code is that of the command, also in a pipe."""
    script = f'rbank-es() {{ {shlex.join(COMMAND)} "$@"; }}\n{line}\nexit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", script], cwd=cwd, env=environment(), capture_output=True, timeout=TIMEOUT_S)
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def start(*arguments: str | Path | int, cwd: Path, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a command and leave it running; its output comes through pipes, and Ctrl-C reaches it."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=environment(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A test run that was started in the background ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )


def interrupt(process: subprocess.Popen[bytes]) -> Result:
    """Press Ctrl-C until it ends, and return what was printed since.

    Once is not always enough: a signal that comes just before a blocking read is only seen after it.
    """
    for _ in range(TIMEOUT_S // PATIENCE_S):
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            continue
        return Result(process.returncode, out.decode(), err.decode())
    raise AssertionError(f"Ctrl-C did not end {process.args}")


def read_until(process: subprocess.Popen[bytes], pattern: str) -> str:
    """Read the output of a running command until a pattern occurs in it."""
    assert process.stdout is not None
    seen, deadline = b"", time.monotonic() + TIMEOUT_S
    poller = select.poll()
    poller.register(process.stdout, select.POLLIN)
    while not re.search(pattern, seen.decode(errors="replace")):
        left = deadline - time.monotonic()
        assert left > 0 and poller.poll(left * 1000), (pattern, seen)
        piece = os.read(process.stdout.fileno(), 65536)
        assert piece, (pattern, seen, process.communicate())
        seen += piece
    return seen.decode()


def on_terminal(
    *arguments: str | Path | int, cwd: Path, columns: int = 100, typed: str = "", env: Mapping[str, str] | None = None
) -> Result:
    """Run a command on a terminal of that many columns; what is typed is typed at once."""
    main, other = pty.openpty()
    ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=environment({"TERM": "xterm"} | dict(env or {})),
        stdin=other,
        stdout=other,
        stderr=other,
    )
    os.close(other)
    if typed:
        os.write(main, typed.encode())
    output = b"".join(_pieces(main))
    os.close(main)
    return Result(process.wait(TIMEOUT_S), output.decode().replace("\r\n", "\n"), "")


def _pieces(descriptor: int) -> Sequence[bytes]:
    pieces = []
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # how a terminal says that nobody writes to it any more
            return pieces
        if not piece:
            return pieces
        pieces.append(piece)
