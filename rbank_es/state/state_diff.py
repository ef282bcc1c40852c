"""Differences between two states of a bank, or of two banks, as a pure function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from rbank_es.events import PolicyChoice
from rbank_es.events.short_repr import Shown
from rbank_es.state import ItemState, State, usage


class Change(msgspec.Struct, frozen=True):
    """One value that differs: its name in `what`, and its values `before` and `after` (None where absent)."""

    what: str
    before: Any
    after: Any


class ItemDiff(msgspec.Struct, frozen=True):
    """The differences of one item."""

    id: str
    title: str
    changes: tuple[Change, ...]


class RunDiff(msgspec.Struct, frozen=True):
    """The differences of one run."""

    run: str
    changes: tuple[Change, ...]


class Diff(Shown, msgspec.Struct, frozen=True):
    """All differences between two states: `added` and `removed` are items in one of them only."""

    before: int
    after: int
    added: tuple[ItemDiff, ...]
    removed: tuple[ItemDiff, ...]
    changed: tuple[ItemDiff, ...]
    runs: tuple[RunDiff, ...]
    policies: tuple[Change, ...]

    @property
    def empty(self) -> bool:
        """Whether the two states are equal."""
        return not (self.added or self.removed or self.changed or self.runs or self.policies)


def diff_states(before: State, after: State) -> Diff:
    """Return the differences from `before` to `after`, in order of id."""
    known = {name: _items(state) for name, state in (("before", before), ("after", after))}
    old, new = known["before"], known["after"]
    return Diff(
        before=before.position,
        after=after.position,
        added=tuple(_item(after.items[id_], {}, new[id_]) for id_ in sorted(new.keys() - old.keys())),
        removed=tuple(_item(before.items[id_], old[id_], {}) for id_ in sorted(old.keys() - new.keys())),
        changed=tuple(
            _item(after.items[id_], old[id_], new[id_])
            for id_ in sorted(old.keys() & new.keys())
            if old[id_] != new[id_]
        ),
        runs=_runs(before, after),
        policies=tuple(_policies(before, after)),
    )


def _items(state: State) -> dict[str, dict[str, Any]]:
    used = usage(state)
    return {id_: _facts(entry, *used.get(id_, (0, 0))) for id_, entry in state.items.items()}


def _facts(entry: ItemState, uses: int, wins: int) -> dict[str, Any]:
    words = {name: getattr(entry.item, name) for name in ("title", "desc", "content")}
    return {"state": entry.state, "support": entry.support, "uses": uses, "wins": wins, "erased": entry.erased} | words


def _item(entry: ItemState, before: dict[str, Any], after: dict[str, Any]) -> ItemDiff:
    return ItemDiff(entry.item.id, entry.item.title, _changes(before, after))


def _changes(before: dict[str, Any], after: dict[str, Any]) -> tuple[Change, ...]:
    # In the order of the facts, not of the alphabet: people read state and support first.
    names = list(dict.fromkeys([*before, *after]))
    return tuple(
        Change(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)
    )


def _runs(before: State, after: State) -> tuple[RunDiff, ...]:
    names = sorted(before.runs.keys() | after.runs.keys())
    found = (RunDiff(name, _changes(_run(before, name), _run(after, name))) for name in names)
    return tuple(entry for entry in found if entry.changes)


def _run(state: State, run: str) -> dict[str, Any]:
    if run not in state.runs:
        return {}
    facts: dict[str, Any] = {"outcome": state.runs[run].outcome or "running", "iterations": state.runs[run].iterations}
    for purpose in ("learning", "scoring"):
        verdict = state.verdicts.get((run, purpose))
        if verdict is not None:
            facts[purpose] = verdict.verdict
    return facts


def _policies(before: State, after: State) -> Iterator[Change]:
    """Yield another policy by its kind; of the same policy, each setting that differs."""
    for kind in dict.fromkeys([*before.policies, *after.policies]):
        old, new = before.policies.get(kind), after.policies.get(kind)
        if (label := _label(old)) != _label(new):
            yield Change(kind, label, _label(new))
        elif old is not None and new is not None:
            yield from _changes(_settings(old), _settings(new))


def _label(choice: PolicyChoice | None) -> str | None:
    return None if choice is None else f"{choice.name}-{choice.version}"


def _settings(choice: PolicyChoice) -> dict[str, Any]:
    return {f"{choice.kind}.{name}": value for name, value in choice.settings.items()}
