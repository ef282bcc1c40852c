"""What is wrong with a value that was decoded, and what is allowed in its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

_PATH = re.compile(r" - at `(?P<path>[^`]*)`$")
# A field, or what is in brackets: `[0]`, and `[...]` for any value of an object.
_STEP = re.compile(r"\[[^\]]*\]|[^.\[\]]+")


def reason_and_path(error: msgspec.ValidationError, form: Any) -> tuple[str, str]:
    """Return why a value doesn't fit a form, with the values that an enumeration allows, and the path to it."""
    message = str(error)
    found = _PATH.search(message)
    path = found["path"] if found else "$"
    values = _values_at(form, path) if message.startswith("Invalid enum value") else ()
    allowed = f"; it is one of: {', '.join(map(repr, values))}" if values else ""
    return _PATH.sub("", message) + allowed, path


def reason_of(error: msgspec.ValidationError, form: Any) -> str:
    """Return the reason and the path, as people read them: no `$.` before the first field."""
    reason, path = reason_and_path(error, form)
    return reason if path == "$" else f"{reason} - at `{path.removeprefix('$').removeprefix('.')}`"


def _values_at(form: Any, path: str) -> tuple[Any, ...]:
    """Return the values that an enumeration at a path allows, such as `$.heads[0].polarity`; none if it is no such."""
    from msgspec import inspect  # imported here, because only those who mistype need it

    found: tuple[Any, ...] = (inspect.type_info(form),)
    for step in _STEP.findall(path.removeprefix("$")):
        found = tuple(_parts_of(found, step))
    return tuple(value for kind in found if isinstance(kind, inspect.LiteralType) for value in kind.values)


def _parts_of(kinds: Iterable[Any], step: str) -> Iterator[Any]:
    """Yield the types of a field (`name`) or of the elements (`[0]`, `[...]`) of any of these types."""
    for kind in kinds:
        if step.startswith("["):
            inner = getattr(kind, "item_type", getattr(kind, "value_type", None))
            within = [*getattr(kind, "item_types", ()), *([inner] if inner is not None else [])]
        else:
            within = [field.type for field in getattr(kind, "fields", ()) if field.encode_name == step]
        for each in within:
            bare = each.type if hasattr(each, "extra_json_schema") else each  # what `Annotated` described
            yield from getattr(bare, "types", (bare,))
