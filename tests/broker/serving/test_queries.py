"""`KafkaStreams.query` against a real broker: isolation, positions, bounds, partitions, restarts.

The cases of Kafka's IQv1IsolationLevelIntegrationTest, IQv2IsolationLevelIntegrationTest and
TransactionalPositionRestartIntegrationTest, as behaviour.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from pystreams import (
    FailureReason,
    IsolationLevel,
    KafkaStreams,
    KeyQuery,
    Position,
    PositionBound,
    Processor,
    ProcessorContext,
    QueryFailedError,
    RangeQuery,
    State,
    StoreNotAvailableError,
    Stores,
    StreamsBuilder,
    TimestampedKeyQuery,
    TopicPartition,
    Topology,
    TopologyError,
    ValueAndTimestamp,
    WindowKeyQuery,
)
from pystreams.broker import DevelopmentBroker
from pystreams.serdes import LONG, STRING
from tests.broker.conftest import CreateTopic
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.broker.writing import Writer

COMMITTED = IsolationLevel.READ_COMMITTED
UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
COMMIT = "commit"
"""A record with this value makes the application commit; it does so at no other time."""
ALL_GUARANTEES = [
    "at_least_once",
    "exactly_once_v2",
    pytest.param("exactly_once", marks=pytest.mark.sweep),
]


class Counting(Processor[str, str, str, int]):
    """Counts the records of each key."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._context = context
        self._counts: Any = context.get_state_store("counts")

    def process(self, record: Any) -> None:
        count, _ = self._counts.get_with_timestamp(record.key)
        self._counts.put_with_timestamp(record.key, (count or 0) + 1, record.timestamp)
        if record.value == COMMIT:
            self._context.commit()


def counting(topic: str) -> Topology:
    builder = StreamsBuilder()
    supplier = Stores.persistent_timestamped_key_value_store("counts")
    store = Stores.timestamped_key_value_store_builder(supplier, STRING, LONG)
    builder.add_state_store(store)
    builder.stream(topic, key_serde=STRING, value_serde=STRING).process(Counting, stores=["counts"])
    return builder.build()


class Feed:
    """Writes records and knows their positions."""

    def __init__(self, broker: DevelopmentBroker, topic: str) -> None:
        self._writer = Writer(broker.bootstrap_servers, delivered=self._written)
        self._topic = topic
        self.position = Position()

    def write(self, key: str, value: str = "x", *, partition: int = 0) -> Position:
        """Write one record at 5 ms; return the position of all written so far."""
        self._writer.write(self._topic, value, key, partition, timestamp=5)
        self._writer.flush()
        return self.position

    def _written(self, message: Message) -> None:
        self.position = self.position.with_component(
            message.topic() or "", message.partition() or 0, message.offset() or 0
        )


@contextlib.contextmanager
def running(
    broker: DevelopmentBroker, topology: Topology, name: str, directory: Path, **config: object
) -> Iterator[KafkaStreams]:
    """Run an application that commits only when it is asked to."""
    settings = {
        "application.id": f"{name}-app",
        "bootstrap.servers": broker.bootstrap_servers,
        "state.dir": str(directory),
        "commit.interval.ms": 600_000,
        "producer.transaction.timeout.ms": 700_000,
        "consumer.group.instance.id": directory.name,
        **{key.replace("_", "."): value for key, value in config.items()},
    }
    streams = KafkaStreams(topology, settings)
    streams.start()
    try:
        yield streams
    finally:
        streams.close(DEADLINE_S)


