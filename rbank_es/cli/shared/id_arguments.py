"""Things of a bank that a command line names: an item, a run or an event, by its id, the beginning of one, or its
position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rbank_es import limits
from rbank_es.answers import BankReader
from rbank_es.answers.event import position_of
from rbank_es.bank.id_lookup import events_beginning, not_in_bank
from rbank_es.errors import AmbiguousId, BadInput

KINDS = ("item", "run", "event")


def find_thing(reader: BankReader, thing: str) -> tuple[str, str]:
    """Return the kind and the name of THING, which may be `item:ID`, `run:ID`, `event:ID` or a beginning of an id.

    Raises `NotInBank`, `BadInput` where it is ambiguous.
    """
    prefix, _, rest = thing.partition(":")
    wanted = (prefix,) if prefix in KINDS and rest else KINDS
    name = rest if len(wanted) == 1 else thing
    kinds = [kind for kind in wanted if _is_there(reader, kind, name)]
    if not kinds:
        return _beginning(reader, wanted, name)
    if len(kinds) > 1:
        choices = " or ".join(f"{kind}:{name}" for kind in kinds)
        raise BadInput(f"{name!r} is {' and '.join(map(_with_article, kinds))}; write {choices}")
    return kinds[0], name


def _beginning(reader: BankReader, kinds: Sequence[str], given: str) -> tuple[str, str]:
    """Return the one thing of these kinds whose id begins as given. Raises `NotInBank`, `AmbiguousId`."""
    found = [(kind, id) for kind in kinds for id in _ids(reader, kind, given)] if given else []
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousId(given, [f"{kind}:{id}" for kind, id in found[: limits.IDS_NAMED]])
    raise not_in_bank(reader.view, given, kinds)


def _ids(reader: BankReader, kind: str, given: str) -> Iterable[str]:
    if kind != "event":
        return reader.view.ids(kind, given, limits.IDS_NAMED)
    return map(str, events_beginning(reader.bank.log, given.lower(), reader.position, limits.IDS_NAMED))


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _is_there(reader: BankReader, kind: str, name: str) -> bool:
    if kind == "event":
        return position_of(reader, name) is not None
    return reader.view.ids(kind, name, 1) == [name]
