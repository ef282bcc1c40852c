"""The difference between two states of a bank: one value, whoever asks for it and whatever made the change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from rbank_es.answers.shared.question_form import BankAnswer
from rbank_es.events import PolicyChoice
from rbank_es.events.run_events import Outcome, VerdictValue
from rbank_es.law import ItemStatus, State, outcomes, usage
from rbank_es.policies.policy_registry import PolicyDifference, differences

if TYPE_CHECKING:
    from rbank_es.projections.view import View


class ItemValues(Struct, frozen=True, kw_only=True):
    """What may change of an item: its state, its support, and the runs that count as its uses, by their verdicts.

    `erased`: its words were erased.
    """

    state: ItemStatus
    support: int
    uses: int
    wins: int
    losses: int
    erased: bool


class ItemDifference(Struct, frozen=True, kw_only=True):
    """An item before and after; None where it isn't there. The title is empty where it was erased."""

    id: str
    title: str
    before: ItemValues | None
    after: ItemValues | None

    @property
    def left(self) -> bool:
        """Whether it was active and isn't any more."""
        return _is_active(self.before) and not _is_active(self.after)

    @property
    def came(self) -> bool:
        """Whether it is active and wasn't."""
        return _is_active(self.after) and not _is_active(self.before)


class RunValues(Struct, frozen=True, kw_only=True):
    """What may change of a run: how it ended, and the verdicts that stand, for learning and for scoring."""

    outcome: Outcome | None = None
    iterations: int = 0
    verdict: VerdictValue | None = None
    score: VerdictValue | None = None


class RunDifference(Struct, frozen=True, kw_only=True):
    """A run before and after; None where it had neither begun nor a verdict."""

    run: str
    before: RunValues | None
    after: RunValues | None


class Difference(BankAnswer, frozen=True, kw_only=True):
    """What changed from one state to another: of items in order of id, of runs in order of id, of policies by kind.

    `position` is that of the state after, `since_seq` that of the state before.
    """

    since_seq: int
    items: tuple[ItemDifference, ...] = ()
    runs: tuple[RunDifference, ...] = ()
    policies: tuple[PolicyDifference, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the two states are equal."""
        return not (self.items or self.runs or self.policies)

    @property
    def left(self) -> tuple[ItemDifference, ...]:
        """The items that were active and aren't any more."""
        return tuple(each for each in self.items if each.left)

    @property
    def came(self) -> tuple[ItemDifference, ...]:
        """The items that are active and weren't: restored, or newly born."""
        return tuple(each for each in self.items if each.came)


class ActDifference(Difference, frozen=True, kw_only=True):
    """What an act changed, or with `dry_run` would change.

    `first_seq` and `last_seq` are the positions of the group of events that it appended last, or would; None where
    there was nothing to do. `recorded`: the events were appended.
    """

    first_seq: int | None = None
    last_seq: int | None = None
    recorded: bool = False


D = TypeVar("D", bound=Difference)


def difference_as(kind: type[D], found: Difference, **facts: Any) -> D:
    """Return a difference as one of another kind, with the facts that this has beyond."""
    return kind(**{name: getattr(found, name) for name in Difference.__struct_fields__} | facts)


class BankFacts(NamedTuple):
    """What a difference compares, of a bank at one position: titles and facts of items, runs, policies."""

    position: int
    items: Mapping[str, tuple[str, ItemValues]]
    runs: Mapping[str, RunValues]
    policies: tuple[PolicyChoice, ...]


def difference(bank: str, before: State, after: State) -> Difference:
    """Return what changed from a state of a bank to another."""
    return compared(bank, facts_of(before), facts_of(after))


def compared(bank: str, before: BankFacts, after: BankFacts) -> Difference:
    """Return what changed from the facts of a bank, or of another one, to these."""
    items = _changed(before.items, after.items)
    return Difference(
        bank=bank,
        since_seq=before.position,
        position=after.position,
        items=tuple(_item(id, old, new) for id, old, new in items if _facts(old) != _facts(new)),
        runs=tuple(
            RunDifference(run=run, before=old, after=new) for run, old, new in _changed(before.runs, after.runs)
        ),
        policies=differences(before.policies, after.policies),
    )


def facts_of(state: State) -> BankFacts:
    """Return what a difference compares, of a state."""
    used, judged = usage(state), outcomes(state)
    return BankFacts(
        position=state.position,
        items={
            id: (
                entry.item.title,
                ItemValues(
                    state=entry.state,
                    support=entry.support,
                    uses=used.get(id, (0, 0))[0],
                    wins=judged.get(id, (0, 0))[0],
                    losses=judged.get(id, (0, 0))[1],
                    erased=entry.erased,
                ),
            )
            for id, entry in state.items.items()
        },
        runs=_runs(
            {run: (each.outcome, each.iterations) for run, each in state.runs.items()},
            {key: each.verdict for key, each in state.verdicts.items()},
        ),
        policies=tuple(state.policies.values()),
    )


ITEM_COLUMNS = ("id", "title", *ItemValues.__struct_fields__)


def facts_at(view: View) -> BankFacts:
    """Return what a difference compares, of the read models at a position: the same as of the state there."""
    rows = (dict(zip(ITEM_COLUMNS, row, strict=True)) for row in view.pick("items", ITEM_COLUMNS))
    began = view.pick("runs", ("run", "outcome", "iterations"))
    verdicts = view.spans("verdicts", ("run", "purpose", "verdict"))
    return BankFacts(
        position=view.position,
        items={row["id"]: (row["title"], msgspec.convert(row, ItemValues, strict=False)) for row in rows},
        runs=_runs(
            {run: (outcome, iterations) for run, outcome, iterations in began},
            {(str(run), str(purpose)): verdict for run, purpose, verdict, _, to_seq in verdicts if to_seq is None},
        ),
        policies=tuple(
            PolicyChoice(
                kind=row["kind"],
                name=row["name"],
                version=row["version"],
                settings=msgspec.json.decode(row["settings"]),
            )
            for row in view.rows("policies")
        ),
    )


def _runs(began: Mapping[str, tuple[object, int]], verdicts: Mapping[tuple[str, str], object]) -> dict[str, RunValues]:
    # A run may be judged that never began here.
    return {
        run: msgspec.convert(
            {
                **dict(zip(("outcome", "iterations"), began.get(run, (None, 0)), strict=True)),
                "verdict": verdicts.get((run, "learning")),
                "score": verdicts.get((run, "scoring")),
            },
            RunValues,
        )
        for run in dict.fromkeys([*began, *(run for run, _ in verdicts)])
    }


Value = TypeVar("Value")


def _changed(
    before: Mapping[str, Value], after: Mapping[str, Value]
) -> Iterator[tuple[str, Value | None, Value | None]]:
    """Yield what differs, in order of its name, with both sides."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            yield name, old, new


def _item(id: str, old: tuple[str, ItemValues] | None, new: tuple[str, ItemValues] | None) -> ItemDifference:
    known = new or old
    return ItemDifference(id=id, title=known[0] if known else "", before=_facts(old), after=_facts(new))


def _facts(side: tuple[str, ItemValues] | None) -> ItemValues | None:
    return None if side is None else side[1]


def _is_active(side: ItemValues | None) -> bool:
    return side is not None and side.state == "active"
