"""The bounds of a history in Kafka; what Spark reads of it is in tests/broker/backfill."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pystreams.backfill.connector_jars import CONNECTOR_VERSION, with_connector
from pystreams.backfill.history import HistoryError, PartitionBounds, WantedTopics
from pystreams.backfill.kafka_source import KafkaBound, KafkaSource
from pystreams.backfill.partition_reader import KafkaPartitionReader
from pystreams.config import StreamsConfig
from pystreams.errors import ConfigError, MissingSourceTopicError
from pystreams.ids import TopicPartition
from pystreams.testing.simulation import (
    Faults,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)
from pystreams.topology.builder import StreamsBuilder
from pystreams.topology.plan import TopologyPlan

PARTITION = TopicPartition("in", 0)
WANTED = WantedTopics(("in",), ())


@pytest.fixture
def broker() -> SimulatedBroker:
    """A topic of offsets 3 to 10, times 30 to 90, and an open transaction behind them."""
    made = SimulatedBroker(ManualClock(), Faults(0))
    made.create_topic("in", 1)
    made.create_topic("elsewhere", 4)
    for number in range(10):
        made.produce("in", b"k", b"v", number * 10)
    made.log(PARTITION).delete_before(3)
    epoch = made.transactions.init("open")
    made.append("in", 0, [(b"v", b"k", 200, ())], ("open", epoch))
    return made


def bounds(broker: SimulatedBroker, wanted: WantedTopics = WANTED, **chosen: Any) -> Any:
    admin = SimulatedClients(broker, Lifeline("backfill", broker.faults)).admin()
    return KafkaSource("none:9092", admin, **chosen).bounds(wanted)[1]


def test_default_is_from_the_first_offset_to_the_last_stable_one(broker: SimulatedBroker) -> None:
    assert bounds(broker) == {PARTITION: PartitionBounds(3, 10, 7)}


def test_offsets_and_times_bound_it(broker: SimulatedBroker) -> None:
    by_offset = bounds(broker, start=KafkaBound({PARTITION: 4}), end=KafkaBound({PARTITION: 8}))
    by_time = bounds(broker, start=KafkaBound({}, {"in": 41}), end=KafkaBound({}, {"in": 80}))

    assert by_offset == {PARTITION: PartitionBounds(4, 8, 4)}
    assert by_time == {PARTITION: PartitionBounds(5, 8, 3)}


def test_time_behind_all_records_is_the_end(broker: SimulatedBroker) -> None:
    assert bounds(broker, start=KafkaBound({}, {"in": 10_000})) == {
        PARTITION: PartitionBounds(10, 10, 0)
    }
    assert bounds(broker, end=KafkaBound({}, {"in": 10_000})) == {
        PARTITION: PartitionBounds(3, 10, 7)
    }


def test_patterns_choose_among_the_topics_there_are(broker: SimulatedBroker) -> None:
    found = bounds(broker, WantedTopics((), (re.compile("else.*"),)))

    assert list(found) == [TopicPartition("elsewhere", number) for number in range(4)]


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"start": KafkaBound({PARTITION: 2})}, "holds 3 to 10"),
        ({"end": KafkaBound({PARTITION: 11})}, "3 to 10 to choose from"),
        ({"start": KafkaBound({PARTITION: 8}), "end": KafkaBound({PARTITION: 5})}, "8 to 10"),
        ({"start": KafkaBound({TopicPartition("in", 1): 0})}, "start of in-1 is given"),
        ({"end": KafkaBound({}, {"inn": 0})}, "end of topic 'inn' is given"),
    ],
)
def test_bound_that_is_not_in_its_partition_is_refused(
    broker: SimulatedBroker, chosen: dict[str, KafkaBound], told: str
) -> None:
    with pytest.raises(HistoryError, match=told):
        bounds(broker, WANTED, **chosen)


def test_times_behind_an_open_transaction_are_the_last_stable_offset(
    broker: SimulatedBroker,
) -> None:
    for _ in range(3):
        broker.produce("in", b"k", b"v", 500)

    assert bounds(broker, end=KafkaBound({}, {"in": 400})) == {PARTITION: PartitionBounds(3, 10, 7)}
    assert bounds(broker, start=KafkaBound({}, {"in": 400})) == {
        PARTITION: PartitionBounds(10, 10, 0)
    }


BEGUN = WantedTopics(("in",), (), {PARTITION: PartitionBounds(4, 9, 5)})


def test_backfill_that_was_begun_keeps_its_bounds_whatever_has_come_and_gone(
    broker: SimulatedBroker,
) -> None:
    log = broker.log(PARTITION)
    broker.transactions.end("open", 0, commit=True)
    broker.transactions.complete_all()
    log.delete_before(6)

    assert bounds(broker, BEGUN) == {PARTITION: PartitionBounds(4, 9, 5)}
    same = {"start": KafkaBound({PARTITION: 4}), "end": KafkaBound({PARTITION: 9})}
    assert bounds(broker, BEGUN, **same) == {PARTITION: PartitionBounds(4, 9, 5)}


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"start": KafkaBound({PARTITION: 5})}, "in-0 is to begin at offset 5.*begun with 4"),
        ({"end": KafkaBound({PARTITION: 8})}, "in-0 is to end at offset 8.*begun with 9"),
    ],
)
def test_offsets_that_a_backfill_was_not_begun_with_are_refused(
    broker: SimulatedBroker, chosen: dict[str, KafkaBound], told: str
) -> None:
    with pytest.raises(HistoryError, match=told):
        bounds(broker, BEGUN, **chosen)


def test_topic_that_was_made_anew_since_the_backfill_was_begun_is_refused(
    broker: SimulatedBroker,
) -> None:
    begun = WantedTopics(("in",), (), {PARTITION: PartitionBounds(0, 500, 500)})

    with pytest.raises(HistoryError, match=r"went up to offset 500.*ends at 10"):
        bounds(broker, begun)


@pytest.mark.parametrize(("has_reader", "is_merged"), [(True, False), (True, True), (False, False)])
def test_connector_of_spark_s_is_needed_where_workers_can_t_read_all(
    broker: SimulatedBroker, has_reader: bool, is_merged: bool
) -> None:
    config = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "none:9092"})
    admin = SimulatedClients(broker, Lifeline("backfill", broker.faults)).admin()
    reader = KafkaPartitionReader(config) if has_reader else None
    builder = StreamsBuilder()
    builder.stream("in").to("elsewhere" if is_merged else "out")
    builder.stream("elsewhere").to("far")

    source = KafkaSource("none:9092", admin, reader=reader)

    needed = source.needs_connector(TopologyPlan(builder.build(), "app"))
    assert needed == (is_merged or not has_reader)


def test_missing_topic_is_named(broker: SimulatedBroker) -> None:
    with pytest.raises(MissingSourceTopicError, match="'nowhere'"):
        bounds(broker, WantedTopics(("nowhere",), ()))


def test_connector_of_one_s_own_is_left_alone() -> None:
    own = {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0"}

    assert with_connector(own) == own


def test_pinned_connector_is_refused_for_another_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", "4.1.2")

    with pytest.raises(ConfigError, match=rf"is Spark {CONNECTOR_VERSION}'s.*_2.13:4.1.2"):
        with_connector({})
