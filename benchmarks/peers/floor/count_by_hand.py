"""The floor: count per key with no framework, the whole job by hand in one loop.

What it does a record is what any runtime in Python must do: take the message apart, decode, look
the count up, keep the new one, produce the changelog record and the result. A commit sends the
offsets with the output (in a transaction under `exactly_once`) and then writes one batch to
RocksDB. It restores nothing, joins no group, calls no user code and has no error handling: the
distance between it and a runtime is the price of all that.

One process takes one partition. Runs until SIGTERM.
"""

from __future__ import annotations

import argparse
import signal
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from rocksdict import Options, Rdict, WriteBatch, WriteOptions

BATCH_RECORDS = 2000
POLL_S = 0.05


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "app", "input", "output", "changelog", "state"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--partition", type=int, default=0)
    parser.add_argument("--guarantee", default="at_least_once")
    parser.add_argument("--commit-ms", type=int, default=100)
    parser.add_argument("--operators", type=int, default=0)
    return parser.parse_args()


class Floor:
    """The clients and the database, and what a commit does with them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.exactly_once = options.guarantee != "at_least_once"
        self.consumer = self._consumer()
        self.producer = self._producer()
        raw = Options(raw_mode=True)
        raw.create_if_missing(True)
        raw.create_missing_column_families(True)
        raw.set_atomic_flush(True)
        self.database = Rdict(options.state, raw, column_families={"default": raw, "offsets": raw})
        self._offsets = self.database.get_column_family_handle("offsets")
        self._no_wal = WriteOptions()
        # A property, though the type stubs say it is a method.
        self._no_wal.disable_wal = True  # type: ignore[method-assign, assignment]

    def commit(self, dirty: dict[bytes, bytes], position: int) -> None:
        """Commit output and offset, then the counts."""
        options = self.options
        offsets = [TopicPartition(options.input, options.partition, position)]
        if self.exactly_once:
            group = self.consumer.consumer_group_metadata()
            self.producer.send_offsets_to_transaction(offsets, group)
            self.producer.commit_transaction()
            self.producer.begin_transaction()
        else:
            self.producer.flush()
            self.consumer.commit(offsets=offsets, asynchronous=False)
        batch = WriteBatch(raw_mode=True)
        for key, row in dirty.items():
            batch.put(key, row)
        batch.put(b"position", struct.pack(">q", position), self._offsets)
        self.database.write(batch, self._no_wal)

    def _consumer(self) -> Consumer:
        options = self.options
        consumer = Consumer(
            {
                "bootstrap.servers": options.bootstrap,
                "group.id": options.app,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed" if self.exactly_once else "read_uncommitted",
                "queued.min.messages": 200_000,
                "fetch.queue.backoff.ms": 100,
            }
        )
        consumer.assign([TopicPartition(options.input, options.partition, 0)])
        return consumer

    def _producer(self) -> Producer:
        config: dict[str, Any] = {
            "bootstrap.servers": self.options.bootstrap,
            "linger.ms": 20,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 1_000_000,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
        }
        if self.exactly_once:
            config["transactional.id"] = f"{self.options.app}-{self.options.partition}"
        producer = Producer(config)
        if self.exactly_once:
            producer.init_transactions()
            producer.begin_transaction()
        return producer


def three_operators(value: str) -> str | None:
    """What `--operators 3` adds: a filter and two maps, as one would write them by hand."""
    if not value:
        return None
    return f"{value}!".upper()


def run(floor: Floor, stopped: Callable[[], bool]) -> None:
    options = floor.options
    consume, get = floor.consumer.consume, floor.database.get
    produce, poll = floor.producer.produce, floor.producer.poll
    changelog, output, partition = options.changelog, options.output, options.partition
    with_operators = options.operators > 0
    long = struct.Struct(">q")
    pack, unpack = long.pack, long.unpack_from
    clock = time.perf_counter
    interval_s = options.commit_ms / 1000
    dirty: dict[bytes, bytes] = {}
    position = 0
    last_commit_s = clock()
    while not stopped():
        messages: list[Any] = consume(BATCH_RECORDS, POLL_S)
        for message in messages:
            timestamp = message.timestamp()[1]
            key = message.key().decode().encode()  # A string serde in, and one out.
            value = message.value().decode()
            if with_operators and three_operators(value) is None:
                continue
            row = dirty.get(key)
            if row is None:
                row = get(key)
            count = pack(1 if row is None else unpack(row, 8)[0] + 1)
            dirty[key] = pack(timestamp) + count
            produce(changelog, count, key, partition, None, None, timestamp)
            produce(output, count, key, -1, None, None, timestamp)
        if messages:
            position = messages[-1].offset() + 1
            poll(0)
        if dirty and clock() - last_commit_s >= interval_s:
            floor.commit(dirty, position)
            dirty = {}
            last_commit_s = clock()


def main() -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    floor = Floor(arguments())
    run(floor, stop.is_set)
    if floor.exactly_once:
        floor.producer.abort_transaction()
    floor.producer.flush()
    floor.consumer.close()
    floor.database.close()


if __name__ == "__main__":
    main()
