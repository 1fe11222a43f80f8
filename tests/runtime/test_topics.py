"""What an application's topics are, when brokers show them late or not at all."""

from __future__ import annotations

import contextlib
import re
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from structlog.testing import capture_logs

from pystreams import (
    FatalStreamsError,
    MissingSourceTopicError,
    StreamsBuilder,
    TopicPartition,
    TopologyError,
)
from pystreams.errors import BrokerNotAvailableError, RetriableClientError
from pystreams.runtime.topics.application_topics import TopicManager
from pystreams.serdes import STRING
from pystreams.testing.simulation import ManualClock, ManualEvent
from pystreams.topology.plan.topology_plan import TopologyPlan

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pystreams.runtime.cluster.new_topic import NewTopic
    from pystreams.runtime.ports import AdminPort


class LateBroker:
    """Stands in for the admin client: shows new partitions only to those who wait for them."""

    reached_with = "-c bootstrap.servers=late:9092"

    def __init__(self, shown: dict[str, int], late: dict[str, int]) -> None:
        self._shown = shown
        self._late = late

    def partition_counts(
        self, awaited: Collection[TopicPartition] = (), patience_s: float | None = None
    ) -> dict[str, int]:
        for topic, number in awaited:
            if number < self._late.get(topic, 0):
                self._shown[topic] = self._late[topic]
        return dict(self._shown)

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        return {topic: f"id of {topic}" for topic in topics if topic in self._shown}

    def broker_setting(self, _name: str) -> list[str | None]:
        return [str("created" in self._late).lower()]

    def committed_offsets(self, _group: str) -> dict[TopicPartition, Any]:
        return {}

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Leave as they are those that somebody else has made since they were looked for."""
        for topic in topics:
            self._shown[topic.name] = self._late.get(topic.name, topic.num_partitions)


def topics_of(builder: StreamsBuilder, broker: LateBroker, **needed: Any) -> TopicManager:
    plan = TopologyPlan(builder.build(), "app")
    return TopicManager(plan, cast("AdminPort", broker), {}, 0, **needed)


def reading(*topics: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream(list(topics), key_serde=STRING, value_serde=STRING)
    return builder


def test_source_topics_that_were_created_just_now_are_waited_for() -> None:
    topics = topics_of(reading("in", "new"), LateBroker({"in": 2}, {"new": 3}))

    assert topics.prepare().num_partitions == {"in": 2, "new": 3}


def test_a_source_topic_that_does_not_come_is_named() -> None:
    command = r"create gone .* -c bootstrap\.servers=late:9092`"
    with pytest.raises(MissingSourceTopicError, match=command):
        topics_of(reading("in", "gone"), LateBroker({"in": 2}, {})).prepare()


def test_an_internal_topic_that_somebody_else_creates_meanwhile_must_have_its_partitions() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key().count()
    changelog = "app-KSTREAM-AGGREGATE-STATE-STORE-0000000001-changelog"
    broker = LateBroker({"in": 2}, {changelog: 2})
    topics_of(builder, broker).prepare()
    assert broker.partition_counts() == {"in": 2, changelog: 2}

    with pytest.raises(TopologyError, match=rf"'{changelog}' has 3 partitions and needs 2"):
        topics_of(builder, LateBroker({"in": 2}, {changelog: 3})).prepare()


class SlowBroker(LateBroker):
    """Creates topics and does not show them, for so many times."""

    def __init__(self, clock: ManualClock, times: int) -> None:
        super().__init__({"in": 2}, {})
        self._clock = clock
        self._times = times

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        if self._times:
            self._times -= 1
            self._clock.advance_ms(30_000)
            raise RetriableClientError("topics ['new'] were created and are not shown")
        super().create_topics(topics)


def counting() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key().count(name="counts")
    return builder


def test_a_start_waits_for_topics_that_were_created_and_are_not_shown_yet() -> None:
    clock = ManualClock()
    broker = SlowBroker(clock, times=2)
    with capture_logs() as logs:
        topics_of(counting(), broker).prepare_at_start(ManualEvent(clock), clock)

    assert broker.partition_counts() == {"in": 2, "app-counts-changelog": 2}
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == [
        "topics are not ready yet, trying on"
    ]


def test_a_start_that_waits_in_vain_for_topics_ends_with_what_to_do() -> None:
    clock = ManualClock()
    told = r"could not be made ready in 152 s: topics \['new'\] were .*start again"
    with pytest.raises(RetriableClientError, match=told):
        topics_of(counting(), SlowBroker(clock, times=9)).prepare_at_start(
            ManualEvent(clock), clock
        )


def test_a_stop_ends_the_wait_for_topics() -> None:
    clock, stop = ManualClock(), threading.Event()
    stop.set()

    with pytest.raises(RetriableClientError, match="are not shown"):
        topics_of(counting(), SlowBroker(clock, times=9)).prepare_at_start(stop, clock)

    assert clock.monotonic_ms() == 30_000


def writing(topic: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=STRING, value_serde=STRING).to(topic)
    return builder


def test_an_output_topic_that_nobody_will_create_ends_the_start() -> None:
    topics = topics_of(writing("out"), LateBroker({"in": 1}, {}), needs_sinks=True)
    with pytest.raises(FatalStreamsError, match=r"output topic 'out' does not exist.*create it"):
        topics.prepare()

    topics_of(writing("out"), LateBroker({"in": 1}, {"out": 1}), needs_sinks=True).prepare()


@pytest.mark.parametrize(
    ("told", "is_refused"),
    [
        (["false", None, "false"], True),
        (["false", "true"], False),
        (["true", None], False),
        ([None, None], False),
        ([], False),
    ],
)
def test_whether_an_output_topic_may_still_come_is_what_the_brokers_say_that_answer(
    told: list[str | None], is_refused: bool
) -> None:
    broker = LateBroker({"in": 1}, {})
    broker.broker_setting = lambda _name: told  # type: ignore[method-assign]
    topics = topics_of(writing("out"), broker, needs_sinks=True)

    refusal = pytest.raises(FatalStreamsError, match="output topic 'out' does not exist")
    with refusal if is_refused else contextlib.nullcontext():
        topics.prepare()


def test_a_dead_letter_queue_that_nobody_will_create_ends_the_start_whatever_the_handler() -> None:
    told = r"output topic 'dead' does not exist.*errors\.dead\.letter\.queue\.topic\.name"
    topics = topics_of(reading("in"), LateBroker({"in": 1}, {}), dead_letter_queue="dead")
    with pytest.raises(FatalStreamsError, match=told):
        topics.prepare()

    there = LateBroker({"in": 1, "dead": 1}, {})
    topics_of(reading("in"), there, dead_letter_queue="dead").prepare()


@pytest.mark.parametrize(
    ("late", "needs_sinks"), [({"created": 1}, True), ({}, False)], ids=["the broker", "a handler"]
)
def test_an_output_topic_that_may_still_come_is_a_warning(
    late: dict[str, int], needs_sinks: bool
) -> None:
    with capture_logs() as lines:
        topics_of(writing("out"), LateBroker({"in": 1}, late), needs_sinks=needs_sinks).prepare()

    (line,) = lines
    assert (line["log_level"], line["topics"]) == ("warning", ["out"])


@pytest.mark.parametrize("late", [{"in-new": 1}, {"in-old": 2}])
def test_partitions_of_a_pattern_that_the_group_gave_out_are_waited_for(
    late: dict[str, int],
) -> None:
    """The group's broker knows them already; a task is made only of what is known here."""
    builder = StreamsBuilder()
    builder.stream(pattern=re.compile("in-.*"), key_serde=STRING, value_serde=STRING)
    topics = topics_of(builder, LateBroker({"in-old": 1}, late))
    assert topics.prepare().num_partitions == {"in-old": 1}

    assigned = [TopicPartition(topic, count - 1) for topic, count in late.items()]
    assert topics.partition_counts(assigned) == {"in-old": 1} | late


