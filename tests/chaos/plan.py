"""What goes wrong and when: drawn from a seed, and printed before it begins."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Final

MEMBERS: Final = 3
GUESTS: Final = 2
"""Members that come and go."""

_WEIGHTS: Final = {
    "kill": 5,
    "kill all": 1,
    "hold": 3,
    "leave": 2,
    "guest": 3,
    "move": 2,
    "full disk": 2,
    "skew": 3,
    "cut": 3,
    "refuse": 1,
    "silence": 2,
    "delay": 3,
    "broker stop": 1,
    "broker kill": 2,
    "broker hold": 1,
}
_LENGTHS_S: Final = {
    "kill": (0, 4),
    "kill all": (0, 2),
    "hold": (1, 16),
    "leave": (0, 8),
    "guest": (5, 25),
    "move": (0, 4),
    "full disk": (4, 12),
    "skew": (0, 0),
    "cut": (0, 0),
    "refuse": (1, 9),
    "silence": (2, 14),
    "delay": (3, 12),
    "broker stop": (0, 3),
    "broker kill": (0, 3),
    "broker hold": (1, 12),
}
"""Sessions are of 6 s and transactions of 10 s: some faults are shorter, some longer."""
_SKEWS_MS: Final = (-7_200_000, -60_000, -5_000, 0, 5_000, 60_000, 7_200_000)
_GAP_S: Final = 7.0

KINDS: Final = tuple(_WEIGHTS)
OF_BROKERS: Final = frozenset({"broker stop", "broker kill", "broker hold"})
"""Those that a single broker does not stand: Kafka itself forgets transactions then."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        at_s: When, since the beginning.
        kind: What, of `KINDS`.
        target: Which member, broker or guest, by whatever number: modulo how many there are.
        length_s: How long it lasts; some are over at once.
        amount: How much: the share of connections, or a time in milliseconds.
        seed: Draws what is left to be drawn.
    """

    at_s: float
    kind: str
    target: int
    length_s: float
    amount: float
    seed: int

    def __str__(self) -> str:
        return (
            f"{self.at_s:6.1f} s  {self.kind} {self.target}, {self.length_s:.1f} s, {self.amount:g}"
        )


def drawn_settings(seed: int) -> dict[str, object]:
    """Return those settings of a run that are drawn."""
    draw = Random(f"setting {seed}")
    return {
        "commit.interval.ms": draw.choice([50, 100, 500]),
        "group.protocol": draw.choice(["classic", "consumer"]),
        "num.standby.replicas": draw.choice([0, 1]),
        # With a small one, members that come warm up before they join.
        "acceptable.recovery.lag": draw.choice([100, 100, 10_000]),
    }


def drawn(seed: int, seconds: float, kinds: Collection[str] = KINDS) -> list[Fault]:
    """Return the faults of a run, in order: some overlap, and some come while nothing else does."""
    draw = Random(f"chaos {seed}")
    faults: list[Fault] = []
    at_s = draw.uniform(2, 5)
    names = [kind for kind in KINDS if kind in kinds]
    while at_s < seconds:
        kind = draw.choices(names, [_WEIGHTS[name] for name in names])[0]
        length_s = draw.uniform(*_LENGTHS_S[kind])
        faults.append(
            Fault(
                round(at_s, 1),
                kind,
                draw.randrange(12),
                round(length_s, 1),
                _amount(kind, draw),
                draw.getrandbits(16),
            )
        )
        at_s += draw.expovariate(1 / _GAP_S)
    return faults


def _amount(kind: str, draw: Random) -> float:
    if kind == "skew":
        return draw.choice(_SKEWS_MS)
    if kind == "delay":
        return draw.choice([20, 100, 400, 1500])
    if kind in {"cut", "silence"}:
        return draw.choice([0.1, 0.3, 0.6, 1.0])
    return 0
