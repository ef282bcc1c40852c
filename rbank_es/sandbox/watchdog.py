"""Holds one sandbox process and lets go of it with this project's process, however that one ends.

Run as `python -I -S watchdog.py LIFELINE COMMAND...`. LIFELINE is the descriptor of a socket whose other end the
starting process holds, and which nobody closes but the system when that process is gone. The command gets the three standard
streams; its process id is told over the lifeline. When the lifeline hangs up, the command is killed; when the command
ends, this process ends with the same exit code, or 128 and the number of the signal that ended it.

A kernel's death signal for parents would do less: it follows the thread that started the process, and knows Linux only.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys

LOOK_MS = 100
"""How often to look whether the command has ended by itself; a hang-up is noticed at once."""

STANDARD = (0, 1, 2)


def main(lifeline: int, command: list[str]) -> int:
    """Start the command and hold it; its exit code."""
    os.set_inheritable(lifeline, False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pid = os.posix_spawn(command[0], command, os.environ)
    let_go_of_streams()
    os.write(lifeline, b"%d\n" % pid)
    return hold(pid, lifeline)


def let_go_of_streams() -> None:
    """Only the command may hold the standard streams, or their other ends would not learn that it is gone."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in STANDARD:
        os.dup2(nowhere, descriptor)


def hold(pid: int, lifeline: int) -> int:
    """Wait for the end of either the command or whoever wanted it."""
    poll = select.poll()
    poll.register(lifeline, 0)  # asks for nothing, so it returns for a hang-up only
    while not poll.poll(LOOK_MS):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return exit_code(status)
    os.kill(pid, signal.SIGKILL)
    return exit_code(os.waitpid(pid, 0)[1])


def exit_code(status: int) -> int:
    """As a shell tells it."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
