"""Reads the values of the golden files: "city:amount"."""

from __future__ import annotations


def city(value: str) -> str:
    return value[: value.index(":")]


def amount(value: str) -> int:
    return int(value[value.index(":") + 1 :])


def or_dash(value: object) -> str:
    """Return the text of a value, or "-" in place of None."""
    return "-" if value is None else str(value)
