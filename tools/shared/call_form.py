"""The form of a tool's calls: its parameters and their types, to which the arguments of a call are bound. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from rbank_es.events import Ref
from rbank_es.limits import tool_limits
from rbank_es.system.nearest_name import nearest


class WrongArguments(Exception):
    """Arguments that don't fit the parameters of a function, in words for an agent."""


class Meant(NamedTuple):
    """An unknown name in a call, and the parameter that it can only mean."""

    name: str
    parameter: str

    @property
    def note(self) -> str:
        """What an agent is told with the result of such a call."""
        return f"{self.name} was taken as {self.parameter}"


class CallForm:
    """The name of a function, its parameters and their types."""

    def __init__(self, name: str, signature: inspect.Signature, hints: Mapping[str, Any]) -> None:
        self.name, self.signature, self.hints = name, signature, hints

    @property
    def usage(self) -> str:
        """The call as it is written: name and parameters with their defaults."""
        parameters = (
            each.name if each.default is each.empty else f"{each.name}={each.default!r}"
            for each in self.signature.parameters.values()
        )
        return f"{self.name}({', '.join(parameters)})"

    def meant(self, given: tuple[Any, ...], named: Mapping[str, Any], elsewhere: Collection[str] = ()) -> Meant | None:
        """Return the one unknown name of a call that can only mean the one required parameter without a value.

        Returns None where that is not certain: further names are unknown or missing; the name is needed `elsewhere`, by
        another tool; it resembles another open parameter, or the value is one of its choices; the value has not the
        type of the parameter.
        """
        known = self.signature.parameters
        if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in known.values()):
            return None
        names = {*[*known][: len(given)], *(name for name, value in named.items() if value is not None)}
        unknown, still_open = names - known.keys(), [name for name in known if name not in names]
        missing = [name for name in still_open if known[name].default is inspect.Parameter.empty]
        if len(unknown) != 1 or len(missing) != 1:
            return None
        [name], [parameter] = unknown, missing
        if len(name) > tool_limits.TAKEN_NAME_CHARS or name in elsewhere:
            return None
        others = [each for each in still_open if each != parameter]
        chosen = any(named[name] in choices_of(self._hint(each)) for each in others if _is_text(named[name]))
        if chosen or nearest(name, others) or not self._fits(parameter, named[name]):
            return None
        return Meant(name, parameter)

    def bound(self, given: tuple[Any, ...], named: Mapping[str, Any], meant: Meant | None = None) -> dict[str, Any]:
        """Return the arguments of a call by parameter, converted, with a name that was `meant` in its place.

        Raises `WrongArguments`.
        """
        if meant is not None:
            named = {meant.parameter if name == meant.name else name: value for name, value in named.items()}
            named = {meant.parameter: named[meant.parameter], **named}
        try:
            given_all = self.signature.bind(*given, **named).arguments
            # None means the default: models pass it for parameters that they don't set.
            arguments = {name: value for name, value in given_all.items() if value is not None}
            self.signature.bind(**arguments)
        except TypeError as error:
            raise WrongArguments(f"{self.name}: {error}") from None
        return {name: self._converted(name, value) for name, value in arguments.items()}

    @property
    def needed(self) -> tuple[str, ...]:
        """The parameters without a default."""
        return tuple(each.name for each in self.signature.parameters.values() if each.default is each.empty)

    def choice_named(self, named: Mapping[str, Any]) -> dict[str, str]:
        """Return the argument of which an unknown name of a call is a choice: `{output_mode: 'classes'}`; else none."""
        unknown = {name for name in named if name not in self.signature.parameters}
        return {
            parameter: name
            for parameter in self.signature.parameters
            for name in choices_of(self._hint(parameter))
            if name in unknown
        }

    def _hint(self, name: str) -> Any:
        return self.hints.get(name, Any)

    def _fits(self, name: str, value: Any) -> bool:
        hint = self._hint(name)
        if hint is Any or isinstance(value, Ref):
            return hint is not Any and _takes_handles(hint)
        try:
            msgspec.convert(value, hint, strict=True)
        except (msgspec.ValidationError, TypeError, ValueError):
            return False
        return True

    def _converted(self, name: str, value: Any) -> Any:
        hint = self.hints[name]
        if isinstance(value, Ref) and _takes_handles(hint):
            return value
        try:
            # Not strict, because models write '5' for 5.
            return msgspec.convert(value, hint, strict=False)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, msgspec.ValidationError) else f"got {type(value).__name__}"
            raise WrongArguments(f"{self.name}: {name}: {reason}") from None


def choices_of(hint: Any) -> tuple[str, ...]:
    """Return the texts that a parameter of this type may have; none where it may have any."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if any(get_origin(part) is not Literal and part is not NoneType for part in parts):
        return ()
    return tuple(each for part in parts for each in get_args(part) if isinstance(each, str))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _takes_handles(hint: Any) -> bool:
    return any(get_origin(part) is dict for part in get_args(hint))
