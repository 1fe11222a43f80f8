"""What the user's call of a join says, whatever it is that is joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class JoinCall:
    """A call of `join`, `left_join` or `outer_join`.

    Attributes:
        windows: What was given as such; None for a join with a table.
        with_key: Whether the joiner takes the key too.
        joined: Options as an object, if they are given so.
        key_selector: Which row of a global table; None for a join with anything else.
    """

    kind: Literal["join", "left_join", "outer_join"]
    joiner: Callable[..., Any]
    windows: object
    with_key: bool
    joined: Any
    options: Mapping[str, Any]
    key_selector: Callable[[Any, Any], Any] | None = None
