"""The effect of a correction, as a value: verdicts, items, uses and wins, and the runs and items that were misled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from rbank_es.events.run_events import VerdictValue
from rbank_es.state import ItemStatus, State, counted_uses
from rbank_es.state.bank_state import ItemState, Pair
from rbank_es.state.validity import witnesses_of


class VerdictChange(Struct, frozen=True, kw_only=True):
    """The standing verdict for learning of a run, before and after; None where nobody judged it.

    `given` is the verdict that was given; it differs from `after` where the judgment was weaker than the standing one.
    """

    run: str
    before: VerdictValue | None
    after: VerdictValue | None
    given: VerdictValue


class ItemChange(Struct, frozen=True, kw_only=True):
    """The state of an item, before and after; `before` is None for one that was newly born. The title of an item
    whose words were erased is empty."""

    id: str
    title: str
    before: ItemStatus | None
    after: ItemStatus


class UsageChange(Struct, frozen=True, kw_only=True):
    """Wins of an item, before and after, and its uses, which no correction changes."""

    id: str
    uses: int
    wins_before: int
    wins_after: int


class MisledRun(Struct, frozen=True, kw_only=True):
    """A run that had been given items that left the bank."""

    run: str
    items: tuple[str, ...]


class TaintedItem(Struct, frozen=True, kw_only=True):
    """An item with a standing candidate of an extraction from a misled run."""

    id: str
    title: str
    extraction: str
    run: str


class Vouched(Struct, frozen=True, kw_only=True):
    """An item that stays though no candidate in its words counts, because somebody restored it at a position."""

    id: str
    title: str
    seq: int


class Correction(Struct, frozen=True, kw_only=True):
    """The effect that a correction had, or would have.

    correction  id of the correction, empty if nothing was appended
    first, last positions of its last group, 0 if nothing was appended
    verdicts    verdicts that were given
    items       items whose state changed, in order of id
    usage       items whose wins changed, in order of id
    misled      runs that had been given items that left
    tainted     items that were drawn from such runs and are active or pending
    aside       extractions that were set aside because they were drawn from such runs
    stays       items that would have left, but for a person who vouched for them
    to_extract  runs from which nothing was drawn under the verdicts that stand now, with the rollouts that teach
                together with them; a model can do that
    decided     number of decisions that differ, which were recorded again
    """

    correction: str = ""
    first: int = 0
    last: int = 0
    verdicts: tuple[VerdictChange, ...] = ()
    items: tuple[ItemChange, ...] = ()
    usage: tuple[UsageChange, ...] = ()
    misled: tuple[MisledRun, ...] = ()
    tainted: tuple[TaintedItem, ...] = ()
    aside: tuple[str, ...] = ()
    stays: tuple[Vouched, ...] = ()
    to_extract: tuple[str, ...] = ()
    decided: int = 0

    @property
    def left(self) -> tuple[ItemChange, ...]:
        """The items that left the active bank."""
        return tuple(change for change in self.items if change.before == "active")

    @property
    def came(self) -> tuple[ItemChange, ...]:
        """The items that are active now and were not: restored, or newly born."""
        return tuple(change for change in self.items if change.after == "active")


def verdict_on(state: State, run: str) -> VerdictValue | None:
    """Return the standing verdict for learning of a run; None if nobody judged it."""
    found = state.verdicts.get((run, "learning"))
    return None if found is None else found.verdict


def item_changes(before: State, after: State, ids: Iterable[str]) -> tuple[ItemChange, ...]:
    """Return the items, of some, whose state differs, in order of id."""
    made = []
    for id in sorted(ids):
        old, new = before.items.get(id), after.items[id]
        if (None if old is None else old.state) != new.state:
            made.append(
                ItemChange(id=id, title=new.item.title, before=None if old is None else old.state, after=new.state)
            )
    return tuple(made)


def usage_changes(before: State, after: State, runs: Iterable[str]) -> tuple[UsageChange, ...]:
    """Return the items whose wins differ because verdicts on some runs do, in order of id."""
    gained = {run: (verdict_on(after, run) == "success") - (verdict_on(before, run) == "success") for run in runs}
    gained = {run: gain for run, gain in gained.items() if gain}
    made = []
    for id, users in counted_uses(before).items() if gained else ():
        gain = sum(gained[run] for run in gained.keys() & users.keys())
        if gain:
            won = sum(verdict_on(before, run) == "success" for run in users)
            made.append(UsageChange(id=id, uses=len(users), wins_before=won, wins_after=won + gain))
    return tuple(sorted(made, key=lambda change: change.id))


def causes_of_loss(state: State, item: str, runs: Iterable[str]) -> set[str]:
    """Return the runs, of some, whose verdicts ended an item; all of them where it left by a decision made again."""
    found = set[str]()
    for extraction, _ in state.records[item].pairs:
        known = state.extractions[extraction]
        found.update(run for run, verdict in known.relied if verdict_on(state, run) not in (None, verdict))
        found.update(run for run, verdict in known.aside if verdict_on(state, run) == verdict)
    given = set(runs)
    return found & given or given


def misled_runs(state: State, left: Iterable[str]) -> tuple[MisledRun, ...]:
    """Return the runs that had been given items, in order of their first use."""
    given: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    for id in sorted(left):
        for run, seq in state.uses.get(id, {}).items():
            given.setdefault(run, []).append(id)
            first[run] = min(first.get(run, seq), seq)
    return tuple(
        MisledRun(run=run, items=tuple(given[run])) for run in sorted(given, key=lambda run: (first[run], run))
    )


def tainted_extractions(state: State, misled: Iterable[MisledRun]) -> dict[str, str]:
    """Return the standing extractions from misled runs, each with the run, that were made after the run was misled."""
    found: dict[str, str] = {}
    for each in misled:
        since = min(state.uses[item][each.run] for item in each.items)
        for extraction in state.relying.get(each.run, ()):
            known = state.extractions[extraction]
            if known.stands and known.seq > since:
                found.setdefault(extraction, each.run)
    return found


def tainted_items(state: State, extractions: Mapping[str, str]) -> tuple[TaintedItem, ...]:
    """Return the items that extractions brought or support, in order of id."""
    made: dict[str, TaintedItem] = {}
    for extraction, run in extractions.items():
        for pair in pairs_of(state, extraction):
            known = state.pairs[pair]
            if known.undone:
                continue
            for id in (known.item, *(known.targets if known.action == "skip" else ())):
                entry = state.items.get(id)
                if entry is not None and entry.state in ("active", "pending") and known.action != "discard":
                    made.setdefault(id, TaintedItem(id=id, title=entry.item.title, extraction=extraction, run=run))
    return tuple(made[id] for id in sorted(made))


def pairs_of(state: State, extraction: str) -> list[Pair]:
    """Return the candidates of an extraction that were decided on."""
    pairs = ((extraction, index) for index in range(state.extractions[extraction].size))
    return [pair for pair in pairs if pair in state.pairs]


def stays(state: State, pairs: Iterable[Pair]) -> tuple[Vouched, ...]:
    """Return the active items that rest on somebody's word alone, of those that some candidates concern."""
    ids = {id for pair in pairs for id in (state.pairs[pair].item, *state.pairs[pair].targets)}
    made = []
    for id in sorted(ids):
        entry = state.items.get(id)
        if entry is not None and entry.state == "active" and entry.vouched and not _own_words_stand(state, entry):
            seq = next(seq for seq, act in state.records[id].acts() if act == "vouched")
            made.append(Vouched(id=id, title=entry.item.title, seq=seq))
    return tuple(made)


def _own_words_stand(state: State, entry: ItemState) -> bool:
    return any(
        state.pairs[pair].item == entry.item.id and witnesses_of(pair, state)
        for pair in state.records[entry.item.id].landed
    )
