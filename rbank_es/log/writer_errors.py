"""What stops a writer of a log that is shared with other machines.

LogError
├── LogBehind                3   the log lacks a head that was acknowledged to this writer
└── LogBusy
    └── LeaseLost            4   another process took over what this one was doing alone
"""

from __future__ import annotations

from rbank_es.errors import LogBusy, LogError


class LogBehind(LogError):
    """A log lacks the highest head that was acknowledged to this writer: it was put back, or another took its place."""

    exit_code = 3

    def __init__(self, bank: str, position: int, derived: object) -> None:
        self.bank, self.position = bank, position
        super().__init__(
            f"{bank} lacks position {position:,} as it was acknowledged here: the log was put back from a backup, or "
            "another took its place. Nothing was appended. Restore the newest log; if this one is right, remove the "
            f"folder {derived}, which holds nothing but what was derived from the log"
        )


class LeaseLost(LogBusy):
    """A lease ended before its holder did, and another process took over; nothing more of the holder is appended."""

    def __init__(self, bank: str, name: str) -> None:
        self.bank, self.name = bank, name
        LogError.__init__(
            self,
            f"another process took over {name} of {bank}, because this one stood still for too long; nothing of this "
            "append was recorded. Start again where the bank is now",
        )
