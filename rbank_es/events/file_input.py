"""Reading a file that somebody names, up to a limit: it may be missing, a device, or larger than fits."""

from __future__ import annotations

from pathlib import Path

from rbank_es.errors import BadInput


def read_at_most(place: Path, most_bytes: int, what: str) -> bytes:
    """The bytes of a file. `what` is what messages call its content: `tasks`.

    Raises `BadInput` if it can't be read, or is larger than `most_bytes`.
    """
    try:
        with place.open("rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        raise BadInput(f"{place}: the {what} can't be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > most_bytes:
        raise BadInput(f"{place}: a file of {what} has at most {most_bytes:,} bytes; split it")
    return data
