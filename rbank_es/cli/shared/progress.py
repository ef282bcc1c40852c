"""Progress of long work: a bar on standard error, for people only, and only once a second has passed."""

from __future__ import annotations

import sys
import time
from types import TracebackType

DELAY_S = 1.0
REDRAW_S = 0.1
BAR_COLUMNS = 30


class Progress:
    """A progress bar to be called with `(done, total)`; nothing is drawn before a second, or where nobody looks.

    A context manager: leaving it wipes the bar. `total` may be None where it isn't known.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self._stream = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
        self._began = time.monotonic()
        self._drawn: float | None = None

    def __call__(self, done: int, total: int | None = None) -> None:
        """Note that `done` of `total` is done."""
        now = time.monotonic()
        if self._stream is None or now - self._began < DELAY_S:
            return
        if self._drawn is None or now - self._drawn >= REDRAW_S:
            self._drawn = now
            self._draw(bar(self.label, done, total, now - self._began))

    def _draw(self, text: str) -> None:
        assert self._stream is not None
        self._stream.write(f"\r\x1b[2K{text}")
        self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn is not None:
            self._draw("")


def bar(label: str, done: int, total: int | None, elapsed_s: float) -> str:
    """The bar as text: share, counts, and the seconds left at the pace so far."""
    if not total:
        return f"{label}  {done:,}"
    share = min(1.0, done / total)
    filled = int(share * BAR_COLUMNS)
    left_s = f"  {elapsed_s * (1 - share) / share:.0f} s left" if done else ""
    return f"{label}  {'█' * filled}{'░' * (BAR_COLUMNS - filled)} {share:4.0%}  {done:,} of {total:,}{left_s}"
