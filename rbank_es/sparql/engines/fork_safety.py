"""What must not be shared with a forked child: processes, connections, locks that another thread held."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that a fork copies although it shouldn't."""

    def forked(self) -> None:
        """Called in the child: let go of what belongs to the parent."""
        ...


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()


def tell_of_forks(thing: Forkable) -> None:
    """Have `thing.forked()` called in every child that is forked from now on, as long as it exists."""
    _known.add(thing)


def _in_child() -> None:
    for thing in list(_known):
        thing.forked()


os.register_at_fork(after_in_child=_in_child)
