"""The sandboxes of a loop: begun before they are needed, no more of them than it has runs to make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbank_es.errors import SandboxUnavailable
from rbank_es.sandbox.pool import SandboxPool

if TYPE_CHECKING:
    from rbank_es.sandbox.session import SandboxSettings, Session


class Sandboxes(SandboxPool):
    """A pool that remembers why no sandbox could be had: how a run ends tells only that in words."""

    unavailable: SandboxUnavailable | None = None

    def take(self, settings: SandboxSettings) -> Session:
        """As of the pool."""
        try:
            return super().take(settings)
        except SandboxUnavailable as error:
            self.unavailable = SandboxUnavailable(error.code, error.reason, error.fix)
            raise
