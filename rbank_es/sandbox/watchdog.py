"""The watchdog, which runs one sandbox process and kills it when the project's process has ended in any way.

Run as `python -I -S watchdog.py LIFELINE COMMAND...`. LIFELINE is the descriptor of a socket; the starting process
holds its other end, which only the system closes. The command gets the three standard streams, and its process id is
written to the lifeline. When the lifeline hangs up, the command is killed; when the command exits, this process exits
with the same code, or with 128 and the number of the signal.

The kernel's parent-death signal would not do: it follows the thread that started the process, and is Linux only.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
from contextlib import suppress

POLL_MS = 100
"""How often the command's exit is checked; a hang-up is noticed at once."""

STANDARD = (0, 1, 2)


def main(lifeline: int, command: list[str]) -> int:
    """Start the command, hold it, and return its exit code."""
    os.set_inheritable(lifeline, False)
    # No core dump, because it would leave the agent's data in a file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pid = os.posix_spawn(command[0], command, os.environ)
    release_streams()
    # Who started this may have given up already: `hold` sees that, and the command must not be left behind.
    with suppress(OSError):
        os.write(lifeline, b"%d\n" % pid)
    return hold(pid, lifeline)


def release_streams() -> None:
    """Leave the standard streams to the command alone, because their other ends must notice when it exits."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in STANDARD:
        os.dup2(nowhere, descriptor)


def hold(pid: int, lifeline: int) -> int:
    """Wait for the command's exit or the lifeline's hang-up, and return the command's exit code."""
    poll = select.poll()
    poll.register(lifeline, 0)  # no events requested, so poll returns for a hang-up only
    while not poll.poll(POLL_MS):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return exit_code(status)
    os.kill(pid, signal.SIGKILL)
    return exit_code(os.waitpid(pid, 0)[1])


def exit_code(status: int) -> int:
    """Return the exit code as a shell reports it."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
