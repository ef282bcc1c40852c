"""The promises of a log, and of the engine that keeps it.

`append` is atomic, durable before it returns, idempotent by event id, and checked against an expected position.
Reading is in order of position, gap-free, validated. No code above this package depends on the engine.
`rbank_es.testing` holds the suite of tests that every engine passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from pathlib import Path
from threading import Event as Signal
from typing import Any, Final, Protocol

import msgspec

from rbank_es import limits
from rbank_es.events.event_envelope import Event, Ref
from rbank_es.log.lines import Head

DERIVED_LOCK = "derived.lock"
"""The file in a log's `derived_directory` on which whoever writes there holds `flock`.

A writer that needs a lock of the log as well takes it after this one.
"""


class Expected(Enum):
    """The expectation of a writer, if it is not a position."""

    ANY = "any"
    EMPTY = "empty"


ANY: Final = Expected.ANY
EMPTY: Final = Expected.EMPTY


NOT_REACHED: Final = (
    "backups, forks, what was made of the bank (exports, pages, databases, guides, reports), "
    "what hooks spooled of turns that go on, other users' caches, freed disk blocks, open files"
)
"""Where erasure can't search."""

NOT_SOUGHT: Final = (
    f"another case, cuts on both sides, without an ellipsis or to under {limits.CUT_WORDS_CHARS} characters, base64 "
    "and other encodings, compressed or encrypted text, strings that code joins, words "
    "that a model's stream brought in several chunks, paraphrases"
)
"""The forms of words that erasure doesn't look for."""


class Appended(msgspec.Struct, frozen=True):
    """The positions and events of a group in the log. `duplicate`: it was there already, and nothing was written."""

    first: int
    last: int
    events: tuple[Event, ...]
    duplicate: bool = False


class TornTail(msgspec.Struct, frozen=True):
    """The remains of an interrupted append, in the engine's terms: no reader sees them, the next writer cuts them off.

    They are kept in a file beside the log then.
    """

    where: str
    size_bytes: int


class ForeignFile(msgspec.Struct, frozen=True):
    """Something among the files of a log that is no part of it: its name, what it is, and what that means.

    `harmful`: with another kind or name it would change what the log says, or it stops writers.
    """

    name: str
    kind: str
    harmful: bool
    note: str


class Ancestor(msgspec.Struct, frozen=True):
    """A bank that another was forked from: its id, and the position up to which the fork holds its log."""

    bank: str
    upto: int


class Relative(msgspec.Struct, frozen=True):
    """Another bank of the same lineage: its id, its place (empty: not known), and up to where it holds the same log."""

    bank: str
    place: str
    shared: int


class Storage(msgspec.Struct, frozen=True):
    """The engine's units of storage (segments) of a log, and those whose bytes another bank on this disk uses too."""

    parts: int
    shared_parts: int
    size_bytes: int
    shared_bytes: int


