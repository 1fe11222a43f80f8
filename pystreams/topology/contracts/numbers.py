"""Refuses durations and counts that are none, when they are given."""

from __future__ import annotations

from pystreams.errors import TopologyError


def check_number(
    where: str, argument: str, value: object, minimum: int | None, of: str = " of ms"
) -> None:
    """Refuse what is no whole number, or too small.

    Args:
        where: What was called; begins the error's message.
        minimum: The smallest number that is right; None for any.
        of: What it counts, in the error's words.

    Raises:
        TopologyError: It is none, or below that; names the argument.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TopologyError(f"{where}: {argument} must be a whole number{of}, not {value!r}")
    if minimum is not None and value < minimum:
        raise TopologyError(f"{where}: {argument} must be {minimum} or more, not {value}")
