"""Reading the files that people give to a context: guides, curated constraints."""

from __future__ import annotations

from pathlib import Path

from rbank_es import limits
from rbank_es.errors import BadContextFile


def read_text(path: str | Path) -> str:
    """The text of a file. Raises `BadContextFile` if it is missing, too large, or not UTF-8."""
    place = Path(path)
    try:
        with place.open("rb") as file:
            content = file.read(limits.CONTEXT_FILE_BYTES + 1)
    except OSError as error:
        raise BadContextFile(str(place), f"it can't be read: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise BadContextFile(repr(str(place)), f"no file can be called that: {error}") from None
    if len(content) > limits.CONTEXT_FILE_BYTES:
        raise BadContextFile(str(place), f"it is larger than {limits.CONTEXT_FILE_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadContextFile(str(place), f"it is not UTF-8 (byte {error.start:,})") from None
