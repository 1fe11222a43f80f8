"""What the DSL's classes say when they are asked for a method that they have not.

Kafka Streams' spelling, a method of its earlier versions, a step left out (`stream.count()`), a
slip of the pen: each has a cure that is worth more than "has no attribute".
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, NoReturn

_KINDS: dict[str, type] = {}

_AGGREGATED = (
    ("KTable", "aggregate first", ".count()"),
    ("KStream", "aggregate first", ".count().to_stream()"),
)
_ENDED = (("KStream", "its branches are in a dict", '.default_branch()["NAME"]'),)
_STEPS = {
    "KStream": (
        ("KGroupedStream", "group its records first", ".group_by_key()"),
        ("TimeWindowedKStream", "group its records first", ".group_by_key().windowed_by(...)"),
    ),
    "KTable": (
        ("KStream", "make it a stream first", ".to_stream()"),
        ("KGroupedTable", "group its rows first", ".group_by(...)"),
    ),
    "KGroupedStream": _AGGREGATED,
    "KGroupedTable": _AGGREGATED,
    "TimeWindowedKStream": _AGGREGATED,
    "SessionWindowedKStream": _AGGREGATED,
    "CogroupedKStream": _AGGREGATED,
    "BranchedKStream": _ENDED,
}
"""By class: the step after which another class has the method."""

_HEIRS = {
    "KStream": {
        "branch": ".split().branch(...)",
        "flat_transform": ".process(...)",
        "flat_transform_values": ".process_values(...)",
        "through": ".repartition(...), or .to(TOPIC) and builder.stream(TOPIC)",
        "transform": ".process(...)",
        "transform_values": ".process_values(...)",
    },
    "KTable": {"through": ".to_stream().to(TOPIC) and builder.table(TOPIC)"},
}
"""By class: what Kafka Streams has put in the place of methods that it has removed."""


class SaysWhatIsMissing:
    """The base of the DSL's classes: an unknown method is answered with what to write instead."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Let other classes of the DSL know what this one has."""
        super().__init_subclass__(**options)
        _KINDS[cls.__name__] = cls

    if not TYPE_CHECKING:  # Type checkers go on telling unknown methods.

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse a name that there is not."""
            raise AttributeError(_refusal(type(self), name), name=name)


def _refusal(kind: type, name: str) -> str:
    said = f"{kind.__name__} has no {name!r}"
    if name.startswith("_"):
        return said
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    if hasattr(kind, snake):
        return f"{said}: it is {snake!r} here"
    heir = _HEIRS.get(kind.__name__, {}).get(snake)
    if heir is not None:
        return f"{said}: in its place there is {heir}"
    for other, what, step in _STEPS.get(kind.__name__, ()):
        if hasattr(_KINDS[other], snake):
            return f"{said}: {what}, as in {step}.{snake}(...)"
    public = [known for known in dir(kind) if not known.startswith("_")]
    alike = difflib.get_close_matches(snake, public, n=1)
    return said + (f"; did you mean {alike[0]!r}?" if alike else f"; it has {', '.join(public)}")
