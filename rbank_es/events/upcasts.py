"""Upcasters: how a line of an older schema is read as today's.

The log is never rewritten for a new schema. A type whose schema changes gets the next version (`v`), and an
upcaster from the version before. At start-up every chain is checked: a fault there would surface only on
somebody's old bank, years later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

Fields = dict[str, Any]


class Upcaster(NamedTuple):
    """Turns the fields of one version of a type into those of the next. `apply` must be pure and total."""

    type: str
    version: int
    apply: Callable[[Fields], Fields]


class Chains:
    """All upcasters, checked. Raises ValueError on a duplicate, a gap, or a step that leads nowhere."""

    def __init__(self, upcasters: Iterable[Upcaster], current: Mapping[str, int]) -> None:
        self._steps: dict[tuple[str, int], Upcaster] = {}
        for upcaster in upcasters:
            self._add(upcaster, current)
        for type_, version in current.items():
            self._check_gap_free(type_, version)

    def _add(self, upcaster: Upcaster, current: Mapping[str, int]) -> None:
        step = (upcaster.type, upcaster.version)
        if upcaster.type not in current:
            raise ValueError(f"upcaster of {upcaster.type}: no such event type")
        if not 1 <= upcaster.version < current[upcaster.type]:
            raise ValueError(f"upcaster of {step} leads past version {current[upcaster.type]}: a cycle or a leftover")
        if step in self._steps:
            raise ValueError(f"two upcasters of {step}")
        self._steps[step] = upcaster

    def _check_gap_free(self, type_: str, version: int) -> None:
        missing = [old for old in range(1, version) if (type_, old) not in self._steps]
        if missing:
            raise ValueError(f"{type_}: no upcaster from version {missing[0]}")

    def upcast(self, type_: str, version: int, current: int, fields: Fields) -> Fields:
        """The fields as of version `current`, step by step from `version`; `v` follows."""
        for step in range(version, current):
            fields = self._steps[type_, step].apply(fields) | {"v": step + 1}
        return fields


UPCASTERS: tuple[Upcaster, ...] = ()
"""Every upcaster of this release. All types are at version 1, so there is none yet."""
