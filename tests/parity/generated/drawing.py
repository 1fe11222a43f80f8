"""A case being drawn: its steps so far, what they have made, and the random choices."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.parity.generated.options import Step

T = TypeVar("T")


@dataclass
class Made:
    """What a step makes.

    Attributes:
        name: Which "from" of later steps names it.
        kind: "stream", "table", "groups", "table_groups", "windowed", "cogrouped" or
            "windowed_cogroup".
        key: Name of the serde of its keys.
        value: Of its values; of cogrouped ones what they are aggregated to.
        windows: Of windowed ones, and of tables whose windows close.
        versioned: Of a table, that its store keeps history.
        emits: Of windowed ones: "close" or "update", if it is said.
        of: Of cogrouped ones: the groups they are made of.
        explicit: Of groups, that they have named their serdes.
        used: Whether a later step reads it.
        joins: Of a stream: of how many joins of streams its records are made. Each multiplies them.
    """

    name: str
    kind: str
    key: str = "string"
    value: str = "string"
    windows: Step | None = None
    versioned: bool = False
    emits: str | None = None
    of: tuple[str, ...] = ()
    explicit: bool = False
    used: bool = False
    joins: int = 0


@dataclass
class Drawing:
    """A case being drawn.

    Attributes:
        scale_ms: What times in the case are measured in.
        without: Operations and kinds of windows that are not drawn.
    """

    random: random.Random
    scale_ms: int
    without: frozenset[str] = frozenset()
    steps: list[Step] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    numbers: int = 0

    # ------------------------------------------------------------------ choices

    def percent(self, chance: int) -> bool:
        return self.random.randrange(100) < chance

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self.random.randrange(len(choices))]

    def has(self, *kinds: str) -> bool:
        return any(each.kind in kinds for each in self.made)

    def pick(self, *kinds: str, where: Callable[[Made], bool] = lambda _: True) -> Made | None:
        """Return something made of one of the kinds, more likely a late or unused one; or None."""
        fitting = [each for each in self.made if each.kind in kinds and where(each)]
        if not fitting:
            return None
        unused = [each for each in fitting if not each.used]
        if unused and self.percent(60):
            fitting = unused
        return fitting[-1] if self.percent(40) else self.one_of(fitting)

    def span(self, *multiples: int) -> int:
        """Return a multiple of the scale, or one a millisecond beside it."""
        span_ms = self.scale_ms * self.one_of(multiples)
        return max(1, span_ms + (self.one_of((-1, 1)) if self.percent(20) else 0))

    # ------------------------------------------------------------------ steps

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def new_name(self) -> str:
        """Return a name that sorts anywhere among the others."""
        letters = "".join(self.one_of("abmXYZ") for _ in range(3))
        return f"{letters}{self.number()}"

    def topic(self, prefix: str) -> str:
        return f"{prefix}-{self.number()}"

    def sometimes_named(self, step: Step, field_name: str = "name", chance: int = 25) -> Step:
        if self.percent(chance):
            step[field_name] = self.new_name()
        return step

    def add(self, step: Step, made: Made | None, *sources: Made) -> None:
        """Add a step that reads others, and what it makes."""
        for source, part in zip(sources, ("from", "other"), strict=False):
            step[part] = source.name
            source.used = True
        if made is not None:
            made.joins += sum(source.joins for source in sources)
            step["out"] = made.name
            self.made.append(made)
        self.steps.append(step)

    def new(self, kind: str, **fields: Any) -> Made:
        return Made(f"{kind[0]}{self.number()}", kind, **fields)

    def serdes(
        self, *types: str, chance: int = 30, parts: Sequence[str] = ("key", "value")
    ) -> Step:
        """Return the serdes of these types; none where the defaults would do, most times."""
        if all(each == "string" for each in types) and not self.percent(chance):
            return {}
        return dict(zip(parts, types, strict=False))


def keeps_ms(windows: Step) -> int:
    """Return how long windows must be kept (ms)."""
    sizes = 2 if windows["kind"] == "sliding" else 1
    size_ms: int = windows["size_ms"]
    grace_ms: int = windows.get("grace_ms", 0)
    return size_ms * sizes + grace_ms
