"""Conditions and orders of a list, as a person or a program writes them: `verdict=failure`, `-cost_usd`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from msgspec import Struct

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.system.nearest_name import hint
from rbank_es.system.utc_times import utc_time

if TYPE_CHECKING:
    from rbank_es.projections.paged_view import RowCondition, Test, Value

Where = str | Sequence[str] | Mapping[str, Any]
"""Conditions that must all hold: texts such as `verdict=failure`, or values by field that rows must be equal to."""

NONE = "none"
"""The value of a condition that asks for rows without a value."""

_CONDITION = r"(?s)\s*(?P<field>\w+)\s*(?P<test>!=|>=|<=|=|>|<|~)\s*(?P<value>.*?)\s*"
_TESTS: Mapping[str, Test] = {
    "=": "is",
    "!=": "not",
    ">=": "from",
    ">": "after",
    "<=": "upto",
    "<": "before",
    "~": "contains",
}
_YES, _NO = ("yes", "true", "1"), ("no", "false", "0")


def where_texts(where: Where) -> tuple[str, ...]:
    """Return conditions as texts. Raises `BadInput` for anything that is none."""
    if isinstance(where, str):
        return (where,)
    if isinstance(where, Mapping):
        return tuple(f"{name}={_word(value)}" for name, value in where.items())
    if not isinstance(where, Sequence) or not all(isinstance(each, str) for each in where):
        raise BadInput("where is given as texts such as 'verdict=failure', or as values by field")
    return tuple(where)


def _word(value: Any) -> str:
    return NONE if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def conditions_of(where: Sequence[str], row: type[Struct], columns: Collection[str]) -> list[RowCondition]:
    """Return the conditions on rows of a view with these columns, whose fields have the types of `row`.

    Raises `BadInput` for a text that is no condition, an unknown field, and a value of another type.
    """
    return list(_conditions(where, row, columns))


def _conditions(where: Sequence[str], row: type[Struct], columns: Collection[str]) -> Iterator[RowCondition]:
    from rbank_es.projections.paged_view import RowCondition

    types = {field.name: field.type for field in msgspec.structs.fields(row) if field.name in columns}
    for text in where:
        found = re.fullmatch(_CONDITION, text)
        if found is None:
            raise BadInput(
                f"{text[: limits.GIVEN_CHARS]!r} is no condition: write FIELD=VALUE, with one of {', '.join(_TESTS)}"
            )
        field, test, value = found.group("field", "test", "value")
        require_field(field, types, "filter")
        kind = types[field]
        if test == "~":
            yield (
                RowCondition((field,), "has", value) if is_list(kind) else RowCondition((field,), "contains", (value,))
            )
        elif is_list(kind):
            raise BadInput(
                f"{field} is a list: write {field}~{value[: limits.GIVEN_WORD_CHARS]} for those that have it"
            )
        else:
            yield RowCondition((field,), _TESTS[test], _value(field, test, value, kind))


def is_list(kind: Any) -> bool:
    """Return whether a field's type is a list."""
    return getattr(kind, "__origin__", None) is tuple


def require_field(name: str, known: Collection[str], what: str) -> None:
    """Raise `BadInput`, with the nearest name, for a field that rows can't be sorted or filtered by."""
    if name not in known:
        raise BadInput(f"can't {what} by {name[: limits.GIVEN_WORD_CHARS]!r}{hint(name, known)}")


def sort_of(sort: str, columns: Collection[str]) -> str:
    """Return an order. Raises `BadInput` for an unknown field."""
    require_field(sort.removeprefix("-"), columns, "sort")
    return sort


def _value(field: str, test: str, given: str, kind: Any) -> Value:
    if given.lower() == NONE and test in ("=", "!="):
        return None
    types = (kind,) if _words(kind) else get_args(kind) or (kind,)
    if bool in types:
        if given.lower() not in (*_YES, *_NO):
            raise BadInput(f"{field} is yes or no, not {given[: limits.GIVEN_WORD_CHARS]!r}")
        return int(given.lower() in _YES)
    if field.endswith("_at"):
        try:
            return utc_time(given)
        except ValueError as error:
            raise BadInput(f"{field}: {error} (UTC)") from None
    try:
        value: Value = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError:
        named = [each for kind in types if (each := _words(kind))]
        allowed = f"one of {', '.join(named[0])}" if named else "a number"
        raise BadInput(f"{field} is {allowed}, not {given[: limits.GIVEN_WORD_CHARS]!r}") from None
    # No column has a number beyond these, and SQLite takes none that is much larger.
    return min(max(value, -limits.COUNT_MOST - 1), limits.COUNT_MOST + 1) if isinstance(value, int) else value


def _words(kind: Any) -> tuple[str, ...]:
    return tuple(each for each in get_args(kind) if isinstance(each, str))
