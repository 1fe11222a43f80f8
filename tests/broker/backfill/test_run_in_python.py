"""`pystreams.backfill.run` over Kafka from Python: in a notebook, or a task of Airflow."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams import StreamsBuilder, TopicPartition, Topology, serdes
from pystreams.backfill import (
    BackfillResult,
    HistoryError,
    KafkaBound,
    KafkaSource,
    PublishingSettings,
    run,
)
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.staging.directory import StagingDirectory
from pystreams.backfill.staging.errors import StagingError
from pystreams.broker import DevelopmentBroker
from tests.broker.conftest import CreateTopic
from tests.broker.reading import committed_offsets, create_topics, produce, read_all

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
RECORDS = 20

pytestmark = pytest.mark.timeout(900)


def counting(topic: str) -> Topology:
    """Two stages: how often each value came."""
    builder = StreamsBuilder()
    grouped = builder.stream(topic, **TEXT).group_by(
        lambda _, value: value, name="by-value", **TEXT
    )
    grouped.count(name="counts").to_stream().to(f"{topic}-out")
    return builder.build()


def write(broker: DevelopmentBroker, topic: str) -> None:
    records = [(b"k", b"%d" % (number % 4)) for number in range(RECORDS)]
    times = [1000 + number for number in range(RECORDS)]
    produce(broker.bootstrap_servers, topic, records, timestamps_ms=times)


def counted(done: BackfillResult) -> list[tuple[bytes | None, int]]:
    """The last count of each value."""
    rows = StagingDirectory(done.path).files(1).rows(ResultKind.STATE, "counts", 0)
    return sorted((row.key, int.from_bytes((row.value or b"")[-8:], "big")) for row in rows)


def test_backfill_from_kafka_goes_on_with_the_bounds_it_was_begun_with(
    spark: Any, broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("orders")
    config = {
        "application.id": f"{topic}-app",
        "bootstrap.servers": broker.bootstrap_servers,
        "statestore.cache.max.bytes": 0,
    }
    staged = tmp_path / "staged"
    write(broker, topic)
    first = run(counting(topic), config, output=staged)
    write(broker, topic)

    complete = run(counting(topic), config, output=staged)
    # As one that was killed in its second stage.
    (staged / "manifest.json").unlink()
    shutil.rmtree(staged / "stage-1")
    resumed = run(counting(topic), config, output=staged)

    of_each = [(b"%d" % number, RECORDS // 4) for number in range(4)]
    assert counted(first) == counted(resumed) == of_each
    assert complete.manifest == first.manifest
    other = KafkaSource.of(config, end=KafkaBound({TopicPartition(topic, 0): 7}))
    with pytest.raises(HistoryError, match="to end at offset 7, and the backfill was begun with"):
        run(counting(topic), config, output=staged, source=other)


def test_times_bound_a_backfill_from_kafka_and_stay_those_it_was_begun_with(
    spark: Any, broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("orders")
    config = {"application.id": f"{topic}-app", "bootstrap.servers": broker.bootstrap_servers}
    write(broker, topic)

    def until(time_ms: int) -> BackfillResult:
        source = KafkaSource.of(config, end=KafkaBound(times_ms={topic: time_ms}))
        return run(counting(topic), config, output=tmp_path / "staged", source=source)

    done = until(1010)

    assert sum(count for _, count in counted(done)) == 10
    assert until(1010).manifest == done.manifest
    with pytest.raises(StagingError, match=f"the end of {topic} is to be 1970-01-01T00:00:01.015"):
        until(1015)


def test_one_call_stages_and_publishes_and_does_neither_twice(
    spark: Any,
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    tmp_path: Path,
) -> None:
    topic, settings = create_topic("orders"), PublishingSettings(with_outputs=True)
    config = {"application.id": f"{topic}-app", "bootstrap.servers": broker.bootstrap_servers}
    write(broker, topic)

    def once_more() -> BackfillResult:
        return run(counting(topic), config, output=tmp_path / "staged", publishing=settings)

    with pytest.raises(PublishingRefusedError, match=f"there is no topic '{topic}-out'"):
        once_more()
    assert not (tmp_path / "staged").exists()
    create_topics(admin, [NewTopic(f"{topic}-out", 1)])
    done, again = once_more(), once_more()

    assert done.published is not None
    assert again.published is not None
    assert (done.published.was_done, again.published.was_done) == (False, True)
    assert done.published.records == sum(done.outputs.values()) - RECORDS + sum(done.state.values())
    outputs = read_all(broker.bootstrap_servers, f"{topic}-out")
    assert len(outputs) == done.outputs[f"{topic}-out"]
    assert committed_offsets(admin, f"{topic}-app")[topic, 0] == RECORDS
