"""The progress of long work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

OnProgress = Callable[[int, int], None]
"""Called now and then with how much is done, and the total: of events, files' bytes, texts or trials."""


def reported(things: Sequence[T], progress: OnProgress | None) -> Iterator[T]:
    """Yield things to be worked on; report each as done once the next one is asked for."""
    for done, each in enumerate(things, 1):
        yield each
        if progress is not None:
            progress(done, len(things))