class Cut(msgspec.Struct, frozen=True):
    """The record that a writer cut off the remains of an interrupted append behind position `after_seq`.

    `kept` names the file that held the bytes then; an erasure removes it.
    """

    after_seq: int
    cut_at: str
    size_bytes: int
    kept: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a whole sound log.

    `erasing`: an erasure has begun, and the next writer completes it. `cleared`: writers were stopped, and are
    admitted again. `parts` counts the engine's units of storage, by their names, such as `segments`. `foreign` are
    things among the log's files that are not of it; nothing of them was read. `cuts` records what was cut off earlier,
    and `kept` the files that still hold such bytes, with their sizes.
    """

    head: Head
    parts: dict[str, int] = {}
    events: int
    texts: int
    erased: int
    noted: tuple[Head, ...] = ()
    torn: TornTail | None = None
    cleared: bool = False
    erasing: bool = False
    foreign: tuple[ForeignFile, ...] = ()
    cuts: tuple[Cut, ...] = ()
    kept: dict[str, int] = {}


class Place(msgspec.Struct, frozen=True):
    """The place of a text: an event's position and a path in it. `run` is the run that the event belongs to.

    A text that was not `named` holds words of a named one, in a `form` of `rbank_es.log.escaped_words`.
    """

    seq: int
    path: str
    type: str
    named: bool
    run: str | None = None
    form: str = ""


class Searched(msgspec.Struct, frozen=True):
    """The extent of a search for words, and how many texts hold them, by form (`plain`, `escaped`, `HTML`, …).

    `parts` counts the engine's units of storage (segments), or after an erasure files.
    """

    parts: int
    lines: int
    bytes: int
    forms: dict[str, int] = {}


class Residue(msgspec.Struct, frozen=True):
    """The remaining places of erased words in the files of a bank, its read models and caches included.

    `found` has the forms of the words by file, `unread` the files that could not be searched.
    """

    searched: Searched
    found: dict[str, dict[str, int]] = {}
    unread: tuple[str, ...] = ()


class Erasure(msgspec.Struct, frozen=True):
    """The texts that were erased, or would be; `appended` is the record of it, None where nothing was recorded.

    `places` are texts inside events; `texts` keys of texts stored apart. `facts` are positions of events whose facts
    (ids, names) hold the same characters; facts are never erased. `short` counts texts too short to search for.
    `shared` counts words that stay elsewhere: texts that other runs have too, and tags that other items have.
    `remains` are the bytes that interrupted appends left, by place with their size: no event has them, and damaged as
    they are they can't be searched, so they are removed whole. `searched` says what was searched for the words before;
    `residue`, after an erasure, what is left of them. `relatives` are the known banks of this lineage that began with
    such a text, and may still hold it; `shared_parts` counts the engine's units with such texts whose bytes another
    bank on this disk uses too, known or not.
    """

    places: tuple[Place, ...]
    texts: tuple[str, ...]
    facts: tuple[int, ...]
    short: int
    appended: Appended | None = None
    shared: int = 0
    remains: dict[str, int] = {}  # noqa: RUF012 - msgspec copies it
    searched: Searched = Searched(0, 0, 0)
    residue: Residue | None = None
    not_reached: str = NOT_REACHED
    not_sought: str = NOT_SOUGHT
    relatives: tuple[Relative, ...] = ()
    shared_parts: int = 0


class Erasing(msgspec.Struct, frozen=True, kw_only=True):
    """A request for erasure: whole events by position, single texts by position and path, any text by its words.

    `run` is the run of the events, if they belong to one. Then a text that is also the whole of a text of another run
    is erased in the named events only.
    """

    events: frozenset[int] = frozenset()
    paths: tuple[tuple[int, str], ...] = ()
    words: tuple[str, ...] = ()
    run: str | None = None


class Lease(msgspec.Struct, frozen=True):
    """What the holder of a name has. A later holder of that name has a higher `number`.

    0: a lock of this machine, which ends with its process and can't be lost before.
    """

    number: int = 0


class EventLog(Protocol):
    """An append-only log of one bank. Safe for several threads, and, unless its engine says otherwise, processes."""

    @property
    def scheme(self) -> str:
        """The scheme of the URLs of its engine, under which `LOG_ENGINES` has that."""
        ...

    @property
    def bank_id(self) -> str:
        """The bank's id, made with the log and never changed."""
        ...

    @property
    def place(self) -> str:
        """The place of the log, for people to read."""
        ...

    def ancestors(self) -> tuple[Ancestor, ...]:
        """Return the banks that this one was forked from, the first bank of the lineage first; none for no fork.

        Positions ascend. A fork holds events of each up to that position, behind those of the one before.
        """
        ...

    def relatives(self) -> tuple[Relative, ...]:
        """Return the banks of this lineage that are known here: ancestors, forks, and forks of the same bank.

        Forks that other users made, or that were moved since, are not known.
        """
        ...

    def storage(self) -> Storage:
        """Return how much the engine stores, and how much of that is shared with other banks."""
        ...

    @property
    def derived_directory(self) -> Path:
        """The directory of files that are derived from the log. Each of them may be deleted at any time."""
        ...

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        """Append a group: whole or not at all, durable before this returns.

        Events without an id are given a UUIDv7. If all ids are known with the same content, the first positions are
        returned (after a sync) and nothing is written; this is checked before `expected`.
        Raises `PositionConflict`, `DuplicateEvent`, `BadEvent`, `LimitExceeded`, `LogUnavailable`, `LogBusy`,
        `LeaseLost`, `LogFailed`, `LogBehind`, `LogCorruption`; the log is then as it was, save after `LogFailed`,
        where the outcome is unknown.
        """
        ...

    def read(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Collection[str] | None = None,
        run: str | None = None,
        resolve: Collection[str] = (),
    ) -> Iterator[Event]:
        """Yield the events with `after` < seq <= `upto`, in order; only those of `types` and of `run`, where given.

        Reading a run takes the time that its events take, however long the log is. It ends at the position at the
        first step, where other reading goes on with what is appended meanwhile.
        Events of the types in `resolve` have their texts in place of `Ref`s.
        Raises `LogCorruption` or `UnknownEvent` at the first event that can't be trusted; nothing is skipped.
        """
        ...

    def lines(
        self, *, after: int = 0, upto: int | None = None, types: Collection[str] | None = None, run: str | None = None
    ) -> Iterator[bytes]:
        """Yield the same events as `read`, each as its bytes in the log, without newline."""
        ...

    def stored(self, upto: int | None = None) -> Iterator[bytes]:
        """Yield the lines of events and of the texts that they name, as they are stored, up to a position or the end.

        Each text comes before the group that names it first, perhaps again before a later one. A group that goes on
        behind the position is whole in what is yielded: its counters are lowered. Raises `LogCorruption`.
        """
        ...

    def new_id(self) -> str:
        """Return a fresh UUIDv7, for a writer that must name an event before it is appended."""
        ...

    def position(self) -> int:
        """Return the position of the last event; 0 for an empty log."""
        ...

    def settled(self) -> int:
        """Return the last position, behind a sync where this process may outlive a crash of the log's server.

        Whoever decides by what was read asks for it first: no crash takes back an event up to there.
        """
        ...

    def head(self, at: int | None = None) -> Head:
        """Return the head at a position, or now. Raises `LogCorruption` for a position that the log hasn't."""
        ...

    def mark(self, position: int) -> str | None:
        """Return a mark that differs if another log took the place of this one: "" at 0, None where there is no event.

        Two histories of one bank may end with the same event. So a mark holds more than its digest: its place in the
        file, or the head. Cheap, because each search asks for it; a head is not. Other after an erasure, perhaps.
        """
        ...

    def seq_of_id(self, event_id: str) -> int | None:
        """Return the position of the event with this id, if there is one."""
        ...

    def text(self, ref: Ref) -> str | None:
        """Return the text that a handle names; None if it was erased. Raises `LogCorruption` if it is missing."""
        ...

    def wait(self, seen: int, timeout_s: float, stop: Signal | None = None) -> None:
        """Wait until the log may be past position `seen` or `stop` is set, for `timeout_s` at most."""
        ...

    def exclusive(self, name: str) -> AbstractContextManager[Lease]:
        """Exclude other holders of `name` on this log until the context ends. Raises `LogBusy` at once if it is held.

        `name` has letters, digits and hyphens. Appending and reading by other handles are not excluded. What this
        handle appends meanwhile carries the lease's number: if another took over, it raises `LeaseLost`.
        """
        ...

    def owns(self, path: Path) -> bool:
        """Return whether a path is among the files of the log, where nothing else may be written."""
        ...

    def erasures(self) -> int:
        """Return the erasure epoch: the position of the last record of an erasure, 0 for none.

        Data that was derived under a lower one must be rebuilt.
        """
        ...

    def erase(
        self,
        what: Erasing,
        *,
        reason: str = "",
        by: str | None = None,
        dry_run: bool = False,
        rebuild: Callable[[], object] | None = None,
    ) -> Erasure:
        """Remove texts, and every text that holds the same words, from all that the engine stores; heads still hold.

        The forms of the words that are found are those of `rbank_es.log.escaped_words`.
        Derived files are removed, then made again by `rebuild`. In the end all that is stored is searched again.
        Raises as `append` does. If it is interrupted, the next writer completes it.
        """
        ...

    def add_witness(self, witness: Callable[[], int]) -> None:
        """Ask `witness` for the highest position that it knows to have been durable, before bytes are cut off.

        An engine for which nothing is ever cut off ignores it. A witness returns 0 rather than raise.
        """
        ...

    def sync(self) -> None:
        """Wait until every event that a reader could have seen so far is durable."""
        ...

    def verify(self, noted: Sequence[Head] = ()) -> Verification:
        """Check every byte. Raises `LogCorruption` for damage, `CheckFailed` if a noted head does not hold."""
        ...

    def copy(self, upto: int, into: str | None = None) -> EventLog:
        """Return a log of its own with the same bank id, ids, times, texts and heads up to a position.

        `into` is a locator of the same engine; without it, the copy is on this machine, perhaps in another engine, and
        is removed when it is closed. A group that goes on behind the position is whole in the copy: its counters are
        lowered (`lines.shorten_group`).
        Texts erased since are missing from it; if the event that records this is beyond the position, the copy does
        not `verify`. Raises `BadInput` where something is at `into` already, `LogCorruption` also for a position that
        the log hasn't, `LogUnavailable`.
        """
        ...

    def fork(self, upto: int, into: str | None = None, *, name: str = "", by: str | None = None) -> EventLog:
        """Return a new log, with an id of its own, that begins as this one up to a position, and with `bank_forked`.

        Heads up to the position are the same in both; the fork verifies by itself, and neither log's writers change
        the other. Texts erased here after the position are erased in the fork, too, which records that.
        `into` is a locator of the same engine; without it, the fork is on this machine, as a copy is. There is a whole
        fork or none, whatever interrupts this.
        Raises `BadPoint` for a position inside a group, `BankExists` where anything is at `into`, `BadInput` where
        that is inside of this log, `LogCorruption`, `LogUnavailable`.
        """
        ...

    def close(self) -> None:
        """Release files and locks. A closed log opens again when it is used."""
        ...

    def __enter__(self) -> EventLog: ...

    def __exit__(self, *_: object) -> None: ...


