"""What tests of sessions share: a topology over the topic "in", its input and what came out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from pystreams import (
    KTable,
    SessionWindowedKStream,
    SessionWindows,
    StreamsBuilder,
    Window,
    Windowed,
    session_windowed_serde,
)
from pystreams.serdes import JSON, STRING
from pystreams.testing import TopologyTestDriver

Aggregation = Callable[[SessionWindowedKStream[str, str]], KTable[Windowed[str], Any]]
Input = tuple[str | None, str | None, int]
Result = tuple[str, int, int, Any, int]
"""(key, start and end of the session, value, timestamp)."""

TEXT: Any = {"key_serde": STRING, "value_serde": STRING}
GAP_5 = SessionWindows.of_inactivity_gap_with_no_grace(5)
GAP_5_GRACE_10 = SessionWindows.of_inactivity_gap_and_grace(5, 10)


def counting(**options: Any) -> Aggregation:
    """Return the count of each session, with these options."""
    return lambda sessions: sessions.count(**options)


class SessionRun:
    """A topology that aggregates the sessions of "in" and writes the changes to "out".

    Args:
        windows: How time is cut.
        aggregation: Aggregates them; counts by default.
        directory: Where stores live; in memory when None.
        config: More configuration.
    """

    def __init__(
        self,
        windows: SessionWindows = GAP_5_GRACE_10,
        aggregation: Aggregation | None = None,
        *,
        directory: Path | None = None,
        **config: Any,
    ) -> None:
        builder = StreamsBuilder()
        sessions = builder.stream("in", **TEXT).group_by_key().windowed_by(windows)
        table = (aggregation or counting())(sessions)
        table.to_stream().to("out", key_serde=session_windowed_serde(STRING), value_serde=JSON)
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.driver = TopologyTestDriver(
            builder.build(), {"application.id": "app", **settings}, state_directory=directory
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.close()

    def pipe(self, *records: Input) -> list[Result]:
        """Pipe records in; return what came out since the last call."""
        source = self.driver.create_input_topic("in", STRING, STRING)
        for key, value, timestamp in records:
            source.pipe_input(key, value, timestamp)
        return [
            (record.key.key, *record.key.window, record.value, record.timestamp)
            for record in self.driver.create_output_topic(
                "out", session_windowed_serde(STRING), JSON
            ).read_records()
        ]

    def stored(self, name: str) -> dict[Windowed[str], Any]:
        """Return what a session store holds that is not expired."""
        return dict(self.driver.get_session_store(name).fetch_range(None, None))

    def dropped(self) -> int:
        """Return how many records were dropped."""
        return sum(task.counts.dropped for task in self.driver._tasks)


def session(key: str, start: int, end: int) -> Windowed[str]:
    """Return a key with a session."""
    return Windowed(key, Window(start, end))
