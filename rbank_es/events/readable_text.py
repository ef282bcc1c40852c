"""Short texts for people: counted nouns, lists of names, costs, and stored texts on one line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rbank_es.events.hidden_characters import visible

# Not `\s`, which also matches separators that should be spelled out.
_BLANKS = re.compile(r"[ \t\n\r\u00a0\u2000-\u200a\u202f\u205f\u3000]+")


def safe_line(text: str) -> str:
    """Return the text on one line: white space collapsed, hidden characters spelled out."""
    return visible(" ".join(_BLANKS.split(text)).strip())


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a counted noun: `1 run`, `2 runs`, `1,234 entries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_names(names: Sequence[str], most: int) -> str:
    """Return the first names of a list, and how many more there are: `r1, r2, r3 and 4 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def format_cost(usd: float | None) -> str | None:
    """Return a cost in US dollars, None where it is not known."""
    return None if usd is None else f"${usd:.4f}"
