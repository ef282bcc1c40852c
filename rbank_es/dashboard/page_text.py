"""HTML by construction: a plain string is text and is escaped; only what `element` made is markup."""

from __future__ import annotations

import html
import re
import unicodedata

from rbank_es import limits

# Controls would break the page, and bidirectional overrides would let one cell rewrite how its neighbours read.
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_VOID = frozenset({"br", "meta", "link"})


class Html(str):
    """Markup that is safe to put into a page as it is."""

    __slots__ = ()


def clean(text: str) -> str:
    """The text on one line, with characters that can't be shown replaced by U+FFFD."""
    return " ".join(_UNSEEN.sub("\ufffd", text).split())


def shorten(text: str, max_chars: int = limits.DASHBOARD_TEXT_CHARS) -> str:
    """The cleaned text, cut to `max_chars` characters with an ellipsis; never inside a combined character."""
    text = clean(text[: max_chars * 8])
    if len(text) <= max_chars:
        return text
    end = max_chars - 1
    while end > 1 and unicodedata.combining(text[end]):
        end -= 1
    return text[:end].rstrip() + "…"


def escape(text: str) -> Html:
    """The text as markup that shows it and does nothing else; `Html` comes back as it is."""
    return text if isinstance(text, Html) else Html(html.escape(_UNSEEN.sub("\ufffd", text)))


def element(tag: str, *children: str, **attributes: str | None) -> Html:
    """One element. Attribute names lose a trailing `_` and turn `_` into `-`; a value of None leaves it out."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Html(f"<{tag}{named}>")
    return Html(f"<{tag}{named}>{join(*children)}</{tag}>")


def join(*children: str) -> Html:
    """The children one after the other, each escaped unless it is markup."""
    return Html("".join(map(escape, children)))


NOT_RECORDED = "not recorded"


def count(value: float | None) -> str:
    """A number with thousands separators; up to two decimals unless it is whole."""
    if value is None:
        return NOT_RECORDED
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def percent(value: float | None) -> str:
    """A share from 0 to 1 as per cent."""
    return NOT_RECORDED if value is None else f"{100 * value:.0f}%"


def points(value: float | None) -> str:
    """A difference of shares in percentage points, with its sign."""
    return NOT_RECORDED if value is None else f"{100 * value:+.0f} points"


def moment(value: str | None) -> str:
    """An ISO time in UTC, to the second."""
    return NOT_RECORDED if not value else value[:19].replace("T", " ") + " UTC"


def minute(value: str | None) -> str:
    """An ISO time in UTC, to the minute, where the heading says that it is UTC."""
    return NOT_RECORDED if not value else value[:16].replace("T", " ")


def plural(n: int, one: str, many: str = "") -> str:
    """`1 run`, `2 runs`, `1,000 runs`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def size(n_bytes: int) -> str:
    """A size in MB (10^6 bytes), or in kB below a tenth of one."""
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 100_000 else f"{n_bytes / 1e3:.0f} kB"