def wait_for(streams: KafkaStreams, condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; the application must not stop meanwhile."""

    def holds() -> bool:
        assert streams.state not in {State.ERROR, State.NOT_RUNNING}, streams.error
        with contextlib.suppress(StoreNotAvailableError):
            return condition()
        return False

    wait_until(holds, "the condition", told=lambda: str(streams.error))


def wait_for_position(
    streams: KafkaStreams, position: Position, level: IsolationLevel = UNCOMMITTED
) -> None:
    """Wait until the store's partitions cover a position."""
    bound = PositionBound.at(position)
    numbers = {partition.partition for partition in position.offsets}

    def reached() -> bool:
        results = streams.query(
            RangeQuery(),
            store="counts",
            partitions=numbers,
            isolation_level=level,
            position_bound=bound,
        ).partition_results
        return all(result.is_success for result in results.values())

    wait_for(streams, reached)


def count_of(streams: KafkaStreams, key: str, level: IsolationLevel | None = None) -> Any:
    return streams.query(KeyQuery(key), store="counts", isolation_level=level).only_value()


# ------------------------------------------------------------------ isolation


@pytest.mark.parametrize("guarantee", ALL_GUARANTEES)
def test_queries_in_the_middle_of_a_transaction_see_what_their_level_says(
    broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path, guarantee: str
) -> None:
    topic = create_topic("iq-levels")
    feed = Feed(broker, topic)
    feed.write("a")
    seen = feed.write("b", COMMIT)
    with running(broker, counting(topic), topic, tmp_path, processing_guarantee=guarantee) as (
        streams
    ):
        wait_for_position(streams, seen, COMMITTED)
        seen = feed.write("a")
        seen = feed.write("c")
        wait_for_position(streams, seen)

        def entries(level: IsolationLevel | None) -> dict[str, int]:
            found = streams.query(RangeQuery(), store="counts", isolation_level=level).only_value()
            by_query = dict(found or ())
            by_store = streams.store("counts", level)
            assert by_query == {key: versioned.value for key, versioned in by_store.all()}
            for key in "abcd":
                assert count_of(streams, key, level) == by_query.get(key)
            return by_query

        old, new = {"a": 1, "b": 1}, {"a": 2, "b": 1, "c": 1}
        assert entries(UNCOMMITTED) == new
        assert entries(COMMITTED) == old
        # KIP-892: exactly-once implies READ_COMMITTED, unless something was set.
        assert entries(None) == (new if guarantee == "at_least_once" else old)

        seen = feed.write("c", COMMIT)
        wait_for_position(streams, seen, COMMITTED)
        assert entries(COMMITTED) == entries(UNCOMMITTED) == {"a": 2, "b": 1, "c": 2}


def test_a_level_that_was_set_holds_under_exactly_once(
    broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("iq-set")
    feed = Feed(broker, topic)
    feed.write("a")
    with running(
        broker,
        counting(topic),
        topic,
        tmp_path,
        processing_guarantee="exactly_once_v2",
        default_state_isolation_level="READ_UNCOMMITTED",
    ) as streams:
        wait_for_position(streams, feed.position)

        assert count_of(streams, "a") == 1
        assert count_of(streams, "a", COMMITTED) is None


# ------------------------------------------------------------------ positions and restarts


@pytest.mark.parametrize("guarantee", ALL_GUARANTEES)
def test_position_after_a_restart_is_that_of_the_last_commit(
    broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path, guarantee: str
) -> None:
    """And that of its data, whether its directory is kept or lost."""
    topic = create_topic("iq-restart")
    feed = Feed(broker, topic)
    topology = counting(topic)
    feed.write("a")
    seen = feed.write("b", COMMIT)
    kept, lost = tmp_path / "kept", tmp_path / "lost"
    config = {"processing_guarantee": guarantee, "consumer_group_instance_id": topic}
    for directory in (kept, kept, lost):
        with running(broker, topology, topic, directory, **config) as streams:
            wait_for_position(streams, seen, COMMITTED)
            for level in (COMMITTED, UNCOMMITTED):
                result = streams.query(RangeQuery(), store="counts", isolation_level=level)
                assert result.position == seen
                assert dict(result.only_value() or ()) == {"a": 1, "b": 1}


# ------------------------------------------------------------------ partitions, bounds, failures


def test_partitions_answer_and_fail_each_for_itself(
    broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("iq-partitions", partitions=3)
    feed = Feed(broker, topic)
    for number, key in enumerate("abc"):
        feed.write(key, partition=number)
    with running(broker, counting(topic), topic, tmp_path, num_stream_threads=2) as streams:
        wait_for_position(streams, feed.position)

        everywhere = streams.query(TimestampedKeyQuery("b"), store="counts")
        assert set(everywhere.partition_results) == {0, 1, 2}
        assert everywhere.only_value() == ValueAndTimestamp(1, 5)
        assert everywhere.position == feed.position

        some = streams.query(KeyQuery("b"), store="counts", partitions=[1, 3])
        assert some.partition_results[1].value == 1
        assert some.partition_results[3].failure_reason is FailureReason.DOES_NOT_EXIST

        ahead = feed.position.with_component(topic, 2, 1)
        bounded = streams.query(
            KeyQuery("c"), store="counts", position_bound=PositionBound.at(ahead)
        ).partition_results
        assert [bounded[number].is_success for number in range(3)] == [True, True, False]
        assert bounded[2].failure_reason is FailureReason.NOT_UP_TO_BOUND
        assert bounded[2].position == Position({TopicPartition(topic, 2): 0})
        assert feed.write("c", partition=2) == ahead
        wait_for_position(streams, ahead)

        wrong = streams.query(WindowKeyQuery("c", 0, 10), store="counts").partition_results
        assert {answer.failure_reason for answer in wrong.values()} == {
            FailureReason.UNKNOWN_QUERY_TYPE
        }


def test_partitions_of_another_instance_are_not_present(
    broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("iq-instances", partitions=2)
    feed = Feed(broker, topic)
    for number, key in enumerate("ab"):
        feed.write(key, partition=number)
    topology = counting(topic)
    with (
        running(broker, topology, topic, tmp_path / "1") as one,
        running(broker, topology, topic, tmp_path / "2") as other,
    ):

        def answering(streams: KafkaStreams) -> list[int]:
            result = streams.query(KeyQuery("a"), store="counts", partitions=[0, 1])
            failures = {
                number: answer.failure_reason
                for number, answer in result.partition_results.items()
                if not answer.is_success
            }
            assert set(failures.values()) <= {FailureReason.NOT_PRESENT, FailureReason.NOT_ACTIVE}
            return [number for number in (0, 1) if number not in failures]

        wait_for(one, lambda: sorted((answering(one), answering(other))) == [[0], [1]])
        here, elsewhere = answering(one)[0], answering(other)[0]
        missing = one.query(KeyQuery("a"), store="counts", partitions=[elsewhere])
        assert missing.partition_results[elsewhere].failure_reason is FailureReason.NOT_PRESENT
        with pytest.raises(QueryFailedError, match=f"NOT_PRESENT: partition {elsewhere} of"):
            missing.only_value()
        assert list(one.query(KeyQuery("a"), store="counts").partition_results) == [here]


def test_an_application_that_does_not_run_can_not_be_asked(
    broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("iq-life")
    settings = {"application.id": topic, "bootstrap.servers": broker.bootstrap_servers}
    streams = KafkaStreams(counting(topic), settings)
    with pytest.raises(StoreNotAvailableError, match="the application is CREATED; start it"):
        streams.query(KeyQuery("a"), store="counts")
    with pytest.raises(TopologyError, match=r"no state store 'count'; there are: \['counts'\]"):
        streams.query(KeyQuery("a"), store="count")
    with running(broker, counting(topic), topic, tmp_path) as streams:
        wait_for(streams, lambda: streams.state is State.RUNNING)

    with pytest.raises(
        StoreNotAvailableError,
        match=r"the application has stopped, in state NOT_RUNNING; .* make and start a new",
    ):
        streams.query(KeyQuery("a"), store="counts")
