"""How far long work is."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[int, int], None]
"""Called now and then with how much is done, and the total: of events, files' bytes, texts or trials."""
