"""Command lines for people to copy."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def whole_command(verb: str, names: Sequence[str], options: str = "") -> str:
    """Return a command line with the program: see `command_on`."""
    return f"rbank-es {command_on(verb, names, options)}"


def command_on(verb: str, names: Sequence[str], options: str) -> str:
    """Return a command line without the program: a verb, quoted names, options."""
    quoted = shlex.join(names)
    # Behind the options where a name could be taken for one, because runs and items may have any name.
    dashed = any(name[:1] == "-" for name in names)
    return " ".join(filter(None, (verb, options, "--", quoted) if dashed else (verb, quoted, options)))
