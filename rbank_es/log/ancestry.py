"""The ancestry of forks: where a log may be forked, the events with which a fork begins, and what two banks share.

All banks that descend from one by forking are a *lineage*, named by the id of that first bank. The checksums of their
lines continue from this id, so that a fork may hold the very bytes of its parent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from rbank_es import limits
from rbank_es.errors import BadPoint, LogCorruption
from rbank_es.events import BankForked, ContentErased, ErasedUnit
from rbank_es.events.codec import encodable
from rbank_es.events.event_envelope import Event
from rbank_es.log.lines import Head
from rbank_es.log.protocol import Ancestor, EventLog, Place, Relative

INHERITED = "erased in the bank that this one was forked from"
"""The reason in the record of an erasure that happened in the parent behind the position of the fork."""


def lineage_of(log: EventLog) -> str:
    """Return the id of the lineage of a log: that of its first ancestor, or its own."""
    return next((ancestor.bank for ancestor in log.ancestors()), log.bank_id)


def fork_fault(event: Event | None, fork: str, head: Head) -> str | None:
    """Return the fault of an event that must record that a fork began behind a head; None if it does so."""
    begun = (event.fork, event.parent_seq, event.parent_digest) if isinstance(event, BankForked) else None
    if begun != (fork, head.seq, head.digest):
        return f"the fork {fork} begins here, and this event does not record that"
    if isinstance(event, BankForked) and event.parent == fork:
        return f"the fork {fork} begins here, and this event calls it its own parent"
    return None


def check_ancestry(log: EventLog, upto: int) -> None:
    """Raise `LogCorruption` unless each fork from which a log descends, up to a position, is recorded where it began.

    Before events of a log are taken over: its ancestry says which bank recorded them.
    """
    ancestors = log.ancestors()
    forks = [*(each.bank for each in ancestors), log.bank_id][1:]
    for each, fork in zip(ancestors, forks, strict=True):
        if each.upto < upto:
            event = next(iter(log.read(after=each.upto, upto=each.upto + 1)), None)
            fault = fork_fault(event, fork, log.head(each.upto))
            if fault is not None:
                raise LogCorruption(f"{log.place}, position {each.upto + 1:,}", fault)


def check_fork_point(log: EventLog, upto: int) -> None:
    """Raise `BadPoint` unless a log has that position, and a group ends there; `LogCorruption` as `check_ancestry`."""
    check_ancestry(log, upto)
    # A group begins at most so far back, because no append has more events. The log's end is not read unless it is
    # needed: a log that is damaged there can be forked from before the damage.
    group = [(event.seq, event.more) for event in log.read(after=max(0, upto - limits.GROUP_EVENTS), upto=upto)]
    if upto < 0 or (group[-1][0] if group else 0) != upto:
        raise BadPoint(str(upto), f"there is no position {upto:,}; the log goes from 0 to {log.position():,}")
    if group and (left := group[-1][1]):
        before = next((seq for seq, more in reversed(group) if not more), 0)
        reason = f"position {upto:,} is inside of a group, which no fork parts; fork at {before:,} or {upto + left:,}"
        raise BadPoint(str(upto), reason)


def opening_events(
    log: EventLog, head: Head, fork: str, erased_texts: Collection[str], *, name: str, by: str | None
) -> list[Event]:
    """Return the events with which a fork of a log at a head begins: one group.

    `erased_texts` are the keys of the erased texts that the fork holds. What was erased behind the position is erased
    in the bytes that the fork takes over, so the fork records these erasures itself.
    """
    forked = BankForked(
        parent=log.bank_id,
        parent_seq=head.seq,
        parent_digest=head.digest,
        fork=fork,
        name=encodable(name)[: limits.NAME_CHARS] or None,
        by=by,
    )
    later = log.read(after=head.seq, types=("content_erased",)) if log.erasures() > head.seq else iter(())
    return [forked, *_inherited(later, head.seq, erased_texts)]


def _inherited(later: Iterator[Event], upto: int, erased_texts: Collection[str]) -> Iterator[ContentErased]:
    units: dict[tuple[int, str], ErasedUnit] = {}
    texts: dict[str, None] = {}
    for event in later:
        if isinstance(event, ContentErased):
            units |= {(unit.seq, unit.path): unit for unit in event.units if unit.seq <= upto}
            texts |= dict.fromkeys(key for key in event.texts if key in erased_texts)
    each, keys, most = list(units.values()), list(texts), limits.ERASED_UNITS
    for start in range(0, max(len(each), len(keys)), most):
        unit_page, key_page = tuple(each[start : start + most]), tuple(keys[start : start + most])
        yield ContentErased(units=unit_page, texts=key_page, reason=INHERITED)


def holders(relatives: Iterable[Relative], erased: Iterable[Place]) -> tuple[Relative, ...]:
    """Return those of a bank's relatives that began with one of its erased texts, and may still hold it."""
    first = min(place.seq for place in erased)
    return tuple(each for each in relatives if each.shared >= first)


def shared_position(
    one: Sequence[Ancestor], one_id: str, one_end: int, other: Sequence[Ancestor], other_id: str, other_end: int
) -> int:
    """Return the position up to which two logs of a lineage that end there hold the same, as their ancestry has it.

    0 for logs of two lineages.
    """
    ours = [*one, Ancestor(one_id, one_end)]
    theirs = [*other, Ancestor(other_id, other_end)]
    shared = 0
    for here, there in zip(ours, theirs, strict=False):
        if here.bank != there.bank:
            break
        shared = min(here.upto, there.upto)
        if here.upto != there.upto:
            break
    return shared
