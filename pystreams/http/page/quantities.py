"""Numbers, sizes and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

UNKNOWN = "–"  # noqa: RUF001 - a dash, as tables have it
_JUST_NOW_S = 5
_MUCH_MS = 10_000
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def count(number: float | None) -> str:
    """Return a number with its thousands apart; a dash for what is not known."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def per_second(rate: float | None) -> str:
    """Return a rate; slow ones keep a decimal."""
    if rate is None:
        return UNKNOWN
    return f"{rate:,.1f}/s" if 0 < rate < 10 else f"{rate:,.0f}/s"


def size(number: float) -> str:
    """Return bytes in the unit that fits."""
    for unit in _UNITS:
        if number < 1024 or unit == _UNITS[-1]:
            break
        number /= 1024
    return f"{number:,.0f} {unit}" if unit == "B" or number >= 100 else f"{number:,.1f} {unit}"


def duration(seconds: float | None) -> str:
    """Return a time span in its two largest units."""
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def ago(time_ms: int | None, now_ms: int) -> str:
    """Return how long ago something was; a dash for what never was."""
    if time_ms is None:
        return UNKNOWN
    seconds = (now_ms - time_ms) / 1000
    return "just now" if seconds < _JUST_NOW_S else f"{duration(seconds)} ago"


def not_looked_for_s(looked_ms: int | None, now_ms: int) -> float | None:
    """Return how long nobody has looked for something (s); None if that was just now, or never."""
    if looked_ms is None or now_ms - looked_ms < _JUST_NOW_S * 1000:
        return None
    return (now_ms - looked_ms) / 1000


def milliseconds(number: float | None) -> str:
    """Return a time span of some milliseconds as such, a longer one in its units."""
    if number is None:
        return UNKNOWN
    return f"{number:,.0f} ms" if number < _MUCH_MS else duration(number / 1000)


def moment(time_ms: int) -> str:
    """Return a time as UTC, to the second; as it is where no calendar has it."""
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
