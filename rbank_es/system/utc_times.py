"""Times as people and recorders write them, and as a log has them: UTC, microseconds, 27 characters."""

from __future__ import annotations

from datetime import UTC, datetime

from rbank_es import limits


def utc_time(recorded: str) -> str:
    """Return a recorded ISO time as the log writes times: UTC, microseconds. A time without a zone is read as UTC.

    Raises ValueError for anything else.
    """
    try:
        moment = datetime.fromisoformat(recorded)
        return utc_text(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC))
    except (ValueError, OverflowError):
        raise ValueError(f"{recorded[: limits.GIVEN_CHARS]!r} is not an ISO time such as 2026-01-31T12:00:00") from None


def has_zone(recorded: str) -> bool:
    """Return whether a recorded ISO time names its zone. Raises ValueError for anything else than an ISO time."""
    return datetime.fromisoformat(recorded).tzinfo is not None


def utc_text(moment: datetime) -> str:
    """Return a moment in UTC as the log writes it: `2026-01-31T12:00:00.000000Z`."""
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def recorded_time(time: str) -> str:
    """Return a time of the log as recorders of trajectories write it: no zone, and no fraction if it is zero."""
    return datetime.fromisoformat(time).replace(tzinfo=None).isoformat()
