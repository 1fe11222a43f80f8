"""Points in time, for readers."""

from __future__ import annotations

from datetime import UTC, datetime


def told_time(time_ms: int) -> str:
    """Return a time (ms since 1970) as ISO 8601 in UTC, to the second; beyond year 9999 as ms."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
