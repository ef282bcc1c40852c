"""Ids of runs, items and events: whole where something is written, by any unambiguous beginning where it is only read,
with suggestions for those that are none; and the texts that an erasure of one of them names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from rbank_es import limits
from rbank_es.errors import AmbiguousId, BadInput, NotInBank
from rbank_es.log import Erasing

if TYPE_CHECKING:
    from rbank_es.bank.bank_access import OpenBank
    from rbank_es.law import State
    from rbank_es.log import EventLog


class Named(Protocol):
    """A source of the ids of runs and items: a view, or a state."""

    @property
    def position(self) -> int:
        """The position as of which it knows them."""
        ...

    def ids(self, kind: str, beginning: str, at_most: int) -> list[str]:
        """Return the ids of a kind that begin so, in order."""
        ...


class StateIds:
    """The ids of the runs and items of a state, whether or not a run began."""

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def position(self) -> int:
        """The position of the state."""
        return self._state.position

    def ids(self, kind: str, beginning: str, at_most: int) -> list[str]:
        """Return the ids of a kind that begin so, in order."""
        state = self._state
        # The whole id comes first of those that begin so; a file of verdicts has thousands to look up.
        if at_most == 1 and self._is_known(kind, beginning):
            return [beginning]
        if kind == "item":
            known = {id for id, record in state.records.items() if record.pairs and id.startswith(beginning)}
        else:
            judged = {run for run, _ in state.verdicts}
            known = {run for run in (*state.runs, *judged, *state.relying) if run.startswith(beginning)}
        return sorted(known)[:at_most]

    def _is_known(self, kind: str, id: str) -> bool:
        state = self._state
        if kind == "item":
            return id in state.records and bool(state.records[id].pairs)
        judged = any((id, purpose) in state.verdicts for purpose in ("learning", "scoring"))
        return judged or id in state.runs or id in state.relying


_UUID_BEGINS = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.ASCII)


class _StoredEvent(msgspec.Struct):
    """The fields of a stored line that name its event."""

    seq: int
    id: str


_STORED_EVENT = msgspec.json.Decoder(_StoredEvent)


def whole_id(view: Named, kind: str, given: str) -> str:
    """Return the id of the run or item (`kind`) that is `given`, or that alone begins so, as of the view's position.

    Raises `NotInBank`, with the nearest ids, and `AmbiguousId`, with those that begin so.
    """
    found = view.ids(kind, given, limits.IDS_NAMED) if given else []
    if given in found or len(found) == 1:
        return given if given in found else found[0]
    if found:
        raise AmbiguousId(given, [f"{kind} {each}" for each in found])
    raise not_in_bank(view, given, [kind])


def recorded_run(bank: OpenBank, given: str, position: int) -> str:
    """Return the id of the run that is `given`, or alone begins so, of those with events up to a position.

    Raises as `whole_id`.
    """
    # The log first: an id that is written whole needs no read model, and may be of a run that never began.
    if given and next(bank.log.read(upto=position, run=given), None) is not None:
        return given
    with bank.live(position) as view:
        return whole_id(view, "run", given)


def exact_id(view: Named, kind: str, given: str) -> str:
    """Return the id of the run or item (`kind`) that is exactly `given`, as of the view's position.

    Raises `NotInBank`, with the ids that begin so, else with the nearest: an act on the wrong one would be recorded for
    ever. Raises `BadInput` for what is no text.
    """
    if not isinstance(given, str):
        raise BadInput(f"an id is a text, and {type(given).__name__} was given; whatever is recorded has it as .id")
    if given and view.ids(kind, given, 1) == [given]:
        return given
    found = view.ids(kind, given, limits.IDS_NAMED) if given else []
    if found:
        advice = f"write the whole id where something is recorded: {' or '.join(found)}"
        raise NotInBank(given, view.position, kind=kind, advice=advice)
    raise not_in_bank(view, given, [kind])


def not_in_bank(view: Named, given: str, kinds: Sequence[str]) -> NotInBank:
    """Return the error for an id that begins none of the kinds' ids, with the nearest of those."""
    import difflib  # imported here, because only those who mistype need it

    known = [each for kind in kinds if kind != "event" for each in view.ids(kind, "", limits.IDS_COMPARED)]
    near = difflib.get_close_matches(given, known, n=limits.IDS_NAMED // 2)
    words = " or ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)
    empty = not (known or ("event" in kinds and view.position))
    advice = f"did you mean {' or '.join(near)}?" if near else "the bank has none yet" if empty else ""
    return NotInBank(given, view.position, kind=words, advice=advice)


def events_beginning(log: EventLog, given: str, upto: int, at_most: int) -> list[int]:
    """Return the positions, `at_most` so many, of the events whose ids begin so; none for under 8 hex digits."""
    if not _UUID_BEGINS.fullmatch(given):
        return []
    # Every line is looked at: the index of ids knows whole ones only.
    mark, found = f'"id":"{given}'.encode(), []
    for line in log.lines(upto=upto):
        if mark in line and (stored := _STORED_EVENT.decode(line)).id.startswith(given):
            found.append(stored.seq)
            if len(found) == at_most:
                break
    return found


def erasing_of(log: EventLog, event: int | None, item: str | None, run: str | None) -> Erasing:
    """Return the target of an erasure: an event, an item or a run. Raises `NotInBank` if it does not exist."""
    if event is not None:
        if not 1 <= event <= log.position():
            raise NotInBank(str(event), log.position())
        return Erasing(events=frozenset({event}))
    if item is not None:
        from rbank_es.log.erasure import paths_of_item

        paths = tuple(paths_of_item(log.read(types=("memories_extracted", "memory_proposed")), item))
        if not paths:
            raise NotInBank(item, log.position())
        return Erasing(paths=paths)
    events = frozenset(entry.seq for entry in log.read(run=run))
    if not events:
        raise NotInBank(str(run), log.position())
    return Erasing(events=events, run=run)
