"""What the application's outputs and stores must be: plain Python over what lies in the inputs.

Where what comes first is not defined (records of several partitions that meet), no order is asked
for. A click that meets a changing row may meet any that the row has had, none older than the one
before, and none from the future of a versioned table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tests.chaos.application import ADVANCE_MS, INPUTS, NOTHING, SIZE_MS, WITHIN_MS, first, second


@dataclass(frozen=True)
class Record:
    """A record as it lies in a topic."""

    key: str
    value: str
    time: int
    partition: int
    offset: int


Topics = Mapping[str, Sequence[Record]]
"""Records of each topic, in order of their partitions and offsets."""


@dataclass
class Model:
    """The right answers.

    Args:
        inputs: What lies in the input topics.
    """

    inputs: Topics
    _by_key: dict[str, dict[str, list[Record]]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._by_key = {topic: by_key(self.inputs[topic]) for topic in INPUTS}

    def history(self, topic: str, key: str) -> Sequence[Record]:
        """Return what was written of a key, in order."""
        return self._by_key[topic].get(key, ())

    def clicks(self) -> Mapping[str, Sequence[Record]]:
        return self._by_key["clicks"]

    @cached_property
    def clicks_of_pages(self) -> dict[str, dict[str, list[str]]]:
        """For each page the clicks of each user, in order."""
        found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for user, clicks in self.clicks().items():
            for click in clicks:
                found[second(click.value)][user].append(first(click.value))
        return found

    @cached_property
    def windows(self) -> Counter[str]:
        """How many clicks each window of a user has."""
        found: Counter[str] = Counter()
        for user, clicks in self.clicks().items():
            for click in clicks:
                last = click.time - click.time % ADVANCE_MS
                for start in range(last, click.time - SIZE_MS, -ADVANCE_MS):
                    found[f"{user} {start}"] += 1
        return found

    @cached_property
    def pairs(self) -> set[tuple[str, str]]:
        """Each user with each pair of a click and a view."""
        found = set()
        for user, clicks in self.clicks().items():
            views = sorted(self.history("views", user), key=lambda view: view.time)
            begin = 0
            for click in sorted(clicks, key=lambda click: click.time):
                while begin < len(views) and views[begin].time < click.time - WITHIN_MS:
                    begin += 1
                at = begin
                while at < len(views) and views[at].time <= click.time + WITHIN_MS:
                    found.add((user, f"{first(click.value)} {first(views[at].value)}"))
                    at += 1
        return found

    def table(self, topic: str) -> dict[str, str]:
        """Return the rows of an input table."""
        return {key: rows[-1].value for key, rows in self._by_key[topic].items()}

    @cached_property
    def versions(self) -> dict[tuple[str, int], str]:
        """The tariff of each user at some times, the last one among them."""
        found = {}
        for user, rows in self._by_key["tariffs"].items():
            for row in (rows[0], rows[len(rows) // 2], max(rows, key=lambda row: row.time)):
                found[user, row.time] = self.tariff_at(user, row.time)
        return found

    @cached_property
    def sold(self) -> dict[str, str]:
        """The rows of orders with their products."""
        products = self.table("products")
        return {
            order: f"{row} {products[second(row)]}"
            for order, row in self.table("orders").items()
            if second(row) in products
        }

    def tariff_at(self, user: str, time: int) -> str:
        """Return the tariff of a time, of all that was ever written."""
        valid = [row for row in self.history("tariffs", user) if row.time <= time]
        latest = max(valid, key=lambda row: (row.time, row.offset), default=None)
        return NOTHING if latest is None else latest.value

    def expected(self) -> dict[str, int]:
        """Return how many records each output has; of `sold` at least."""
        clicks = len(self.inputs["clicks"])
        return {
            "pages": clicks,
            "windows": sum(self.windows.values()),
            "pairs": len(self.pairs),
            "greeted": clicks,
            "priced": clicks,
            "sold": len(self.sold),
        }


def by_key(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each key, in order."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record.key].append(record)
    return dict(found)
