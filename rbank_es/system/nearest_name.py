"""The known name that an unknown one was likely meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that another begins, or else the most similar one; None if none is similar."""
    from difflib import get_close_matches  # only those who mistype pay for it

    known = list(names)
    begun = [each for each in known if len(name.lstrip("-")) > 1 and each.startswith(name)]
    return begun[0] if begun else next(iter(get_close_matches(name, known, n=1)), None)


def hint(name: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known one, else all of them."""
    known = list(names)
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else f"; there are: {', '.join(known) or 'none'}"
