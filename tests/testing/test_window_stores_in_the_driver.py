"""A user's processor with a window store, through the test driver."""

from __future__ import annotations

from typing import Any

import pytest

from pystreams import (
    Processor,
    ProcessorContext,
    Record,
    Stores,
    StreamsBuilder,
    Topology,
    ValueAndTimestamp,
    Window,
    Windowed,
)
from pystreams.serdes import LONG, STRING
from pystreams.stores.kinds.window.keys import window_key
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.testing import TopologyTestDriver

MINUTE_MS = 60_000


class CountPerMinute(Processor[str, str, str, int]):
    """Counts the records of each key and minute."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context
        self.counts = context.get_state_store("per-minute")

    def process(self, record: Record[str, str]) -> None:
        start = record.timestamp - record.timestamp % MINUTE_MS
        counted = self.counts.fetch(record.key, start)
        count = 1 if counted is None else counted.value + 1
        self.counts.put(record.key, ValueAndTimestamp(count, record.timestamp), start)
        self.context.forward(record.with_value(count))


def counting(store: StoreSpecBuilder) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(store)
    (
        builder.stream("in", key_serde=STRING, value_serde=STRING)
        .process(CountPerMinute, stores=["per-minute"])
        .to("out", key_serde=STRING, value_serde=LONG)
    )
    return builder.build()


@pytest.mark.parametrize("make", ["persistent_timestamped_window_store", "in_memory_window_store"])
@pytest.mark.parametrize("caching", [False, True])
def test_a_processor_counts_in_windows_and_old_ones_are_forgotten(
    make: str, *, caching: bool
) -> None:
    supplier = getattr(Stores, make)("per-minute", 3 * MINUTE_MS, MINUTE_MS)
    store = Stores.timestamped_window_store_builder(supplier, STRING, LONG)
    if caching:
        store = store.with_caching_enabled()
    with TopologyTestDriver(counting(store), {"application.id": "app"}) as driver:
        records = driver.create_input_topic("in", STRING, STRING)
        out = driver.create_output_topic("out", STRING, LONG)

        for time in (5, 10, MINUTE_MS, 11, 9 * MINUTE_MS, 12):
            records.pipe_input("a", "x", time)

        assert out.read_values() == [1, 2, 1, 3, 1, 1]
        windows: Any = driver.get_state_store("per-minute")
        start = 9 * MINUTE_MS
        assert list(windows.all()) == [
            (Windowed("a", Window(start, start + MINUTE_MS)), ValueAndTimestamp(1, start))
        ]
        logged = driver.produced_raw("app-per-minute-changelog")
        assert logged[-1][0] == window_key(b"a", start)
