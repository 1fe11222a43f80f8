"""A killed application leaves data, changelog offset and input position of one and the same commit.

The case of Kafka's TransactionalPositionRestartIntegrationTest (KAFKA-20760), with a kill -9.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pystreams import Position, TopicPartition
from pystreams.broker import DevelopmentBroker
from pystreams.stores.build import build_store
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.reading import LastNumbers, produce, reader_of
from tests.stores.support import Home, spec_of
from tests.variants import first_of

RECORDS = 20_000
KEYS = 3_000
CODE = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
source = builder.stream("{topic}", key_serde=serdes.STRING, value_serde=serdes.BYTES)
source.group_by_key().count(name="counts").to_stream().to("{output}")


def small_memtables(store_name, options):
    options.set_write_buffer_size(1 << 16)
"""


class OnDisk(NamedTuple):
    """What a store's directory holds while nobody has it open."""

    counted: int
    position: Position
    changelog_offset: int | None


def on_disk(application: Application) -> OnDisk:
    store: Any = build_store(spec_of(name="counts", timestamped=True))
    store.init(Home(application.state_directory / "0_0").context())
    try:
        changelog = TopicPartition(f"{application.id}-counts-changelog", 0)
        counted = sum(count.value for _, count in store.all())
        return OnDisk(counted, store.position, store.committed_offset(changelog))
    finally:
        store.close()


@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "at_least_once"))
def test_position_is_that_of_the_data_after_a_kill_and_after_the_restart(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    topic, output = create_topic("killed"), create_topic("killed-out")
    (tmp_path / "counts.py").write_text(CODE.format(topic=topic, output=output))
    servers = broker.bootstrap_servers
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": guarantee,
        "commit.interval.ms": 50,
        "statestore.cache.max.bytes": 0,
        "rocksdb.config.setter": "counts:small_memtables",
    }
    produce(servers, topic, [(b"%d" % (number % KEYS), b"x") for number in range(RECORDS)])
    environment = {"PYTHONPATH": str(tmp_path)}
    with (
        Application(unique_name, tmp_path, tmp_path / "counts.py", settings, environment) as app,
        reader_of(servers) as consumer,
    ):
        followed = LastNumbers(consumer, [output])

        def counted() -> int:
            return sum(followed.read()[output].values())

        killed = app.start()
        killed.wait_until(lambda: counted() > RECORDS * 2 // 3, "two thirds of the records")
        killed.kill()
        left = on_disk(app)
        produce(servers, topic, [(b"last", b"x")])
        restarted = app.start()
        restarted.wait_until(lambda: b"last" in followed.read()[output], "the last record")
        restarted.stop()
        final = on_disk(app)

    assert left.counted > 0, "nothing was flushed before the kill: the test says nothing"
    assert left.changelog_offset is not None
    assert left.position == Position({TopicPartition(topic, 0): left.counted - 1})
    assert final.position == Position({TopicPartition(topic, 0): RECORDS})
    if guarantee != "at_least_once":
        assert final.counted == RECORDS + 1
