"""A processor with a window store, run by `pystreams run` and killed in the middle."""

from __future__ import annotations

import shutil
from pathlib import Path

from pystreams.broker import DevelopmentBroker
from pystreams.kernel.clock import SystemClock
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.reading import LastNumbers, produce, reader_of

RECORDS = 20_000
KEYS = 20
STEP_MS = 20
"""What lies between two records in event time."""
WINDOW_MS = 10_000
CODE = """
from pystreams import Processor, Stores, StreamsBuilder, ValueAndTimestamp, serdes


class CountInWindows(Processor):
    def init(self, context):
        self.context = context
        self.counts = context.get_state_store("counts")

    def process(self, record):
        start = record.value - record.value % {window_ms}
        value, _ = self.counts.fetch_with_timestamp(record.key, start)
        count = (value or 0) + 1
        self.counts.put(record.key, ValueAndTimestamp(count, record.value), start)
        self.context.forward(record.with_key(f"{{record.key}}@{{start}}").with_value(count))


builder = StreamsBuilder()
builder.add_state_store(
    Stores.timestamped_window_store_builder(
        Stores.persistent_timestamped_window_store("counts", 100_000, {window_ms}),
        serdes.STRING,
        serdes.LONG,
    )
)
source = builder.stream("{topic}", key_serde=serdes.STRING, value_serde=serdes.LONG)
source.process(CountInWindows, stores=["counts"]).to(
    "{output}", key_serde=serdes.STRING, value_serde=serdes.LONG
)
"""


def test_counts_in_windows_are_exact_over_a_kill_and_a_deleted_store(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    topic = create_topic("windows")
    out = create_topic("windows-out")
    file = tmp_path / "windows.py"
    file.write_text(CODE.format(topic=topic, output=out, window_ms=WINDOW_MS))
    servers = broker.bootstrap_servers
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 100,
    }
    # Near the broker's own time: it deletes changelog records that it finds too old.
    first_ms = (SystemClock().now_ms() - RECORDS * STEP_MS) // WINDOW_MS * WINDOW_MS
    records = [
        (f"k{number % KEYS}".encode(), (first_ms + number * STEP_MS).to_bytes(8, "big"))
        for number in range(RECORDS)
    ]
    with Application(unique_name, tmp_path, file, settings) as application:
        with reader_of(servers) as consumer:
            followed = LastNumbers(consumer, [out])

            def counted() -> int:
                return sum(followed.read()[out].values())

            produce(servers, topic, records[: RECORDS // 2])
            killed = application.start()
            killed.wait_until(lambda: counted() >= RECORDS // 4, "some records counted")
            killed.kill()
            again = application.start()
            again.wait_for("task running")
            again.wait_until(lambda: counted() >= RECORDS // 2, "half of the records counted")
            again.stop()
            shutil.rmtree(application.state_directory / "0_0")
            produce(servers, topic, records[RECORDS // 2 :])
            restored = application.start()
            restored.wait_until(lambda: counted() >= RECORDS, "all records counted")
            counts = followed.read()[out]
        restored.stop()

    expected = WINDOW_MS // STEP_MS // KEYS
    assert len(counts) == RECORDS * STEP_MS // WINDOW_MS * KEYS
    assert set(counts.values()) == {expected}
