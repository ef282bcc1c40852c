"""The class `Bank`: one log, its state and its read models, as Python programs use them.

>>> from rbank_es import Bank, Item
>>> from rbank_es.events import MemoriesConsolidated, MemoriesExtracted
>>> from rbank_es.events import Decision
>>> item = Item.make("Ask the ontology for its classes first", "List classes before writing a query.")
>>> with Bank.create("memory:") as bank:
...     extracted = bank.append(MemoriesExtracted(kind="manual", heads=(item.head,), candidates=(item.text,)))
...     decision = Decision(candidate=0, action="add", item=item.id)
...     _ = bank.append(MemoriesConsolidated(
...         extraction=extracted.events[0].id, policy="append-1", decisions=(decision,)))
...     [hit.title for hit in bank.search("which classes does the ontology have?")]
...     bank.search("which classes?", point="HEAD~1")
['Ask the ontology for its classes first']
[]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event as Signal
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.bank.acts import BankActs
from rbank_es.bank.branches import BankBranches
from rbank_es.bank.ids import erasing_of
from rbank_es.bank.inquiry import BankInquiry
from rbank_es.bank.locator import locate, path_advice, resolve_point
from rbank_es.errors import BadInput, BankExists, BankNotFound, LimitExceeded, LogError, NotInBank
from rbank_es.events import BankCreated, Erased, Event, PolicyChoice, PolicySet, Ref, Text
from rbank_es.events.codec import with_json_texts
from rbank_es.events.items import Item, truncate
from rbank_es.events.json_input import new_event
from rbank_es.log import ANY, Appended, Erasing, Erasure, EventLog, Expected, Head, Verification
from rbank_es.system.files import replaceable

# Projections, state and policies are imported where they are used: an append needs none of them, and SQLite is slow to
# load.
if TYPE_CHECKING:
    from rbank_es.bank.canonical_check import CanonicalCheck
    from rbank_es.bank.decisions import Latest
    from rbank_es.bank.policy_record import PoliciesChanged, PolicyInForce
    from rbank_es.bank.retrieval_check import RetrievalCheck
    from rbank_es.bank.strict_check import SlipCheck
    from rbank_es.events.bank_events import PolicyKind
    from rbank_es.projections.read_models import Applied, ReadModels
    from rbank_es.projections.search_result import FoundItem
    from rbank_es.projections.view import View
    from rbank_es.state import State
    from rbank_es.state.digests import StateDigests
    from rbank_es.state.state_diff import Diff

Progress = Callable[[int, int], None]
"""Called with the number of events done and their total."""

Given = Event | Mapping[str, Any]
"""A new event, or the JSON object of one."""

PROJECTIONS = "projections.sqlite"


class Replayed(msgspec.Struct, frozen=True):
    """A bank folded to a position: its state there, and the digests by which two replays can be compared."""

    position: int
    at: str
    state: State
    digests: StateDigests


class Verified(msgspec.Struct, frozen=True):
    """The result of `verify`: of the log, of what is due, and, if asked for, of retrievals and slips of writers."""

    log: Verification
    canonical: CanonicalCheck
    unknown_policies: tuple[PolicyInForce, ...] = ()
    retrievals: RetrievalCheck | None = None
    slips: SlipCheck | None = None


class Bank(BankActs, BankBranches, BankInquiry):
    """One bank, for use as a context manager. Threads may share it; processes open the same place each."""

    def __init__(self, log: EventLog, name: str) -> None:
        self.log = log
        self.name = name
        self._models: ReadModels | None = None
        self._latest: Latest | None = None
        log.add_witness(self._projected)

    @classmethod
    def create(
        cls,
        place: str | Path,
        *,
        policies: Sequence[PolicyChoice] | None = None,
        purpose: str = "",
        by: str | None = None,
        fill: Callable[[Bank], object] | None = None,
        **options: Any,
    ) -> Bank:
        """Make a bank and record its first policies (the defaults, unless given).

        `place` is a bare name, a path, or a URL: `memory:` makes a bank that is lost when this process ends. No
        reader sees the bank before `fill` has returned; if `fill` raises, nothing is left behind.
        `options` are those of the log's engine. Raises `BankExists`, `BadBankName`, `LogUnavailable`.
        """
        from rbank_es import __version__
        from rbank_es.policies import default_policies

        engine, locator, name = locate(place)
        chosen = default_policies() if policies is None else tuple(policies)
        born = BankCreated(name=name[: limits.NAME_CHARS], release=__version__, purpose=purpose)
        filled = None if fill is None else lambda log: fill(cls(log, name))
        log = engine.create(locator, [born, PolicySet(policies=chosen, by=by)], fill=filled, **options)
        return cls(log, name)

    @classmethod
    def open(cls, place: str | Path, *, create: bool = False, **options: Any) -> Bank:
        """Open a bank; with `create`, make it with the default policies where there is none.

        `options` are those of the log's engine. Raises `BankNotFound` (without `create`), `BadBankName`, `BankExists`
        where other files are in the place, `LogCorruption`, `LogUnavailable`.
        """
        engine, locator, name = locate(place)
        try:
            return cls(engine.open(locator, **options), name)
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
        """The place of the bank, for people to read; a bank in memory is marked as such."""
        return self.log.place

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

    # ---------------------------------------------------------------- state and time

    def state(self, point: str | int | None = None, *, progress: Progress | None = None) -> State:
        """Return the state at a point, folded from the log alone."""
        from rbank_es.state import RELEVANT, RESOLVED, fold

        upto = self.resolve(point)
        # Of the types that change the state only: most of a log are calls of models and tools.
        events = self.log.read(upto=upto, types=RELEVANT, resolve=RESOLVED)
        return fold(_counted(events, upto, progress), position=upto)

    @property
    def latest(self) -> Latest:
        """The state at the head as decisions take it: kept while the bank is open, and advanced by new events."""
        from rbank_es.bank.decisions import Latest

        if self._latest is None:
            self._latest = Latest(self.log)
        return self._latest

    def policy_choice(self, kind: PolicyKind) -> PolicyChoice | None:
        """Return the record of the policy of a kind that is in force at the head, None where there is none."""
        with self.latest.at(self.position) as basis:
            return basis.state.policies.get(kind)

    def policies(self, point: str | int | None = None) -> tuple[PolicyInForce, ...]:
        """Return the policy of each kind that governs at a point, with all its settings, recorded or not."""
        from rbank_es.bank.policy_record import policies_in_force

        return policies_in_force(self.log, self.resolve(point))

    def set_policies(self, tables: Mapping[str, Any], *, by: str | None = None, why: str = "") -> PoliciesChanged:
        """Change policies in force, by kind: `{"retrieval": {"k": 3}, "forgetting": {"name": "bounded"}}`.

        What is not named stays as it is. One event records all policies; none if nothing changes. Raises `BadPolicy`.
        """
        from rbank_es.bank.policy_record import set_policies

        return set_policies(self.log, tables, by=by, why=why)

    def replay(
        self,
        to: str | int | None = None,
        *,
        into: str | Path | None = None,
        force: bool = False,
        progress: Progress | None = None,
    ) -> Replayed:
        """Fold the log to a point; with `into`, also write the read models as they were then to that file.

        Raises `BadPoint`; `BadInput` if `into` exists, unless `force` is given.
        """
        from rbank_es.state.digests import state_digests

        position = self.resolve(to)
        if into is not None:
            self._replay_into(Path(into), position, force, progress)
        state = self.state(position, progress=progress)
        return Replayed(position, self.time_at(position), state, state_digests(state))

    def _replay_into(self, into: Path, position: int, force: bool, progress: Progress | None) -> None:
        from rbank_es.projections.read_models import rebuild

        if not into.parent.is_dir():
            raise BadInput(f"{into.parent} is not a directory, so {into.name} can't be written there")
        rebuild(into, self.log, upto=position, on_batch=progress, replace=force)

    def read_models(self) -> ReadModels:
        """Return the bank's read models without bringing them up to date."""
        from rbank_es.projections.read_models import ReadModels

        if self._models is None:
            self._models = ReadModels.open(self.log.derived_directory / PROJECTIONS, sealed=True)
        return self._models

    def _projected(self) -> int:
        """Return the highest position that the read models have: its events were on disk before their rows."""
        try:
            if not (self.log.derived_directory / PROJECTIONS).exists():
                return 0  # found out without SQLite, which an append need not load
            return max((point.position for point in self.read_models().checkpoints().values()), default=0)
        except (LogError, OSError):
            return 0

    def project(
        self, *, only: Collection[str] | None = None, rebuild: bool = False, progress: Progress | None = None
    ) -> Applied:
        """Bring the read models up to the head, or `rebuild` them from the whole log. Raises `ProjectionError`."""
        models = self.read_models()
        if rebuild:
            return models.rebuild(self.log, only=only, on_batch=progress)
        return models.catch_up(self.log, only=only, on_batch=progress)

    def write_read_models(self, into: str | Path, *, force: bool = False, progress: Progress | None = None) -> Applied:
        """Write all read models, as of the head, to an SQLite file for other programs; return what was applied.

        A file of read models that is there is replaced; any other one only with `force`. The file is whole, or as it
        was. Raises `BadInput`, `CannotWrite`, `ProjectionError`.
        """
        from rbank_es.projections.read_models import holds_read_models

        place = replaceable(into)
        if place.exists() and not force and not holds_read_models(place):
            raise BadInput(f"{place} is a file of another kind; choose another name, or give --force to replace it")
        return self.read_models().write_to(place, self.log, on_batch=progress)

    def as_of(self, point: str | int | None = None) -> View:
        """Return a read-only view at a point: items, runs, counters, search. Close it, or use it in a `with`.

        Never writes: if the read models are behind or unusable, the view is of a temporary copy.
        """
        return self.read_models().as_of(self.resolve(point), self.log)

    def live(self) -> View:
        """Return a view of the head, as `as_of` does; first bring the read models up to it, if they can be written.

        Where many views are asked for while others append, this is quicker: a temporary copy is as large as the bank.
        """
        return self.read_models().caught_up(self.log)

    def _view(self, point: str | int | None) -> View:
        return self.live() if point is None else self.as_of(point)

    def search(
        self,
        query: str,
        k: int | None = None,
        *,
        polarity: str | None = None,
        role: str | None = None,
        domain: str | None = None,
        point: str | int | None = None,
    ) -> list[FoundItem]:
        """Return the active items that fit a query best, by the retrieval policy in force; ties are broken by item id.

        The query is plain words without any syntax. `k` is the policy's unless given; `domain` is
        the one that the query is about, whose items the policy may prefer. Raises `BadSearch`.
        """
        with self._view(point) as view:
            return view.search(query, k, polarity=polarity, role=role, domain=domain)

    def get(self, ids: Sequence[str], *, max_n: int = limits.READ_ITEMS, point: str | int | None = None) -> list[Item]:
        """Return items in full, in any state; at most `max_n`. Raises `LimitExceeded`, `NotInBank`."""
        if len(ids) > max_n:
            raise LimitExceeded("items asked for", len(ids), max_n, "ask for fewer, or raise max_n")
        with self._view(point) as view:
            return [self._item(view, item_id) for item_id in ids]

    def _item(self, view: View, item_id: str) -> Item:
        row = view.item(item_id)
        if row is None:
            raise NotInBank(item_id, view.position)
        named = {name: row[name] for name in Item.__struct_fields__ if name != "tags"}
        return msgspec.convert({**named, "tags": msgspec.json.decode(row["tags"])}, Item)

    def quote(self, item_id: str, max_chars: int = limits.QUOTE_CHARS, *, point: str | int | None = None) -> str:
        """Return the beginning of an item's content, as `truncate` does. Raises `NotInBank`."""
        if max_chars < 1:
            raise BadInput(f"max_chars is {max_chars}; it must be at least 1")
        with self._view(point) as view:
            return truncate(self._item(view, item_id).content, max_chars)

    def diff(self, before: str | int | None, after: str | int | None) -> Diff:
        """Compare two points: items, their states, support, uses, wins; runs; policies."""
        from rbank_es.state.state_diff import diff_states

        return diff_states(self.state(before), self.state(after))

    # ---------------------------------------------------------------- checking and erasing

    def verify(
        self,
        *,
        noted: Sequence[Head] = (),
        retrievals: bool = False,
        decisions: bool = False,
        strict: bool = False,
        progress: Progress | None = None,
    ) -> Verified:
        """Check every byte of the log, heads noted before, and whether a correction is due.

        Also, with `retrievals`, every recorded retrieval; with `decisions`, whether every decision is the one that
        today's verdicts lead to; with `strict`, facts that have no subject.
        Raises `LogCorruption` for damage, `CheckFailed` if a noted head or a retrieval does not hold.
        """
        from rbank_es.bank.retrieval_check import check_retrievals
        from rbank_es.bank.strict_check import check_slips

        seen = self.log.verify(noted)
        canonical = self.check_canonical(decisions=decisions, progress=progress)
        check = check_retrievals(self.log, progress) if retrievals else None
        if check is not None:
            check.require_same()
        unknown = tuple(each for each in self.policies() if each.problem)
        return Verified(seen, canonical, unknown, check, check_slips(self.log, progress) if strict else None)

    def erase(
        self,
        *,
        event: int | None = None,
        item: str | None = None,
        run: str | None = None,
        text: str | None = None,
        reason: str = "",
        by: str | None = None,
        dry_run: bool = False,
    ) -> Erasure:
        """Remove the texts of an event, an item or a run, or one text, and every text that holds the same words.

        Words are found in any form, as `rbank_es.log.sought_words` reads them. A text that is also the whole of a text
        of another run stays there, and so does a tag that other items have. Ids, numbers, times and lengths stay; heads
        noted before still verify. Read models are rebuilt, then all files are searched again: see `residue`.
        Raises `BadInput` unless exactly one target is named, `NotInBank` if it does not exist.
        """
        given = [name for name, value in (("event", event), ("item", item), ("run", run), ("text", text)) if value]
        if len(given) != 1:
            raise BadInput("name exactly one thing to erase: event, item, run or text")
        what = Erasing(words=(text,)) if text else erasing_of(self, event, item, run)
        return self.log.erase(what, reason=reason, by=by, dry_run=dry_run, rebuild=self.project)

    # ---------------------------------------------------------------- closing

    def close(self) -> None:
        """Release files. A closed bank opens again when it is used."""
        if self._models is not None:
            self._models.close()
            self._models = None
        self._latest = self._corrector = None
        self.log.close()

    def __enter__(self) -> Bank:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Bank({self.place!r})"


def _event(given: Event | Mapping[Any, Any]) -> Event:
    return with_json_texts(given) if isinstance(given, Event) else new_event(dict(given))


def _all_types() -> Collection[str]:
    from rbank_es.events.codec import event_types

    return event_types().keys()


def _counted(events: Iterable[Event], upto: int, progress: Progress | None) -> Iterator[Event]:
    for number, event in enumerate(events):  # every thousandth: a call per event would cost more than the fold
        if progress is not None and number % 1000 == 0:
            progress(event.seq, upto)
        yield event
