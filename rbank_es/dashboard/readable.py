"""Numbers and times as people read them. What was not recorded says so, and is never shown as zero."""

from __future__ import annotations

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
