"""A killed application restores what its last flush lacks, not its whole state."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from pystreams.broker import DevelopmentBroker
from pystreams.stores.engines.rocksdb.options import WRITE_BUFFER_BYTES, WRITE_BUFFERS
from tests.broker.application import Application, LogLine
from tests.broker.conftest import CreateTopic
from tests.broker.programs import write_counts
from tests.broker.reading import LastNumbers, produce, read_all, reader_of, values_by_key
from tests.variants import first_of

RECORDS = 60_000
KEYS = 5_000
VALUE = b"v" * 1000
STORED_BYTES = 8 + 8 + len(VALUE)
"""Timestamp, count and value; the key comes on top."""
COMMIT_BYTES = 1 << 20
MEMTABLE_BYTES = WRITE_BUFFER_BYTES * 9 // 8 + COMMIT_BYTES
"""A memtable is full within one block, an eighth, of its size; the last commit goes in whole."""
LOST_RECORDS = (WRITE_BUFFERS * MEMTABLE_BYTES + COMMIT_BYTES) // STORED_BYTES
"""What a kill may cost: the memtables that are not flushed, and the commit under way."""
TASKS = 16
CODE = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
source = builder.stream("{topic}", key_serde=serdes.STRING, value_serde=serdes.BYTES)
counted = source.group_by_key().aggregate(
    lambda: (0).to_bytes(8, "big"),
    lambda key, value, total: (int.from_bytes(total[:8], "big") + 1).to_bytes(8, "big") + value,
    name="totals",
    value_serde=serdes.BYTES,
)
counted.to_stream().map_values(lambda total: total[:8]).to(
    "{output}", value_serde=serdes.BYTES
)
"""


@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "exactly_once", "at_least_once"))
def test_killed_application_restores_no_more_than_its_memtables_and_one_commit_held(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    topic = create_topic("restart")
    out = create_topic("restart-out")
    file = tmp_path / "totals.py"
    file.write_text(CODE.format(topic=topic, output=out))
    servers = broker.bootstrap_servers
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": guarantee,
        "commit.interval.ms": 100,
        "statestore.cache.max.bytes": 0,
        "statestore.uncommitted.max.bytes": COMMIT_BYTES,
    }
    records = [(f"{number % KEYS}".encode(), VALUE) for number in range(RECORDS)]
    produce(servers, topic, records)
    with Application(unique_name, tmp_path, file, settings) as application:
        with reader_of(servers) as consumer:
            followed = LastNumbers(consumer, [out])
            killed = application.start()
            killed.wait_until(
                lambda: sum(followed.read()[out].values()) >= RECORDS, "all records counted"
            )
            killed.kill()
            produce(servers, topic, records[:KEYS])
            restarted = application.start()
            restarted.wait_until(
                lambda: sum(followed.read()[out].values()) >= RECORDS + KEYS, "new records counted"
            )
            totals = followed.read()[out]
        restarted.stop()

    restored = sum(line["records"] for line in restarted.lines("restored"))
    print(f"{restored} of {RECORDS} changelog records restored, {LOST_RECORDS} allowed")
    assert LOST_RECORDS < RECORDS / 3
    assert 0 < restored <= LOST_RECORDS
    if guarantee != "at_least_once":
        assert set(totals.values()) == {RECORDS // KEYS + 1}


def test_killed_thread_takes_all_its_tasks_back_and_counts_on(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    """Each task's producer finds the open transaction of its predecessor and aborts it."""
    servers = broker.bootstrap_servers
    source, output = create_topic(partitions=TASKS), create_topic(partitions=TASKS)
    file = write_counts(tmp_path, source, output)
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": "exactly_once",
        "statestore.cache.max.bytes": 0,
        "commit.interval.ms": 600_000,
        "producer.transaction.timeout.ms": 660_000,
    }
    keys = [f"{key}".encode() for key in range(TASKS * 10)]

    def feed() -> None:
        records = [(key, bytes(8)) for key in keys]
        produce(servers, source, records, partition_of=lambda index: index % TASKS)

    with Application(unique_name, tmp_path, file, settings) as application:
        killed = application.start()
        killed.wait_for_tasks(TASKS)
        feed()
        killed.wait_until(
            lambda: len(read_all(servers, output, committed=False)) == len(keys),
            "all counted, nothing committed",
        )
        killed.kill()
        feed()
        restarted = application.start(commit_interval_ms=100)
        restarted.wait_for_tasks(TASKS)
        running = restarted.lines("task running")
        restarted.wait_until(
            lambda: len(read_all(servers, output)) == 2 * len(keys), "all counted and committed"
        )
        restarted.stop()

    assigned = restarted.lines("partitions assigned")[-1]
    seconds = time_of(running[-1]) - time_of(assigned)
    print(f"{TASKS} tasks of a killed thread run {seconds:.2f} s after the assignment")
    assert {line["task"] for line in running} == {f"0_{number}" for number in range(TASKS)}
    assert values_by_key(read_all(servers, output)) == {key: [1, 2] for key in keys}


def time_of(line: LogLine) -> float:
    return datetime.fromisoformat(line["timestamp"]).timestamp()