def test_a_topic_of_a_pattern_that_was_deleted_is_counted_no_more_and_told_once() -> None:
    builder = StreamsBuilder()
    builder.stream(pattern="in-.*")
    shown = {"in-old": 1, "in-new": 2}
    topics = topics_of(builder, LateBroker(shown, {}))
    topics.prepare()
    del shown["in-new"]
    with capture_logs() as logs:
        topics.prepare()
        topics.prepare()

    assert topics.partition_counts() == {"in-old": 1}
    assert [line["topics"] for line in logs if "gone" in line["event"]] == [["in-new"]]


def test_a_topic_of_a_pattern_whose_partitions_internal_topics_need_is_missed() -> None:
    builder = StreamsBuilder()
    builder.stream(pattern="in-.*", key_serde=STRING, value_serde=STRING).group_by_key().count()
    shown = {"in-old": 1, "in-new": 2}
    topics = topics_of(builder, LateBroker(shown, {}))
    topics.prepare()
    del shown["in-new"]

    with pytest.raises(TopologyError, match="changelog' has 2 partitions and needs 1"):
        topics.prepare()


def test_a_new_topic_that_two_patterns_match_is_refused_when_the_group_gives_it_out() -> None:
    builder = StreamsBuilder()
    builder.stream(pattern="in-.*", name="first")
    builder.stream(pattern=".*-new", name="second")
    topics = topics_of(builder, LateBroker({"in-old": 1}, {"in-new": 1}))
    topics.prepare()

    with pytest.raises(TopologyError, match=r"'in-new' is read by two sources, 'first'.*'second'"):
        topics.partition_counts([TopicPartition("in-new", 0)])


