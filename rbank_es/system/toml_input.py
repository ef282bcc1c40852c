"""TOML that people write: experiments, policies, scripts, curated lines, verdicts."""

from __future__ import annotations

from typing import Any


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a text. Raises `ValueError`, which says what is wrong, for anything but TOML."""
    import tomllib  # here, because most processes read none

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    # Any other is Python's own, and advises to change Python's settings.
    except ValueError:
        raise ValueError("a whole number has thousands of digits") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