def older_copy_advice(derived: Path) -> str:
    """Return advice where files derived from a log, in a folder, reach beyond the log's end."""
    return (
        f"If an older copy was put there on purpose, remove the folder {derived}: it holds nothing but what was "
        "derived from the log, and is made again."
    )


class LogEngine(Protocol):
    """An engine that stores logs, and finds each by a locator: the text that people write for a bank (a path, a URL).

    `options` of `create` and `open` are the engine's own, save `clock`, which returns UTC microseconds: the tests give
    it to every engine. An engine is registered in `LOG_ENGINES` under the scheme of its URLs, with the tests of
    `rbank_es.testing.EventLogContract` as its proof.
    """

    outlives_process: bool
    """Whether a log is still there when the process that made it has ended."""

    def name_of(self, locator: str) -> str:
        """Return the short name of the bank at a locator. Raises `BadBankName` if no bank can be there."""
        ...

    def create(
        self,
        locator: str,
        events: Sequence[Event] = (),
        *,
        fill: Callable[[EventLog], object] | None = None,
        **options: Any,
    ) -> EventLog:
        """Make a log that begins with `events` and the appends of `fill`. No reader sees it without them.

        Where an event is refused or `fill` raises, nothing is left behind.
        Raises `BankExists` if there is a log already, `LogUnavailable`, and what `append` raises.
        """
        ...

    def open(self, locator: str, **options: Any) -> EventLog:
        """Open a log. Raises `BankNotFound`, `LogCorruption`, `LogUnavailable`."""
        ...

    def receive(
        self, locator: str | None, bank_id: str, ancestors: Sequence[Ancestor], stored: Iterable[bytes], **options: Any
    ) -> EventLog:
        """Make the log of a bank of the lines that another log of it, of whichever engine, `stored`.

        Each line is checked; the same id, heads and texts are in both. Without a locator, the log is removed when it is
        closed. Where it can't be made whole, nothing is left behind.
        Raises `BankExists`, `LogCorruption`, `UnknownEvent`, `LogUnavailable`, and what `stored` raises.
        """
        ...
