"""`statestore.uncommitted.max.bytes`: never crossed, and no more commits than that takes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pystreams import KafkaStreams, StateStore, StreamsBuilder, serdes
from pystreams.broker import DevelopmentBroker
from tests.broker.conftest import CreateTopic
from tests.broker.reading import Record, produce
from tests.broker.waiting import DEADLINE_S, wait_until

LIMIT_BYTES = 1 << 20
PARTITIONS = 2
TOTAL_BYTES = 24 << 20
SMALL, BIG = 10, 20_000
TIMESTAMP_BYTES = 8


def mixed(draw: random.Random) -> Iterator[int]:
    """Sizes of all orders of magnitude, one after the other."""
    while True:
        yield round(SMALL * (BIG / SMALL) ** draw.random())


def bursts(draw: random.Random) -> Iterator[int]:
    """Long runs of small records, then runs of big ones."""
    while True:
        yield from [SMALL] * draw.randint(1, 3000)
        yield from [BIG] * draw.randint(1, 150)


def growing(draw: random.Random) -> Iterator[int]:
    """Sizes that creep up from the smallest to the biggest and fall back."""
    while True:
        size = float(SMALL)
        while size <= BIG:
            yield round(size)
            size *= 1 + draw.random() / 50


IN_CI = {
    (mixed, True, True),
    (bursts, False, True),
    (growing, False, False),
}


def sizes_of(sizes: Iterator[int]) -> list[int]:
    """Return sizes that add up to about TOTAL_BYTES."""
    found: list[int] = []
    left = TOTAL_BYTES
    while left > 0:
        found.append(next(sizes))
        left -= found[-1]
    return found


@pytest.mark.parametrize(
    ("sizes", "caching", "expanding"),
    [
        pytest.param(
            sizes,
            caching,
            expanding,
            id=f"{sizes.__name__}-{'cached' if caching else 'uncached'}"
            f"-{'expanding' if expanding else 'as_read'}",
            marks=[] if (sizes, caching, expanding) in IN_CI else [pytest.mark.sweep],
        )
        for sizes in (mixed, bursts, growing)
        for caching in (False, True)
        for expanding in (False, True)
    ],
)
def test_uncommitted_bytes_stay_below_the_limit_with_no_needless_commit(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    sizes: Callable[[random.Random], Iterator[int]],
    caching: bool,
    expanding: bool,
) -> None:
    """The values are read as they are, or made of records that only say their size."""
    topic = create_topic("sizes", partitions=PARTITIONS)
    drawn = sizes_of(sizes(random.Random(6)))
    records: list[Record] = [
        (f"{number:08}".encode(), f"{size}".encode() if expanding else b"v" * size)
        for number, size in enumerate(drawn)
    ]
    produce(broker.bootstrap_servers, topic, records)
    written = sum(len(key) + TIMESTAMP_BYTES for key, _ in records) + sum(drawn)
    builder = StreamsBuilder()
    source = builder.stream(topic, key_serde=serdes.BYTES, value_serde=serdes.BYTES)
    if expanding:
        source = source.map_values(lambda size: b"v" * int(size))
    source.group_by_key(value_serde=serdes.BYTES).reduce(lambda _old, new: new, name="last")
    config: dict[str, Any] = {
        "application.id": unique_name,
        "bootstrap.servers": broker.bootstrap_servers,
        "state.dir": str(tmp_path),
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 600_000,
        "producer.transaction.timeout.ms": 660_000,
        "statestore.uncommitted.max.bytes": LIMIT_BYTES,
        "statestore.cache.max.bytes": (8 << 20) if caching else 0,
    }

    streams = KafkaStreams(builder.build(), config)
    streams.start()
    try:
        wait_until(
            lambda: streams.error or streams.statistics().processed_records == len(records),
            "all records processed",
        )
        assert streams.error is None
        numbers = streams.statistics()
        high_water_marks = [store.max_uncommitted_bytes() for store in stores_of(streams)]
    finally:
        streams.close(DEADLINE_S)

    print(
        f"{len(records)} records, {written} bytes, {numbers.commits} commits "
        f"({numbers.commits * LIMIT_BYTES / written:.2f} x bytes / limit), "
        f"most uncommitted {numbers.max_uncommitted_bytes} (stores: {high_water_marks})"
    )
    assert len(high_water_marks) == PARTITIONS
    assert max(high_water_marks) <= LIMIT_BYTES
    assert numbers.max_uncommitted_bytes <= LIMIT_BYTES
    assert numbers.commits <= 1.5 * written / LIMIT_BYTES


def stores_of(streams: KafkaStreams) -> list[StateStore]:
    return [
        store
        for thread in streams._threads
        for task in thread._manager.tasks.values()
        for store in task.state_manager.stores().values()
    ]
