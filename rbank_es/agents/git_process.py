"""The history of a repository, as git tells it: a child process with bounded time and output, which only reads.

A repository can be a stranger's: its configuration names programs to run, and its remotes would be asked for what is
missing. Those are switched off; hooks are run by no command here.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from pathlib import Path

from rbank_es.agents.git_history import Commit, CommitHistory, Move
from rbank_es.errors import BadInput, LimitExceeded
from rbank_es.limits import git_limits

_OFF = ("core.fsmonitor=false", "log.showSignature=false", "log.mailmap=false", "core.hooksPath=/dev/null")
_QUIET = tuple(word for setting in _OFF for word in ("-c", setting))
_ENVIRONMENT = {
    # For releases of git that don't know of GIT_NO_LAZY_FETCH.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_FIELDS = ("%H", "%P", "%T", "%ae", "%at")
_FORMAT = "--format=" + "%n".join((*_FIELDS, "%B"))


def read_history(repository: str | Path) -> CommitHistory:
    """Return the history of a repository, bare ones and clones that are cut off included.

    Raises `BadInput` if it is none, or git is missing or too slow; `LimitExceeded` for one that is too large.
    """
    place = Path(repository)
    if not place.is_dir():
        raise BadInput(f"{place} is no folder, so no repository; name the folder of one")
    shallow = _git(place, "rev-parse", "--is-shallow-repository").strip() == "true"
    head = _git(place, "rev-parse", "--verify", "--quiet", "HEAD", fails=True).strip() or None
    refs = ("--branches", "--tags", "--remotes")
    where = (*refs, "--reflog", *(["HEAD"] if head else []))
    log = _git(
        place, "log", "-z", "--topo-order", "--reverse", "--encoding=UTF-8", _FORMAT, *where, "--", fails=not head
    )
    tips = _git(place, "for-each-ref", "--format=%(objectname) %(*objectname)").split()
    moves = _git(place, "log", "-z", "-g", "--format=%H%n%gs", "HEAD", "--", fails=True) if head else ""
    return CommitHistory(parse_log(log), head, tips, parse_moves(moves), shallow=shallow)


def parse_log(text: str) -> list[Commit]:
    """Return the commits in what `git log` printed."""
    found = []
    for record in text.split("\0"):
        lines = record.strip("\n").split("\n")
        if len(lines) >= len(_FIELDS):
            hash, parents, tree, author, authored = lines[: len(_FIELDS)]
            message = "\n".join(lines[len(_FIELDS) :])
            found.append(Commit(hash, tuple(parents.split()), tree, author, authored, message))
    return found


def parse_moves(text: str) -> list[Move]:
    """Return the moves of HEAD in what `git log -g` printed, the newest first."""
    entries = [record.strip("\n").partition("\n") for record in text.split("\0") if record.strip()]
    return [Move(older[0], newer[0], newer[2]) for newer, older in zip(entries, entries[1:], strict=False)]


def _git(place: Path, *arguments: str, fails: bool = False) -> str:
    """Return what git prints; empty if it fails and may."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _ENVIRONMENT
    command = ["git", *_QUIET, "-C", str(place), "--no-pager", *arguments]
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if fails else subprocess.STDOUT,
        )
    except OSError as error:
        raise BadInput(f"git can't be started ({error.strerror}); install it, or repair PATH") from None
    with child:
        try:
            data = _read(child, place)
        except BaseException:
            child.kill()
            raise
        code = child.wait()
    if code and not fails:
        said = data.decode(errors="replace").strip().splitlines()
        raise BadInput(f"git can't read {place}: {said[-1] if said else f'it ended with {code}'}")
    return "" if code else data.decode(errors="replace")


def _read(child: subprocess.Popen[bytes], place: Path) -> bytes:
    assert child.stdout is not None
    ends, data = time.monotonic() + git_limits.GIT_S, bytearray()
    while True:
        left = ends - time.monotonic()
        if left <= 0 or not select.select([child.stdout], [], [], left)[0]:
            raise BadInput(
                f"git took more than {git_limits.GIT_S:g} s for the history of {place}; give a smaller clone"
            )
        piece = os.read(child.stdout.fileno(), git_limits.GIT_READ_BYTES)
        if not piece:
            return bytes(data)
        data += piece
        if len(data) > git_limits.GIT_BYTES:
            raise LimitExceeded(
                f"the history of {place} in bytes", len(data), git_limits.GIT_BYTES, "give a shallow clone"
            )
