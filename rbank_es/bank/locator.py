"""Where a bank is kept: from what people write to a directory.

BANK is a bare name (kept under `RBANK_HOME`, else `./logs`), a path that begins with `./`, `../` or `/`, or a URL
(`file:`). `BANK@POINT` names a bank at a point in time.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rbank_es.errors import BadBankName

_BARE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
_NAME_CHARS = 100


def split_point(text: str) -> tuple[str, str | None]:
    """The bank and the point of `BANK@POINT`: split at the last `@` after the last `/`.

    Raises `BadBankName` where either side is empty.
    """
    slash = text.rfind("/")
    at = text.rfind("@")
    if at <= slash:
        return text, None
    bank, point = text[:at], text[at + 1 :]
    if not bank or not point:
        raise BadBankName(text, "it must be BANK or BANK@POINT")
    return bank, point


def directory_of(place: str | Path) -> Path:
    """The directory that a bank's name, path or URL means. Raises `BadBankName`; looks at no file."""
    if isinstance(place, Path):
        return place
    if not place or "\0" in place:
        raise BadBankName(place, "it is empty or holds a NUL")
    if place.startswith(("./", "../", "/")):
        return Path(place)
    if ":" in place:
        return _from_url(place)
    if not _BARE.fullmatch(place) or len(place) > _NAME_CHARS:
        raise BadBankName(place, "that is neither a bare name nor a path")
    return Path(os.environ.get("RBANK_HOME") or "logs") / place


def _from_url(url: str) -> Path:
    parts = urlsplit(url)
    if parts.scheme != "file":
        raise BadBankName(url, f"there is no engine for {parts.scheme or url.partition(':')[0]!r} URLs in this release")
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise BadBankName(url, "a file URL looks like file:///absolute/path")
    return Path(unquote(parts.path))
