"""What may be in the place of a file: links, pipes, folders, devices, sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path


def _socket(path: Path, victim: Path) -> None:
    # The name of a socket is at most 108 bytes long.
    with socket.socket(socket.AF_UNIX) as made, chdir(path.parent):
        made.bind(path.name)


KINDS: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda path, victim: path.symlink_to(victim / "file"),
    "link to nothing": lambda path, victim: path.symlink_to(victim / "none"),
    "link to a folder": lambda path, victim: path.symlink_to(victim),
    "link to a device": lambda path, victim: path.symlink_to("/dev/zero"),
    "pipe": lambda path, victim: os.mkfifo(path),
    "folder": lambda path, victim: path.mkdir(),
    "socket": _socket,
}


def put(path: Path, kind: str, victim: Path) -> None:
    """Put something other than a file at a path; links lead to a folder with a `file`."""
    path.unlink(missing_ok=True)
    KINDS[kind](path, victim)
