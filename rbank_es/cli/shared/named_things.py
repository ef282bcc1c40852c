"""Things of a bank that a command line names: an item, a run or an event, by its id, the beginning of one, or its
position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.ids import events_beginning, not_in_bank
from rbank_es.errors import AmbiguousId, BadInput
from rbank_es.system.whole_number import whole_number

if TYPE_CHECKING:
    from rbank_es.projections.view import View

KINDS = ("item", "run", "event")


class ShownMoment(NamedTuple):
    """A bank with its view at a position."""

    bank: Bank
    view: View
    position: int


def find_thing(then: ShownMoment, thing: str) -> tuple[str, str]:
    """Return the kind and the name of THING, which may be `item:ID`, `run:ID`, `event:ID` or a beginning of an id.

    Raises `NotInBank`, `BadInput` where it is ambiguous.
    """
    prefix, _, rest = thing.partition(":")
    wanted = (prefix,) if prefix in KINDS and rest else KINDS
    name = rest if len(wanted) == 1 else thing
    kinds = [kind for kind in wanted if _is_there(then, kind, name)]
    if not kinds:
        return _beginning(then, wanted, name)
    if len(kinds) > 1:
        choices = " or ".join(f"{kind}:{name}" for kind in kinds)
        raise BadInput(f"{name!r} is {' and '.join(map(_with_article, kinds))}; write {choices}")
    return kinds[0], name


def _beginning(then: ShownMoment, kinds: Sequence[str], given: str) -> tuple[str, str]:
    """Return the one thing of these kinds whose id begins as given. Raises `NotInBank`, `AmbiguousId`."""
    found = [(kind, id) for kind in kinds for id in _ids(then, kind, given)] if given else []
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousId(given, [f"{kind}:{id}" for kind, id in found[: limits.IDS_NAMED]])
    raise not_in_bank(then.view, given, kinds)


def _ids(then: ShownMoment, kind: str, given: str) -> Iterable[str]:
    if kind != "event":
        return then.view.ids(kind, given, limits.IDS_NAMED)
    return map(str, events_beginning(then.bank.log, given.lower(), then.position, limits.IDS_NAMED))


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _is_there(then: ShownMoment, kind: str, name: str) -> bool:
    if kind == "item":
        return then.view.item(name) is not None
    if kind == "run":
        return then.view.run(name) is not None
    return position_of(then, name) is not None


def position_of(then: ShownMoment, name: str) -> int | None:
    """Return the position of the event with this id or at this position, None where it is not there yet."""
    seq = whole_number(name)
    if seq is None:
        seq = then.bank.log.seq_of_id(name.lower())
    return seq if seq is not None and 1 <= seq <= then.position else None
