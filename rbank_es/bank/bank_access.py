"""A bank that is open: its log, and the state and the read models that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event as Signal
from typing import TYPE_CHECKING, Any, Self

from rbank_es import limits
from rbank_es.bank.locator import locate, path_advice, resolve_point
from rbank_es.errors import BadPoint, BankExists, BankNotFound, LogError
from rbank_es.events import BankCreated, Erased, Event, PolicyChoice, PolicySet, Ref, Text
from rbank_es.events.codec import encodable, with_json_texts
from rbank_es.events.json_input import new_event
from rbank_es.log import ANY, Appended, EventLog, Expected, Head
from rbank_es.system.forks import told_of_forks
from rbank_es.system.progress import OnProgress
from rbank_es.system.redacted_locator import shown_locator

# Projections, state and policies are imported where they are used: an append needs none of them, and SQLite is slow to
# load.
if TYPE_CHECKING:
    from rbank_es.events.bank_events import PolicyKind
    from rbank_es.law import State
    from rbank_es.law.decisions import Latest
    from rbank_es.projections.read_models import Applied, ReadModels
    from rbank_es.projections.stored_state import StoredState
    from rbank_es.projections.view import View

Given = Event | Mapping[str, Any]
"""A new event, or the JSON object of one."""

READ_MODELS = "projections.sqlite"
"""The file of the read models, in the log's derived directory."""

_SOUGHT_MOST = 500
"""Events that are sought one by one: to read all lines of a log is quicker than to seek more."""


