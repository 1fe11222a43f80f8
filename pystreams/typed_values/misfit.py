"""What does not fit a class: where it is, and what was expected there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Read = Callable[[object], object]

_JSON_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "a boolean",
    dict: "an object",
    float: "a number",
    int: "an integer",
    list: "an array",
    str: "a string",
}


class Misfit(ValueError):  # noqa: N818 - its name says what it is
    """A value does not fit its type; the path to it grows on the way out.

    The value itself is never shown.

    Attributes:
        expected: What the class says.
        found: What came instead.
        path: Names and indexes that lead to it, innermost first.
    """

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected = expected
        self.found = found
        self.path: list[str | int] = []

    def inside(self, step: str | int) -> Misfit:
        """Return itself, one step further out."""
        self.path.append(step)
        return self

    def text(self, root: str) -> str:
        """Return the sentence for the user; the path begins with the name of a class."""
        return f"{path_text(root, self.path[::-1])}: expected {self.expected}, found {self.found}"


def path_text(root: str, steps: Iterable[str | int]) -> str:
    """Return a path as errors show it: `Order.lines[0].product`."""
    return root + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def kind_of(value: object) -> str:
    """Return what JSON calls a value of this type."""
    return _JSON_NAMES.get(type(value)) or type(value).__name__


def misfit(expected: str, value: object) -> Misfit:
    """Return the error for a value of another type."""
    return Misfit(expected, kind_of(value))
