"""An aggregation of time windows in the test driver, and what it sends, written shortly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from pystreams import EmitStrategy, KTable, StreamsBuilder, TimeWindowedKStream, Windowed
from pystreams.record import Headers
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver
from pystreams.topology.contracts.windowed_serdes import TimeWindowedSerde

CLOSE = EmitStrategy.on_window_close()
UPDATE = EmitStrategy.on_window_update()
Aggregation = Callable[[TimeWindowedKStream[str, str]], KTable[Windowed[str], Any]]
Shown = tuple[str, str | None, int]
"""A windowed key as `a@0/10`, its value as text, its timestamp."""


def joined(windowed: TimeWindowedKStream[str, str], **options: Any) -> KTable[Windowed[str], Any]:
    """Aggregate as Kafka Streams' tests do: `0+1+2`."""
    return windowed.aggregate(
        lambda: "0",
        lambda _, value, so_far: f"{so_far}+{value}",
        value_serde=STRING,
        **options,
    )


class Windows:
    """Records go in, what is sent comes out."""

    def __init__(
        self,
        windows: Any,
        aggregation: Aggregation = joined,
        *,
        emit: EmitStrategy = UPDATE,
        config: Mapping[str, Any] | None = None,
        late: Any = None,
    ) -> None:
        builder = StreamsBuilder()
        grouped = builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key()
        table = aggregation(grouped.windowed_by(windows, late=late).emit_strategy(emit))
        key_serde = TimeWindowedSerde(STRING, windows.size_ms)
        table.map_values(str).to_stream().to("out", key_serde=key_serde, value_serde=STRING)
        self.topology = builder.build()
        self.driver = TopologyTestDriver(self.topology, {"application.id": "app", **(config or {})})
        self._in = self.driver.create_input_topic("in", STRING, STRING)
        self._out = self.driver.create_output_topic("out", key_serde, STRING)
        self._pack = STRING.serializer("")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.close()

    @property
    def dropped(self) -> int:
        """How many records were dropped, of all that were piped."""
        return sum(task.counts.dropped for task in self.driver._tasks)

    def pipe(self, records: str) -> list[Shown]:
        """Feed records written as `a1@5 b@7`: key, value, time; return what is sent."""
        for record in records.split():
            key_value, _, time = record.partition("@")
            key, value = key_value[0], key_value[1:]
            self._in.pipe_input(None if key == "-" else key, value or None, int(time))
        return self.sent()

    def pipe_with_headers(self, key: str, value: str, time: int, headers: Headers) -> None:
        """Feed one record."""
        self.driver.pipe_raw("in", self._pack(key), self._pack(value), time, headers)

    def sent(self) -> list[Shown]:
        """Return what was sent since the last look."""
        return [
            (str(record.key)[1:-1], record.value, record.timestamp)
            for record in self._out.read_records()
        ]

    def sent_headers(self) -> list[Headers]:
        """Return the headers of what was sent since the last look."""
        return [record.headers for record in self._out.read_records()]
