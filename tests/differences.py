"""Differences in short, for tests: the states of the items that are in another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rbank_es.bank.bank_difference import Difference


def states_in(found: Difference | Mapping[str, Any]) -> dict[str, tuple[str | None, str | None]]:
    """The items whose state differs, in a difference or its JSON: state before and after, None where it isn't there."""
    facts = found if isinstance(found, Mapping) else msgspec.to_builtins(found)
    sides = {
        each["id"]: [each[side] and each[side]["state"] for side in ("before", "after")] for each in facts["items"]
    }
    return {id: (old, new) for id, (old, new) in sides.items() if old != new}
