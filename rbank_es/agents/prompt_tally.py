"""The tally of prompts: how hooks answered the last of them, kept beside the spool when its lines are taken in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rbank_es.errors import LimitExceeded
from rbank_es.limits import hook_limits as limits
from rbank_es.system.files import read_regular, write_replacing

GIVEN, UNFITTED, LATE, HINDERED = "gulh"
"""A prompt that was given a lesson, one that no lesson fitted, one whose hook was late, one hindered otherwise."""

_TALLY = "prompts"
_OTHER = re.compile(f"[^{GIVEN}{UNFITTED}{LATE}{HINDERED}]")


def outcomes_in(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return a letter for each prompt that the lines of a spool say the outcome of, in their order."""
    return "".join(map(_outcome, lines))


def _outcome(line: Mapping[str, Any]) -> str:
    if line.get("kind") == "recall":
        return GIVEN if line.get("text") else UNFITTED
    if line.get("kind") == "note" and str(line.get("why")).startswith("late"):
        return LATE
    return HINDERED if line.get("kind") == "note" and line.get("of") else ""


def tallied(folder: Path) -> str:
    """Return the outcomes of the last prompts whose lines left the spool in a folder, the oldest first."""
    with suppress(OSError, LimitExceeded):
        return _OTHER.sub("", read_regular(folder / _TALLY, limits.TALLY_PROMPTS).decode("ascii", "replace"))
    return ""


def tally(folder: Path, outcomes: str) -> None:
    """Add outcomes to those of a folder. What can't be written is left out: a tally hinders nothing."""
    if outcomes:
        with suppress(OSError):
            kept = (tallied(folder) + outcomes)[-limits.TALLY_PROMPTS :]
            write_replacing(folder / _TALLY, [kept.encode()])
