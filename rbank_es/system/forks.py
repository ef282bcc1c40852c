"""What a forked child must not share with its parent: locks, open files, connections, processes, folders."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import ExitStack
from typing import Protocol


class Forkable(Protocol):
    """An object that a fork copies although it should not."""

    def forget_parent(self) -> None:
        """Drop, in the child, what belongs to the parent.

        Take no lock: at the fork, a thread of the parent may have held it, and no such thread is in the child.
        """
        ...


told_of_forks: weakref.WeakSet[Forkable] = weakref.WeakSet()
"""The objects of which `forget_parent` is called in every child. Add one when it has all that this drops."""


def _in_child() -> None:
    # A stack goes on after an error: where the engine of a plugin fails, a log still drops the locks of its parent.
    with ExitStack() as stack:
        for each in list(told_of_forks):
            stack.callback(each.forget_parent)


# Once for all objects, because Python can't take back a function that follows forks.
os.register_at_fork(after_in_child=_in_child)

undivided = threading.RLock()
"""Held over short work of a module that no child could go on with or begin anew: no other thread forks meanwhile.
Re-entrant, because a signal may come, and fork, in the thread that holds it."""

os.register_at_fork(before=undivided.acquire, after_in_parent=undivided.release, after_in_child=undivided.release)
