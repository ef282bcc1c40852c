"""Verification: one pass over all lines of a log, in order, that checks every byte and skips none."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from rbank_es.errors import CheckFailed, LogCorruption
from rbank_es.events import ContentErased
from rbank_es.events.event_envelope import Event, Ref
from rbank_es.log import lines
from rbank_es.log.ancestry import fork_fault
from rbank_es.log.lines import Head

_HELD_KEYS = 10_000
"""Keys of texts that a check keeps where it may ask for others: some 1.5 MB."""
_REF: msgspec.json.Decoder[Ref] = msgspec.json.Decoder(Ref)


class LogCheck:
    """A check of lines that an engine feeds in order; `seq` and `digest` are the head so far.

    `damage` returns the error for the line that is being checked, in the engine's terms. With `in_place`, each text
    stands before the group of events that names it first, in the order in which these do.
    `holds` says whether the log has a text of an earlier group; without it, the check keeps the keys of a whole part.
    """

    in_place = False

    def __init__(
        self,
        seed: int,
        noted: Sequence[Head],
        damage: Callable[[str], LogCorruption],
        holds: Callable[[str], bool] | None = None,
    ) -> None:
        self._seed, self.damage, self._holds = seed, damage, holds
        self._noted: dict[int, set[str]] = {}
        for head in noted:
            self._noted.setdefault(head.seq, set()).add(head.digest)
        self.seq, self.digest, self.more, self.texts, self.erased_at = 0, lines.GENESIS, 0, 0, 0
        self._at = ""
        self._keys: set[str] = set()
        # The texts of the group that begins, which no event has named yet; whether any of its texts were erased.
        self._unnamed: deque[str] = deque()
        self._unnamed_keys: set[str] = set()
        self._erased_here = False
        self._marks: set[tuple[int, str, str]] = set()
        self._erased_texts: set[str] = set()
        self._listed: set[tuple[int, str, str]] = set()
        self._listed_texts: set[str] = set()
        self._fork = ""
        self._compare(0)

    @property
    def erased(self) -> int:
        """The number of erased texts."""
        return len(self._marks) + len(self._erased_texts)

    def begin_part(self) -> None:
        """Forget the keys of text lines, because a handle names a text of its own part of the log."""
        self._keys = set()

    def begin_fork(self, bank_id: str) -> None:
        """Expect, as the next event, the record of a fork with this id: a part of the log says that it began here."""
        self._fork = bank_id

    def has(self, key: str) -> bool:
        """Return whether a text came before in this part of the log."""
        return key in self._keys or (self._holds is not None and self._holds(key))

    def line(self, line: bytes) -> None:
        """Check the line of an event or of a text. Raises `LogCorruption`, `UnknownEvent`, `CheckFailed`."""
        if not lines.is_intact(line, self._seed):
            raise self.damage("checksum is wrong: bytes were changed or lost")
        if line.startswith(lines.ANY_TEXT):
            self._text(line)
        else:
            self._event(line)

    def _text(self, line: bytes) -> None:
        key = lines.key_of_text(line)
        if key in self._keys:
            raise self.damage(f"the text {key[:12]}… stands here a second time")
        self._keys.add(key)
        if self.in_place and self.more:
            raise self.damage(f"the text {key[:12]}… stands inside a group of events: a line was moved")
        self._unnamed.append(key)
        self._unnamed_keys.add(key)
        if line.startswith(lines.TEXT_ERASED):
            self._erased_here = True
            self._erased_texts.add(key)
            return
        self.texts += 1
        try:
            lines.read_text(line, self._seed)
        except ValueError as error:
            raise self.damage(f"the text {key[:12]}…: {error}") from None

    def _event(self, line: bytes) -> None:
        try:
            event = lines.event_of(line)
        except msgspec.DecodeError as error:
            raise self.damage(f"not an event of this log: {error}") from None
        if event.seq != self.seq + 1:
            raise self.damage(f"position {event.seq:,} follows {self.seq:,}")
        if self.more and event.more != self.more - 1:
            raise self.damage("a group of events is not whole")
        if event.at < self._at:
            raise self.damage(f"its time {event.at} is before {self._at}, that of the event before")
        if self._fork:
            self._forked(event)
        self.seq, self.more, self._at = event.seq, event.more, event.at
        self.digest = lines.chain(self.digest, line)
        if lines.ERASED in line or lines.REF in line:  # most lines have neither, and splitting is slow
            self._units(line)
        if not event.more:
            if self._holds is not None and len(self._keys) > _HELD_KEYS:
                self._keys.clear()  # those of earlier groups can be asked for
            if self.in_place and self._unnamed and not self._erased_here:
                raise self.damage(f"no event of its group names the text {self._unnamed[0][:12]}…: a line was moved")
            self._unnamed.clear()
            self._unnamed_keys.clear()
            self._erased_here = False
        if isinstance(event, ContentErased):
            self._listed |= {(unit.seq, unit.path, unit.digest) for unit in event.units}
            self._listed_texts |= set(event.texts)
            self.erased_at = event.seq
        self._compare(self.seq)

    def _forked(self, event: Event) -> None:
        """Raise the error for a fork's first event that does not record where the fork began."""
        fault = fork_fault(event, self._fork, Head(self.seq, self.digest.hex()))
        if fault is not None:
            raise self.damage(fault)
        self._fork = ""

    def _units(self, line: bytes) -> None:
        _, salt, units = lines.split(line)
        for unit in units:
            if unit.raw.startswith(lines.ERASED):
                self._erased_here = True
                self._marks.add((self.seq, unit.path, lines.commitment(salt, unit)))
            elif unit.raw.startswith(lines.REF):
                self._named(unit.path, _REF.decode(unit.raw).key)

    def _named(self, path: str, key: str) -> None:
        if not self.has(key):
            raise self.damage(f"the text that {path} names is missing")
        # Of a group without some of its texts nobody knows any more which event named which text first.
        if self.in_place and not self._erased_here and key in self._unnamed_keys:
            self._unnamed_keys.remove(key)
            if self._unnamed.popleft() != key:
                raise self.damage(f"the text that {path} names stands before or behind its place: a line was moved")

    def _compare(self, seq: int) -> None:
        for digest in self._noted.pop(seq, ()):
            if digest != self.digest.hex():
                raise CheckFailed(
                    f"the head noted at {seq:,} was {digest}, it is {self.digest.hex()}: "
                    "a fact or a text up to that position was changed"
                )

    def finish(self, *, erasing: bool) -> None:
        """Check the facts that are known only at the end: noted heads beyond the end, and texts that erasures list.

        `erasing`: an erasure was interrupted, so texts that it lists may remain until the next writer completes it.
        """
        # A noted head is popped when its position is passed, so those that are left are beyond the end.
        for seq in sorted(self._noted):
            raise CheckFailed(f"a head was noted at {seq:,}, the log ends at {self.seq:,}: events were cut off")
        # Compared at the end, because the event that lists an erased text comes later than the text.
        unlisted, back = self._marks - self._listed, self._listed - self._marks
        if unlisted or self._erased_texts - self._listed_texts:
            raise LogCorruption(_first(unlisted), "a text is erased, but no event records its erasure")
        if (back or self._listed_texts - self._erased_texts) and not erasing:
            reason = "a text that was erased is back: an old copy of a file was put in its place"
            raise LogCorruption(_first(back), reason)


def _first(marks: set[tuple[int, str, str]]) -> str:
    return f"position {min((mark[0] for mark in marks), default=0):,}"
