"""Claims of trials in a folder that several machines share: who is at a trial, without a lock that reaches them all.

A claim is a file for each generation, `NAME.GENERATION`, made with `O_EXCL`: of several processes who find the last one
stale, one makes the next. It is renewed while its owner works, and stale once it wasn't for a lease, by the clock that
stamps the shared folder: the clocks of machines differ. A process that stood still for longer goes on without its
claim; so a claim saves work that would be done twice, and one rename alone decides what is published.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple
from uuid import uuid4

from rbank_es.lab.trial_place import CLAIMS, WORK, directory, entries, made_directory
from rbank_es.limits import experiment_limits
from rbank_es.system.files import read_regular

RENEWALS = 6
"""Renewals within a lease, so that one that fails, or a slow disk, costs no claim."""

ClaimState = Literal["none", "held", "stale"]


class Claim(NamedTuple):
    """A claim of one's own."""

    path: Path
    generation: int
    lease_s: float

    @property
    def is_superseded(self) -> bool:
        """Whether another process took over."""
        return self.path.with_suffix(f".{self.generation + 1}").exists()

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the claim, from a thread, until the work inside ends; then let it go, so that others need not wait."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(self.lease_s / RENEWALS):
                # The disk may be away for a while; and a claim that was lost decides nothing.
                with suppress(OSError):
                    os.utime(self.path)

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            with suppress(OSError):
                os.utime(self.path, (0, 0))


class LastClaim(NamedTuple):
    """The last claim of a name: its generation (0 without one), whether it is held, and by whom, in words."""

    generation: int
    state: ClaimState
    owner: str


class Claims:
    """The claims in the folder of an experiment."""

    def __init__(self, folder: Path, lease_s: float = experiment_limits.CLAIM_LEASE_S) -> None:
        """Take the folder, which must be there. A claim that wasn't renewed for the lease, in seconds, is stale."""
        self.folder, self.lease_s = folder / CLAIMS, lease_s

    def take(self, name: str) -> Claim | None:
        """Return a claim of one's own, whose folder under `work` is there; None where another process is at it."""
        last = self.last(name)
        if last.state == "held":
            return None
        # Before the claim: a claim whose folder is missing means that somebody removed it.
        (self.folder.parent / WORK / f"{name}.{last.generation + 1}").mkdir(parents=True, exist_ok=True)
        return self._make(name, last)

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Hold a claim, and remove it at the end; yield False, without one, where another process is at it.

        For one process at a time: a claim of a process that ended on this machine is stale at once.
        """
        last = self.last(name)
        host, _, process = last.owner.rpartition(" ")
        dead = host == socket.gethostname() and not _is_alive(process)
        claim = self._make(name, last) if last.state != "held" or dead else None
        if claim is None:
            yield False
            return
        try:
            with claim.renewed():
                yield True
        finally:
            for number in range(1, claim.generation + 1):
                (self.folder / f"{name}.{number}").unlink(missing_ok=True)
            with suppress(OSError):
                self.folder.rmdir()

    def _make(self, name: str, last: LastClaim) -> Claim | None:
        """Return the next claim after the last; None where another process made it first."""
        made_directory(self.folder)
        own = self.folder / f"{name}.{last.generation + 1}"
        try:
            file = os.open(own, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o644)
        except FileExistsError:
            return None
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            stream.write(f"{socket.gethostname()} {os.getpid()}\n")
        return Claim(own, last.generation + 1, self.lease_s)

    def last(self, name: str) -> LastClaim:
        """Return the last claim of a name."""
        numbers = [number for stem, number in self._made() if stem == name]
        if not numbers:
            return LastClaim(0, "none", "")
        path = self.folder / f"{name}.{max(numbers)}"
        try:
            fresh = self._disk_time() - path.lstat().st_mtime < self.lease_s
            owner = read_regular(path, experiment_limits.CLAIM_BYTES).decode(errors="replace").strip()
        except FileNotFoundError:  # it was removed in between
            return LastClaim(max(numbers), "stale", "")
        return LastClaim(max(numbers), "held" if fresh else "stale", owner)

    def _made(self) -> Iterator[tuple[str, int]]:
        for each in entries(self.folder) if directory(self.folder) is not None else ():
            stem, _, number = each.rpartition(".")
            if stem and number.isascii() and number.isdecimal() and len(number) < experiment_limits.CLAIM_DIGITS:
                yield stem, int(number)

    def _disk_time(self) -> float:
        """Return the time by the clock that stamps the folder's files."""
        probe = self.folder / f".clock-{uuid4().hex}"
        try:
            probe.touch(exist_ok=False)
        except PermissionError:
            return time.time()  # of somebody who only looks: who takes a claim writes there
        try:
            # Without a time, so that the server of the files sets its own.
            os.utime(probe)
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)


def _is_alive(process: str) -> bool:
    if not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
