"""The base of objects that keep data of a log in memory: one lock for the threads, and nothing kept across a fork."""

from __future__ import annotations

import os
import threading
import weakref


class ProcessCache:
    """An object that keeps what it read, for all threads of this process. Change it while `lock` is held.

    A forked child begins with a free lock and with nothing kept, because at the fork a thread of the parent may have
    held the lock and been half done.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        _CACHES.add(self)

    def forget(self) -> None:
        """Drop all that is kept: it is read again when it is needed."""
        raise NotImplementedError


_CACHES: weakref.WeakSet[ProcessCache] = weakref.WeakSet()


def _forked() -> None:
    for cache in list(_CACHES):
        cache.lock = threading.RLock()
        cache.forget()


os.register_at_fork(after_in_child=_forked)
