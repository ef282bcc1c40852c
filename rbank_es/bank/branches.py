"""Branches of banks: copies, forks, and the history that two banks share.

A copy is the same bank at another place: it has the same id. A fork is another bank, with an id of its own, that begins
with the log of its parent and goes on by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from msgspec import Struct

from rbank_es.bank.bank_access import OpenBank
from rbank_es.bank.locator import locate
from rbank_es.errors import BadInput, CheckFailed
from rbank_es.log import EventLog, Head
from rbank_es.log.ancestry import lineage_of, shared_position


class CommonHistory(Struct, frozen=True):
    """The history that two banks of a lineage share: both hold the same events up to `head`, as its digest proves.

    `beyond` has the number of events behind it of the one bank and of the other, up to the points that were compared.
    `claimed` is the position up to which they share by their ancestry. If it is higher than that of the head, one of
    them was altered there, or they are copies of one bank that were both appended to.
    """

    lineage: str
    head: Head
    beyond: tuple[int, int]
    claimed: int

    def require_claimed(self, one: str, other: str) -> None:
        """Raise `CheckFailed` where two banks, given by their names, differ before the position that they claim."""
        if self.head.seq < self.claimed:
            raise CheckFailed(
                f"{one} and {other} must be the same up to position {self.claimed:,}, and differ behind "
                f"{self.head.seq:,}: one of them was altered, or put back from an older copy"
            )


def common_history(one: EventLog, other: EventLog, ends: tuple[int, int] | None = None) -> CommonHistory | None:
    """Return the history that two logs share up to their heads or to given ends; None for logs of two lineages.

    Where the ancestry does not say it, the position is found by comparing heads, some 20 of them.
    """
    lineage = lineage_of(one)
    if lineage_of(other) != lineage:
        return None
    upto, other_upto = ends or (one.position(), other.position())
    claimed = shared_position(one.ancestors(), one.bank_id, upto, other.ancestors(), other.bank_id, other_upto)
    head = one.head(_last_same(one, other, claimed))
    return CommonHistory(lineage, head, (upto - head.seq, other_upto - head.seq), claimed)


def _last_same(one: EventLog, other: EventLog, claimed: int) -> int:
    """Return the highest position, up to a claimed one, at which two logs have the same head."""
    if one.head(claimed) == other.head(claimed):
        return claimed
    low, high = 0, claimed  # equal at the one, not at the other; a digest is of all before it, so they differ but once
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one.head(middle) == other.head(middle) else (low, middle)
    return low


class BankBranches(OpenBank):
    """The part of `Bank` that copies and forks it."""

    def copy(self, point: str | int | None = None, into: str | Path | None = None) -> Self:
        """Return a separate bank, equal to this one up to a point: the same id, events, texts and heads.

        `into` is a place of any log engine; without it, the copy is removed when it is closed. Raises `BadPoint`,
        `BadBankName`, `BadInput` where something is at `into` already, `LogCorruption`, `LogUnavailable`.
        """
        upto, log = self.resolve(point), self.log
        if into is None:
            return type(self)(log.copy(upto), self.name)
        located = locate(into)
        if located.scheme == log.scheme:  # which may share what it stores
            return type(self)(log.copy(upto, located.locator), located.name)
        made = located.engine.receive(located.locator, log.bank_id, log.ancestors(), log.stored(upto))
        return type(self)(made, located.name)

    def fork(self, place: str | Path, point: str | int | None = None, *, by: str | None = None) -> Self:
        """Make a bank that begins as this one up to a point, and has an id of its own; return it.

        Its first own event is `bank_forked`. Segments that are closed are shared where the file system can, so this is
        quick however long the log is; what one bank erases or appends never changes the other.
        Raises `BadPoint`, also for a point inside a group of events; `BankExists`; `BadBankName`; `BadInput` where
        another engine keeps that place, or it is inside this bank; `LogCorruption`; `LogUnavailable`.
        """
        upto, located = self.resolve(point), locate(place)
        # Here and not in the engines, because one would take what looks like a path to it, and nobody find the fork.
        if located.scheme != self.log.scheme:
            raise BadInput(
                f"can't fork {self.place} to {place}: a fork stays with the log engine of its bank, "
                f"{self.log.scheme}:. Fork it there, and copy the fork: rbank-es copy FORK {place}"
            )
        return type(self)(self.log.fork(upto, located.locator, name=located.name, by=by), located.name)

    def common_history(self, other: BankBranches) -> CommonHistory | None:
        """Return the history that this bank shares with another; None if they do not descend from one bank."""
        return common_history(self.log, other.log)
