"""The runs that items which left had misled, and the items drawn from these runs or that a person's word keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from rbank_es.events.run_events import VerdictValue
from rbank_es.law.bank_state import ItemState, Pair, State
from rbank_es.law.validity import witnesses_of


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


def verdict_on(state: State, run: str) -> VerdictValue | None:
    """Return the standing verdict for learning of a run; None if nobody judged it."""
    found = state.verdicts.get((run, "learning"))
    return None if found is None else found.verdict


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