def test_an_output_topic_that_a_partitioner_needs_is_waited_for_and_named() -> None:
    topics = topics_of(reading("in"), LateBroker({"in": 2}, {"out": 3}))

    assert topics.num_partitions("out") == 3
    with pytest.raises(FatalStreamsError, match=r"output topic 'gone' does not exist.*partitioner"):
        topics.num_partitions("gone")


class SilentBroker(LateBroker):
    """Gives no answer from some moment on, and keeps for how long each was waited for."""

    def __init__(self, shown: dict[str, int]) -> None:
        super().__init__(shown, {})
        self.silent = False
        self.waits_s: list[float | None] = []

    def partition_counts(
        self, awaited: Collection[TopicPartition] = (), patience_s: float | None = None
    ) -> dict[str, int]:
        self.waits_s.append(patience_s)
        if self.silent:
            raise BrokerNotAvailableError("no broker answered")
        return super().partition_counts(awaited, patience_s)


def test_how_many_partitions_an_output_topic_has_is_known_from_the_start_on() -> None:
    builder = reading("in")
    builder.stream("more", key_serde=STRING, value_serde=STRING).to("out")
    broker = SilentBroker({"in": 2, "more": 1, "out": 3, "other": 1})
    topics = topics_of(builder, broker)
    topics.prepare()
    broker.silent = True

    assert topics.num_partitions("out") == 3
    with pytest.raises(RetriableClientError, match="topic 'other' has is not known: no broker"):
        topics.num_partitions("other")


def test_a_loop_that_asks_waits_for_a_moment_and_longer_only_while_no_broker_answers() -> None:
    broker = SilentBroker({"in": 2, "first": 1, "second": 1})
    topics = topics_of(reading("in"), broker)
    topics.prepare()
    assert set(broker.waits_s) == {None}
    broker.waits_s.clear()
    broker.silent = True
    for _ in range(5):
        with pytest.raises(RetriableClientError):
            topics.num_partitions("first")
    with pytest.raises(BrokerNotAvailableError):
        topics.partition_counts([TopicPartition("in", 2)])
    broker.silent = False
    topics.num_partitions("first")
    topics.num_partitions("second")

    assert broker.waits_s == [2.0, 4.0, 8.0, 15.0, 15.0, 15.0, 15.0, 2.0]
