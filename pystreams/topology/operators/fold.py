"""A fold: how an aggregation makes its result of a key's or a window's records, one by one.

Counting and reducing are folds as well; what they have of their own is said here once, for all
kinds of windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Fold:
    """What is done with the records of a key or a window.

    Attributes:
        aggregator: Called with (key, value, value so far); returns the new one, None to delete.
        merger: Called with (key, value so far, other value) when two sessions become one; None
            where windows never do.
    """

    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    merger: Callable[[Any, Any, Any], Any] | None = None


def counting() -> Fold:
    """Return the fold that counts."""
    return Fold(int, _one_more, _sum)


def reducing(reducer: Callable[[Any, Any], Any]) -> Fold:
    """Return the fold that combines values, from the second on, with `reducer(so far, value)`."""

    def aggregator(key: Any, value: Any, so_far: Any) -> Any:  # noqa: ARG001 - its form
        return value if so_far is None else reducer(so_far, value)

    def merger(key: Any, so_far: Any, other: Any) -> Any:
        return aggregator(key, other, so_far)

    return Fold(_nothing, aggregator, merger)


def beginning(
    initializer: Callable[[], Any], merger: Callable[[Any, Any, Any], Any] | None = None
) -> Fold:
    """Return the fold that begins, and adds nothing: each stream of a cogroup adds in its way."""

    def aggregator(key: Any, value: Any, so_far: Any) -> Any:  # noqa: ARG001 - its form
        return so_far

    return Fold(initializer, aggregator, merger)


def _nothing() -> None:
    return None


def _one_more(key: Any, value: Any, count: int) -> int:  # noqa: ARG001 - the form of an aggregator
    return count + 1


def _sum(key: Any, count: int, other: int) -> int:  # noqa: ARG001 - the form of a merger
    return count + other
