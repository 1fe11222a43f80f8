"""`KafkaStreams.store`: a store read from another thread while the application runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pystreams import (
    IsolationLevel,
    KafkaStreams,
    StoreNotAvailableError,
    StreamsBuilder,
    TopologyError,
    ValueAndTimestamp,
)
from pystreams.broker import DevelopmentBroker
from pystreams.serdes import STRING
from tests.broker.serving.test_queries import wait_for
from tests.broker.waiting import DEADLINE_S
from tests.broker.writing import writer_of

CreateTopic = Callable[..., str]


def counting(topic: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream(topic, key_serde=STRING, value_serde=STRING).group_by_key().count(name="counts")
    return builder


def started(
    broker: DevelopmentBroker, topic: str, directory: Path, **config: object
) -> KafkaStreams:
    settings = {
        "application.id": f"{topic}-app",
        "bootstrap.servers": broker.bootstrap_servers,
        "state.dir": str(directory),
        **{name.replace("_", "."): value for name, value in config.items()},
    }
    streams = KafkaStreams(counting(topic).build(), settings)
    streams.start()
    return streams


def test_all_tasks_of_the_instance_answer(
    broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("reads", partitions=3)
    streams = started(broker, topic, tmp_path, commit_interval_ms=100)
    try:
        writer = writer_of(broker.bootstrap_servers, topic)
        for key in ("a", "b", "c", "d", "a"):
            writer.write(topic, b"x", key.encode(), timestamp=5)
        writer.flush()
        store = streams.store("counts", IsolationLevel.READ_COMMITTED)

        wait_for(streams, lambda: sum(count.value for _, count in store.all()) == 5)

        assert store.get("a") == ValueAndTimestamp(2, 5)
        assert {key for key, _ in store.all()} == {"a", "b", "c", "d"}
        assert store.get("nobody") is None
    finally:
        streams.close(DEADLINE_S)


def test_uncommitted_counts_are_seen_only_by_those_who_ask_for_them(
    broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("isolation", partitions=1)
    streams = started(broker, topic, tmp_path, commit_interval_ms=600_000)
    try:
        writer = writer_of(broker.bootstrap_servers, topic)
        writer.write(topic, b"x", b"a", timestamp=5)
        writer.flush()
        uncommitted = streams.store("counts")
        committed = streams.store("counts", IsolationLevel.READ_COMMITTED)

        wait_for(streams, lambda: uncommitted.get("a") == ValueAndTimestamp(1, 5))

        assert committed.get("a") is None
    finally:
        streams.close(DEADLINE_S)


def test_a_store_of_a_stopped_application_is_not_available(
    broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("stopped", partitions=1)
    streams = started(broker, topic, tmp_path)
    store = streams.store("counts")
    wait_for(streams, lambda: store.get("a") is None)
    streams.close(DEADLINE_S)

    with pytest.raises(StoreNotAvailableError, match="'counts'"):
        store.get("a")


def test_a_store_the_topology_does_not_have_is_refused_by_name(
    broker: DevelopmentBroker, tmp_path: Path
) -> None:
    streams = KafkaStreams(
        counting("any").build(),
        {"application.id": "none", "bootstrap.servers": broker.bootstrap_servers},
    )

    with pytest.raises(TopologyError, match=r"no state store 'count'; there are: \['counts'\]"):
        streams.store("count")