class OpenBank:
    """An open bank: what every part of `Bank` relies on."""

    def __init__(self, log: EventLog, name: str) -> None:
        self.log = log
        self.name = name
        self._models: ReadModels | None = None
        self._latest: Latest | None = None
        log.add_witness(self._projected)
        told_of_forks.add(self)

    @classmethod
    def create(
        cls,
        place: str | Path,
        *,
        policies: Sequence[PolicyChoice] | None = None,
        purpose: str = "",
        by: str | None = None,
        fill: Callable[[Self], object] | None = None,
        **options: Any,
    ) -> Self:
        """Make a bank and record its first policies (the defaults, unless given).

        `place` is a bare name, a path, or a URL: `memory:` makes a bank that is lost when this process ends. No
        reader sees the bank before `fill` has returned; if `fill` raises, nothing is left behind.
        `options` are those of the log's engine. Raises `BankExists`, `BadBankName`, `LogUnavailable`.
        """
        from rbank_es import __version__
        from rbank_es.policies import default_policies

        located = locate(place)
        name = located.name
        chosen = default_policies() if policies is None else tuple(policies)
        born = BankCreated(name=encodable(name)[: limits.NAME_CHARS], release=__version__, purpose=purpose)
        filled = None if fill is None else lambda log: fill(cls(log, name))
        log = located.engine.create(located.locator, [born, PolicySet(policies=chosen, by=by)], fill=filled, **options)
        return cls(log, name)

    @classmethod
    def open(cls, place: str | Path, *, create: bool = False, **options: Any) -> Self:
        """Open a bank; with `create`, make it with the default policies where there is none.

        `options` are those of the log's engine. Raises `BankNotFound` (without `create`), `BadBankName`, `BankExists`
        where other files are in the place, `LogCorruption`, `LogUnavailable`.
        """
        located = locate(place)
        try:
            return cls(located.engine.open(located.locator, **options), located.name)
        except BankNotFound as missing:
            if not create:
                advice = path_advice(place)
                raise missing if advice is None else BankNotFound(missing.place, advice) from None
        try:
            return cls.create(place, **options)
        except BankExists as taken:
            try:
                # Another process created it between the two calls.
                return cls.open(place, **options)
            except BankNotFound:
                raise taken from None

    @property
    def id(self) -> str:
        """The bank's id, made with its log and never changed."""
        return self.log.bank_id

    @property
    def place(self) -> str:
        """The place of the bank, for people to read, without secrets; a bank in memory is marked as such."""
        return shown_locator(self.log.place)

    @property
    def position(self) -> int:
        """The position of the last event."""
        return self.log.position()

    # ---------------------------------------------------------------- the log

    def append(self, events: Given | Iterable[Given], *, expected: int | Expected = ANY) -> Appended:
        """Append events, or the JSON objects of new events, as one atomic group; durable before this returns.

        Raises as `EventLog.append`, and `BadEvent` for JSON that is no event; then nothing was appended, except after
        `LogFailed`, where the outcome is unknown.
        """
        if isinstance(events, (Event, Mapping)):
            return self.log.append([_event(events)], expected=expected)
        return self.log.append([_event(entry) for entry in events], expected=expected)

    def head(self, point: str | int | None = None) -> Head:
        """Return the head at a point: noted in a safe place, it proves the log unchanged up to there."""
        return self.log.head(self.resolve(point))

    def resolve(self, point: str | int | None) -> int:
        """Return the position that a point means; None means the head. Raises `BadPoint`."""
        return resolve_point(self.log, point)

    def time_at(self, position: int) -> str:
        """Return the UTC time at which the event at a position was recorded; empty for 0."""
        return next((event.at for event in self.log.read(after=position - 1, upto=position)), "") if position else ""

    def events(
        self,
        *,
        point: str | int | None = None,
        after: int = 0,
        types: Collection[str] | None = None,
        run: str | None = None,
        resolve: bool = False,
    ) -> Iterator[Event]:
        """Yield events after a position, up to a point, of some types, of one run; `resolve` replaces handles."""
        upto = None if point is None else self.resolve(point)
        wanted = _all_types() if resolve else ()
        return self.log.read(after=after, upto=upto, types=types, run=run, resolve=wanted)

    def rare_events(self, type_: str, upto: int | None = None) -> Iterator[Event]:
        """Yield the events of a type up to a position (default: the head), in order, without their long texts.

        Of a type that the read model `rare_events` has, it costs their number, and what the read models are behind.
        """
        last, known, reached = self.position if upto is None else upto, list[int](), 0
        if self._has_read_models():
            known, reached = self._known_rarities(type_, last)
        for position in known:
            yield from self.log.read(after=position - 1, upto=position)
        yield from self.log.read(after=reached, upto=last, types={type_})

    def _known_rarities(self, type_: str, upto: int) -> tuple[list[int], int]:
        """Return the positions of a type in the read models, and how far these are; none and 0 without sound ones."""
        from rbank_es.projections.rare_events import positions_of

        found = self.read_models().sound(self.log, "rare_events")
        if found is None:
            return [], 0
        connection, reached = found
        with closing(connection):
            known = positions_of(connection, type_, upto)
        return (known, min(reached, upto)) if len(known) <= _SOUGHT_MOST else ([], 0)

    def event_at(self, position: int, *, resolve: bool = False) -> Event:
        """Return the event at a position; `resolve` replaces handles. Raises `BadPoint` where there is none."""
        if position < 1:
            raise BadPoint(str(position), "the first event is at position 1")
        return next(self.events(after=position - 1, point=position, resolve=resolve))

    def text(self, value: Text | None) -> str | None:
        """Return the words of a text field, read from the log if it is a handle; None if absent or erased."""
        if isinstance(value, Ref):
            return self.log.text(value)
        return None if isinstance(value, Erased) else value

    def follow(
        self, *, after: int | None = None, types: Collection[str] | None = None, stop: Signal | None = None
    ) -> Iterator[Event]:
        """Yield events as they are appended, by whichever process, until `stop` is set.

        Begins behind `after`, or with the next event that is appended.
        """
        seen = self.position if after is None else after
        # Read before waiting and after: a stop between the two still returns what was appended before it.
        while True:
            for event in self.log.read(after=seen):
                seen = event.seq
                if types is None or event.__struct_config__.tag in types:
                    yield event
            if stop is not None and stop.is_set():
                return
            self.log.wait(seen, limits.POLL_S, stop)

    # ---------------------------------------------------------------- state, read models and time

    def state(self, point: str | int | None = None, *, progress: OnProgress | None = None) -> State:
        """Return the state at a point, folded from the log alone."""
        from rbank_es.law import RELEVANT, RESOLVED, fold

        upto = self.resolve(point)
        # Of the types that change the state only: most of a log are calls of models and tools.
        events = self.log.read(upto=upto, types=RELEVANT, resolve=RESOLVED)
        return fold(_counted(events, upto, progress), position=upto)

    @property
    def latest(self) -> Latest:
        """The state at the head as decisions take it: kept while the bank is open, and advanced by new events."""
        from rbank_es.law.decisions import Latest

        if self._latest is None:
            self._latest = Latest(self.log, self._stored_state)
        return self._latest

    def policy_choice(self, kind: PolicyKind) -> PolicyChoice | None:
        """Return the record of the policy of a kind that is in force at the head, None where there is none."""
        with self.latest.at(self.position) as basis:
            return basis.state.policies.get(kind)

    def read_models(self) -> ReadModels:
        """Return the bank's read models without bringing them up to date."""
        from rbank_es.projections.read_models import ReadModels

        if self._models is None:
            self._models = ReadModels.open(self.log.derived_directory / READ_MODELS, sealed=True)
        return self._models

    def _stored_state(self) -> StoredState | None:
        """Return the state that the read models have as they are, None where there are none."""
        return self.read_models().stored_state(self.log) if self._has_read_models() else None

    def _has_read_models(self) -> bool:
        return (self.log.derived_directory / READ_MODELS).exists()

    def _projected(self) -> int:
        """Return the highest position that the read models have: its events were on disk before their rows."""
        try:
            if not self._has_read_models():
                return 0  # found out without SQLite, which an append need not load
            return max((point.position for point in self.read_models().checkpoints().values()), default=0)
        except (LogError, OSError):
            # Read models that can't be read bear no witness: an append must not fail for them.
            return 0

    def project(
        self, *, only: Collection[str] | None = None, rebuild: bool = False, progress: OnProgress | None = None
    ) -> Applied:
        """Bring the read models up to the head, or `rebuild` them from the whole log. Raises `ProjectionError`."""
        models = self.read_models()
        if rebuild:
            return models.rebuild(self.log, only=only, on_batch=progress)
        return models.catch_up(self.log, only=only, on_batch=progress)

    def as_of(self, point: str | int | None = None) -> View:
        """Return a read-only view at a point: items, runs, counters, search. Close it, or use it in a `with`.

        Never writes: if the read models are behind or unusable, the view is of a temporary copy.
        """
        return self.read_models().as_of(self.resolve(point), self.log)

    def live(self, point: str | int | None = None) -> View:
        """Return a view at a point, by default the head, as `as_of` does; first bring the read models up to the head,
        if they can be written.

        They are in the user's cache, so the next view finds them: a temporary copy is as large as the bank.
        """
        return self.read_models().caught_up(self.log, self.resolve(point))

    # ---------------------------------------------------------------- closing

    def close(self) -> None:
        """Release files. A closed bank opens again when it is used."""
        if self._models is not None:
            self._models.close()
            self._models = None
        self._latest = None
        self.log.close()

    def forget_parent(self) -> None:
        """Ask the log again for the place of the read models: in a forked child, a log in memory has another one."""
        self._models = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.place!r})"


def _event(given: Event | Mapping[Any, Any]) -> Event:
    return with_json_texts(given) if isinstance(given, Event) else new_event(dict(given))


def _all_types() -> Collection[str]:
    from rbank_es.events.codec import event_types

    return event_types().keys()


def _counted(events: Iterable[Event], upto: int, progress: OnProgress | None) -> Iterator[Event]:
    for number, event in enumerate(events):  # every thousandth: a call per event would cost more than the fold
        if progress is not None and number % 1000 == 0:
            progress(event.seq, upto)
        yield event
