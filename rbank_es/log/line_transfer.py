"""The stored lines of a log as they pass to another one: copies, forks, and banks of another engine.

A stream of them has every group whole: its long texts first, then its events. A text comes before the first group that
names it. Only lines of events and texts pass; what else an engine stores is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from msgspec import Struct

from rbank_es.errors import LogCorruption
from rbank_es.events import ContentErased
from rbank_es.events.codec import refs_of
from rbank_es.log import ancestry, groups, lines
from rbank_es.log.groups import Clock, Entropy
from rbank_es.log.protocol import Ancestor, EventLog
from rbank_es.log.verification import LogCheck


class LineGroup(Struct, frozen=True):
    """The lines of one append, without newlines; `digests` are those of the heads behind each event, if checked."""

    texts: Sequence[bytes]
    events: Sequence[bytes]
    digests: Sequence[bytes] = ()

    @property
    def first(self) -> int:
        """The position of its first event."""
        return lines.seq_of(self.events[0])

    @property
    def last(self) -> int:
        """The position of its last event."""
        return self.first + len(self.events) - 1

    @property
    def erases(self) -> bool:
        """Whether it records an erasure."""
        return lines.type_of_line(self.events[-1]) == b"content_erased"


def line_groups(stored: Iterable[bytes]) -> Iterator[LineGroup]:
    """Yield the groups of a stream of lines. Raises `LogCorruption` where it ends inside of one."""
    texts, events = list[bytes](), list[bytes]()
    for line in stored:
        if line.startswith(lines.ANY_TEXT):
            texts.append(line)
            continue
        events.append(line)
        if not lines.counters_of(line)[0]:
            yield LineGroup(texts, events)
            texts, events = [], []
    if texts or events:
        raise LogCorruption("the end of the lines", "a group of events is not whole")


def named_texts(line: bytes) -> Iterator[str]:
    """Yield the keys of the texts that an event's line names, or records as erased."""
    if lines.REF in line or lines.type_of_line(line) == b"content_erased":
        event = lines.event_of(line)
        yield from event.texts if isinstance(event, ContentErased) else (ref.key for ref in refs_of(event))


def stored_upto(stored: Iterable[bytes], upto: int, seed: int) -> Iterator[bytes]:
    """Yield a stream of lines up to a position. A group that goes on behind it ends there, its counters lowered."""
    if not upto:
        return
    for group in line_groups(stored):
        if group.last <= upto:
            yield from group.texts
            yield from group.events
            if group.last == upto:
                return  # at once: what is behind may be of an interrupted append
            continue
        kept = lines.shorten_group([*group.events[: upto - group.first + 1]], group.last - upto, seed)
        named = {key for line in kept for key in named_texts(line)}
        yield from (text for text in group.texts if lines.key_of_text(text) in named)
        yield from kept
        return


def checked_groups(
    bank_id: str, ancestors: Sequence[Ancestor], stored: Iterable[bytes], holds: Callable[[str], bool] | None = None
) -> Iterator[LineGroup]:
    """Yield the groups of a stream that is to become the log of a bank, each checked as `verify` does.

    `holds` says whether the receiver has a text of an earlier group. What only the end shows is not checked: texts
    that were erased behind the end of a copy. Raises `LogCorruption`, `UnknownEvent`.
    """
    lineage = next((each.bank for each in ancestors), bank_id)
    check = LogCheck(
        lines.seed_of(lineage), (), lambda reason: LogCorruption(f"the line behind {check.seq:,}", reason), holds
    )
    begun = fork_beginnings(bank_id, ancestors)
    for group in line_groups(stored):
        # A text may be repeated: a log of segments stores it once in each.
        texts = [line for line in group.texts if not check.has(lines.key_of_text(line))]
        for line in texts:
            check.line(line)
        digests = list[bytes]()
        for line in group.events:
            if check.seq + 1 in begun:
                check.begin_fork(begun[check.seq + 1])
            check.line(line)
            digests.append(check.digest)
        yield LineGroup(texts, group.events, digests)


def fork_beginnings(bank_id: str, ancestors: Sequence[Ancestor]) -> dict[int, str]:
    """Return the position at which each fork of a bank's ancestry begins, with the id of the fork."""
    forks = [*(each.bank for each in ancestors[1:]), bank_id]
    return {each.upto + 1: fork for each, fork in zip(ancestors, forks, strict=False)}


class ForkLines(Struct, frozen=True):
    """The beginning of a fork: its ancestry, and all its stored lines, the record of the fork included."""

    ancestors: tuple[Ancestor, ...]
    stored: Iterator[bytes]


def fork_lines(
    log: EventLog, upto: int, fork: str, *, name: str, by: str | None, clock: Clock, entropy: Entropy
) -> ForkLines:
    """Return what a fork of a log, with the id `fork`, begins with. Raises `BadPoint`, `LogCorruption`."""
    ancestry.check_fork_point(log, upto)
    chain = [each for each in log.ancestors() if each.upto < upto]
    writer = [*(each.bank for each in log.ancestors()), log.bank_id][len(chain)]
    return ForkLines((*chain, Ancestor(writer, upto)), _fork_lines(log, upto, fork, name, by, clock, entropy))


def _fork_lines(
    log: EventLog, upto: int, fork: str, name: str, by: str | None, clock: Clock, entropy: Entropy
) -> Iterator[bytes]:
    erased, last, seed = list[str](), b"", lines.seed_of(ancestry.lineage_of(log))
    for line in log.stored(upto):
        if line.startswith(lines.TEXT_ERASED):
            erased.append(lines.key_of_text(line))
        elif not line.startswith(lines.ANY_TEXT):
            last = line
        yield line
    opening = ancestry.opening_events(log, log.head(upto), fork, erased, name=name, by=by)
    prepared = groups.prepare_new(opening, clock, entropy, lambda ref: False, log.text)
    at = groups.time_after(clock(), lines.event_of(last).at if last else "")
    now = groups.Circumstances(upto + 1, at, upto, seed, {}, partial(groups.new_salt, entropy))
    yield from groups.compose(prepared, now).data.split(b"\n")[:-1]
