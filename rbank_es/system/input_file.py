"""Files that a user gives: read whole, as UTF-8 without a byte order mark.

Windows PowerShell and Notepad begin a file with a mark, or write it in UTF-16. What is read from a file without a mark
is read from the same file with one, so every file that a user names passes `read_given`, and standard input
`without_mark`. Ontologies may be too large to be read at once: `rbank_es.ontology` passes over a mark by itself.
"""

from __future__ import annotations

import codecs
import os

from rbank_es.errors import BadInput
from rbank_es.system.files import read_regular

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_WIDE = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_given(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Return the text in a file that a user named, as UTF-8 without a byte order mark; a link is followed.

    Raises `LimitExceeded` for more than `most_bytes`, OSError, `NotRegular`, and `BadInput` as `without_mark`.
    """
    return without_mark(read_regular(path, most_bytes, follow=True), os.fspath(path))


def without_mark(data: bytes, name: str = "the text") -> bytes:
    """Return a text as UTF-8 without a byte order mark; a text whose mark says UTF-16 or UTF-32 is encoded again.

    Text without a mark is returned as it is, whatever its encoding. Raises `BadInput`, which calls the text `name`,
    where the mark says another encoding than the text has.
    """
    for mark, encoding in _WIDE.items():
        if data.startswith(mark):
            try:
                return data.decode(encoding).encode()
            except UnicodeError as error:
                reason = f"its byte order mark says {encoding.upper()}, and it is not ({error})"
                raise BadInput(f"{name}: {reason}; save it as UTF-8") from None
    while data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
    return data
