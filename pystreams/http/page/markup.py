"""HTML that can't be injected into: whatever is no `Markup` is text, and is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_WITHOUT_END = {"br", "col", "input", "link", "meta"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | None | Iterable["str | None"]
Attribute = str | float | bool | None


def element(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """Return an element.

    Args:
        children: Texts and elements; None stands for nothing.
        attributes: Its attributes: `class_` is `class`, `data_label` is `data-label`. True has no
            value, None and False leave it out.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}{_value(value)}"
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _WITHOUT_END:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Markup:
    """Return texts and elements one after the other."""
    parts = []
    for child in children:
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(Markup(escape(child)))
        elif child is not None:
            parts.append(joined(*child))
    return Markup("".join(parts))


def _value(value: Attribute) -> str:
    return "" if value is True else f'="{escape(str(value))}"'
