"""Variants of a test that go the same way: one always runs, the others in a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from typing import Any


def first_of(first: object, *others: object) -> list[Any]:
    """Return values for `parametrize`, of which all but the first are left to `-m sweep`.

    Args:
        first: A value, or a tuple of them where there are several arguments.
        others: Likewise.
    """
    return [first, *swept(*others)]


def swept(*variants: object) -> list[Any]:
    """Return values for `parametrize` that are left to `-m sweep`."""
    return [
        pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=pytest.mark.sweep)
        for each in variants
    ]
