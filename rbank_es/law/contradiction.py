"""Corrections of rejected words: they say the opposite, or another number, unit, date or name, in their place.

The lists are closed. An exchange of any other word may be a synonym, which says again what somebody rejected; so does
another name of the same unit (feet, foot; metres, meters), and another form of a number (5, 5.0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from rbank_es.events.items import Item
from rbank_es.law.likeness import content_of, token_set
from rbank_es.law.statement_reader import stem

_UNITS = """
foot feet inch yard mile metre meter kilometre kilometer centimetre centimeter millimetre millimeter km cm mm
gram kilogram milligram pound ounce ton tonne kg mg lb oz litre liter gallon
millisecond second minute hour day week month year ms
bit byte kilobyte megabyte gigabyte kb mb gb tb kib mib gib
watt kilowatt megawatt kw mw gw volt kilovolt kv ampere hertz khz mhz ghz pascal bar psi
celsius fahrenheit kelvin degree radian percent % permille euro dollar cent $ € £ eur usd gbp
"""
_MONTHS = "january february march april may june july august september october november december"
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_OPPOSITES = """
before after / min max / minimum maximum / first last / ascend descend / asc desc / more less fewer / most least
above below / over under / include exclude / with without / always never / allow forbid forbidden prohibit deny
left right / open close / true false / increase decrease / upper lower / high low / higher lower / highest lowest
large small / larger smaller / largest smallest / longer shorter / longest shortest / newer older / newest oldest
earlier later / earliest latest / start end / begin end / inside outside / input output / read write
north south east west / success failure / enable disable / all none / required optional / public private
import export / parent child / subject object / source target / row column / up down / top bottom / greater smaller
subclass superclass / accept reject / add remove / lock unlock / positive negative / internal external / even odd
same different
"""

_SAME = """
foot feet / metre meter / kilometre kilometer km / centimetre centimeter cm / millimetre millimeter mm
kilogram kg / milligram mg / pound lb / ounce oz / ton tonne / litre liter / millisecond ms
kilobyte kb / megabyte mb / gigabyte gb / terabyte tb / kilowatt kw / megawatt mw / gigawatt gw / kilovolt kv
percent % / euro € eur / dollar $ usd / gbp £ / forbid forbidden prohibit deny
"""
_KINDS: dict[str, str] = {stem(word): "unit" for word in _UNITS.split()}
_KINDS |= {stem(word): "month" for word in _MONTHS.split()}
_KINDS |= {stem(word): "day" for word in _DAYS.split()}
for _group in _OPPOSITES.replace("\n", "/").split("/"):
    # A word of two groups is known by the last: higher, lower.
    _KINDS |= {stem(word): _group.strip() for word in _group.split()}

_ONE_NAME: dict[str, str] = {}
for _group in _SAME.replace("\n", "/").split("/"):
    _ONE_NAME |= {stem(word): _group.split()[0] for word in _group.split()}

_EXCHANGED = 3
"""Facts that a correction exchanges at most: with more, it is another statement."""


def corrects(candidate: Item, rejected: Item) -> bool:
    """Return whether a content differs from a rejected one by numbers, units, dates, names, or opposites only."""
    facts, others = token_set(content_of(candidate)), token_set(content_of(rejected))
    new, wrong = facts - others, others - facts
    if not 0 < len(new) <= _EXCHANGED:
        return False
    kinds = _kinds(new)
    if None in kinds or kinds != _kinds(wrong):
        return False
    return Counter(map(_one_name, new)) != Counter(map(_one_name, wrong))


def _kinds(facts: Iterable[str]) -> Counter[str | None]:
    return Counter(map(_kind, facts))


def _one_name(fact: str) -> str | Decimal:
    """Return what names of the same thing have in common."""
    try:
        return Decimal(fact)
    except InvalidOperation:
        return _ONE_NAME.get(fact, fact)


def _kind(fact: str) -> str | None:
    if fact in _KINDS:
        return _KINDS[fact]
    if fact.lstrip("-")[:1].isdigit():
        return "number"
    return "name" if ":" in fact or "_" in fact else None
