"""Text of the page: HTML that is safe by construction, and numbers and times for people.

A plain string is text and is escaped; only `element` and `join` make markup. A value that was not recorded is shown as
such, never as zero.
"""

from __future__ import annotations

import html
import unicodedata

from rbank_es.events.hidden_characters import visible
from rbank_es.events.readable_text import safe_line
from rbank_es.limits import page_limits

_VOID = frozenset({"br", "meta", "link"})


class Html(str):
    """Markup that is safe to put into a page unescaped."""

    __slots__ = ()


def shorten(text: str, max_chars: int = page_limits.DASHBOARD_TEXT_CHARS) -> str:
    """Return the text on one line in at most `max_chars` characters; a truncated one ends in an ellipsis."""
    text = safe_line(text[: max_chars * 8])
    if len(text) <= max_chars:
        return text
    end = max_chars - 1  # then back to the beginning of a combined character
    while end > 1 and unicodedata.combining(text[end]):
        end -= 1
    return text[:end].rstrip() + "…"


def short_name(text: str) -> str:
    """Return an id or a name in at most `page_limits.DASHBOARD_NAME_CHARS` characters."""
    return shorten(text, page_limits.DASHBOARD_NAME_CHARS)


def escape(text: str) -> Html:
    """Return the text as markup that only shows it; `Html` is returned unchanged."""
    return text if isinstance(text, Html) else Html(html.escape(visible(text, keep="\n\r\t")))


def element(tag: str, *children: str, **attributes: str | None) -> Html:
    """Return an element. In attribute names a trailing `_` is dropped, others become `-`; None leaves one out."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Html(f"<{tag}{named}>")
    return Html(f"<{tag}{named}>{join(*children)}</{tag}>")


def join(*children: str) -> Html:
    """Return the children joined, each escaped unless it is markup."""
    return Html("".join(map(escape, children)))


NOT_RECORDED = "not recorded"


def amount(value: float | None) -> str:
    """Return a number with thousands separators, and two decimals unless it is whole."""
    if value is None:
        return NOT_RECORDED
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def minute(value: str | None) -> str:
    """Return an ISO time to the minute, for columns whose heading names the zone."""
    return NOT_RECORDED if not value else value[:16].replace("T", " ")
