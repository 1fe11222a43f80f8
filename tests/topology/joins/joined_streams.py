"""Two streams and their join under the driver: what each record makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pystreams import JoinWindows, StreamsBuilder
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver

Kind = Literal["join", "left_join", "outer_join"]
KINDS: tuple[Kind, ...] = ("join", "left_join", "outer_join")
Result = tuple[str | None, str, int]
"""Key, "left+right" and time."""


def text_of(value: str | None) -> str:
    return "none" if value is None else value


class JoinedStreams:
    """The topics `left` and `right`, joined.

    Args:
        kind: The kind of join.
        directory: Where stores live; in memory when None.
        config: More configuration.
        options: Keywords of `StreamJoined`.
    """

    def __init__(
        self,
        kind: Kind,
        windows: JoinWindows,
        *,
        directory: Path | None = None,
        config: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        builder = StreamsBuilder()
        left = builder.stream("left", key_serde=STRING, value_serde=STRING)
        right = builder.stream("right", key_serde=STRING, value_serde=STRING)
        method = getattr(left, kind)
        method(
            right, lambda value, other: f"{text_of(value)}+{text_of(other)}", windows, **options
        ).to("out", value_serde=STRING)
        self.topology = builder.build()
        self.driver = TopologyTestDriver(
            self.topology, {"application.id": "app", **(config or {})}, state_directory=directory
        )
        self._out = self.driver.create_output_topic("out", STRING, STRING)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.close()

    def left(self, key: str | None, value: str | None, timestamp: int) -> list[Result]:
        """Pipe a record of the left stream; return the results."""
        return self.pipe("left", key, value, timestamp)

    def right(self, key: str | None, value: str | None, timestamp: int) -> list[Result]:
        """Pipe a record of the right stream; return the results."""
        return self.pipe("right", key, value, timestamp)

    def pipe(self, side: str, key: str | None, value: str | None, timestamp: int) -> list[Result]:
        raw = [None if text is None else text.encode() for text in (key, value)]
        self.driver.pipe_raw(side, raw[0], raw[1], timestamp)
        return [(record.key, record.value, record.timestamp) for record in self._out.read_records()]

    def dropped(self) -> int:
        """How many records were dropped, of all that were piped."""
        return sum(task.counts.dropped for task in self.driver._tasks)
