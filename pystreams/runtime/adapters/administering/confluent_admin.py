"""Topics and their offsets, on librdkafka's admin client."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,
    ListOffsetsResultInfo,
    OffsetSpec,
)
from confluent_kafka.admin import NewTopic as KafkaNewTopic

from pystreams.config.clients import reached_with
from pystreams.errors import (
    BrokerNotAvailableError,
    RetriableClientError,
    StreamsError,
)
from pystreams.ids import TopicPartition, firsts_of
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.administering import consumer_groups, group_offsets
from pystreams.runtime.adapters.administering.coordinator_client import CoordinatorClient
from pystreams.runtime.adapters.administering.lasting_client import LastingClient
from pystreams.runtime.adapters.administering.patience import Patience
from pystreams.runtime.adapters.administering.repeated_questions import RepeatedQuestions
from pystreams.runtime.adapters.administering.topic_requests import creation_error, refused_topics
from pystreams.runtime.adapters.administering.topic_settings import (
    broker_setting,
    change_settings,
    described_settings,
)
from pystreams.runtime.adapters.connection.confluent_errors import (
    MISSING_TOPIC,
    OLD_LEADER,
    TRANSIENT,
    error_of,
    translate,
)
from pystreams.runtime.adapters.connection.connections import BrokerOutage, make_client
from pystreams.runtime.adapters.connection.kafka_partitions import ours, theirs
from pystreams.runtime.adapters.connection.timeouts import Timeouts
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, OffsetRange
from pystreams.runtime.cluster.group_description import GroupDescription
from pystreams.runtime.cluster.new_topic import NewTopic

_log = get_logger("pystreams.admin")

_FIRST_WAIT_S = 0.5
_TOLD_AFTER_S = 2.0
_VISIBLE_PAUSE_S = 0.05

_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_Listed = dict[KafkaPartition, "Future[ListOffsetsResultInfo]"]


class ConfluentAdmin:
    """Implements `AdminPort`. May be called from any thread.

    Args:
        replication_factor: Replicas of topics to create; -1 for the broker's default.
        stopping: Whether the application is to stop: an answer is then waited for no longer than
            seconds. Called from any thread.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        outage: BrokerOutage,
        replication_factor: int = -1,
        *,
        make: Callable[[dict[str, Any]], AdminClient] = AdminClient,
        timeouts: Timeouts | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._timeouts = timeouts or Timeouts()
        self._patience = Patience(stopping, self._timeouts.last_s)
        self._answer_s = self._timeouts.answer_s
        self._questions = RepeatedQuestions(self._timeouts, self._patience, self._learn_leaders)
        self._config = config
        self.reached_with = reached_with(config)
        self._replication_factor = replication_factor
        self._outage = outage
        self._refused = outage.refused(config)
        self._make_client = partial(make_client, make, config, outage)
        self._lasting = LastingClient(self._make_client)
        self._coordinators = CoordinatorClient(self._make_client)
        # Set by answers of an old leader; those to a purge come on a thread of the client's.
        self._leaders_are_old = False

    @property
    def _client(self) -> AdminClient:
        return self._lasting.client

    def partition_counts(
        self, awaited: Collection[TopicPartition] = (), patience_s: float | None = None
    ) -> dict[str, int]:
        """Return the partition count of every topic the broker shows; says early that none answers.

        Raises:
            AuthenticationError: Brokers refuse the client.
            BrokerNotAvailableError: None answered in time.
            FatalStreamsError: What is awaited may not be seen.
        """
        return self._counts_with(awaited, self._timeouts.shown_s, patience_s)

    def _counts_with(
        self, awaited: Collection[TopicPartition], shown_s: float, patience_s: float | None = None
    ) -> dict[str, int]:
        deadline_s = time.monotonic() + shown_s
        while True:
            counts = self._counts(patience_s)
            missing = {
                partition.topic
                for partition in awaited
                if partition.partition >= counts.get(partition.topic, 0)
            }
            if not missing:
                return counts
            if time.monotonic() > deadline_s or self._patience.ends:
                with contextlib.suppress(RetriableClientError):
                    self.topic_ids(sorted(missing - counts.keys()))  # Raises for a hidden one.
                return counts
            time.sleep(_VISIBLE_PAUSE_S)

    def _counts(self, patience_s: float | None = None) -> dict[str, int]:
        found = self._metadata(patience_s or self._timeouts.metadata_s)
        self._refused.accept()
        if self._outage.lasting:
            self._outage.ends()
        return {name: len(at.partitions) for name, at in found.topics.items() if not at.error}

    def _metadata(self, patience_s: float) -> ClusterMetadata:
        deadline_s = time.monotonic() + patience_s
        told = self._outage.lasting
        while True:
            left_s = deadline_s - time.monotonic()
            # As long as it has waited so far: what refuses the client is only heard in between,
            # and a broker that is slow must get the time to answer.
            waits_s = min(left_s, max(patience_s - left_s, _FIRST_WAIT_S))
            try:
                return self._lasting.list_topics(max(waits_s, _VISIBLE_PAUSE_S))
            except KafkaException as raised:
                self._check_refused()
                error = error_of(raised)
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or self._patience.ends or error.code() not in TRANSIENT:
                    reason = self._outage.reason or error.str()
                    message = (
                        f"no broker answered at {self._config['bootstrap.servers']} within "
                        f"{patience_s:.0f} s ({reason}): start the broker, or correct "
                        "bootstrap.servers"
                    )
                    raise self._refused.error() or BrokerNotAvailableError(message) from raised
                told = told or self._refused.told
                if not told and left_s <= patience_s - _TOLD_AFTER_S:
                    told = True
                    _log.warning(
                        "no broker answers yet, trying on",
                        bootstrap_servers=self._config["bootstrap.servers"],
                        seconds_left=round(left_s),
                        reason=error.str(),
                    )
                time.sleep(_VISIBLE_PAUSE_S)

    def _check_refused(self) -> None:
        """Hear what the client has to say of its connections; raise when brokers refuse it."""
        self._client.poll(0)
        self._refused.check()

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Return what identifies topics; those that do not exist are left out."""
        if not topics:
            return {}
        wanted = TopicCollection(list(topics))
        (described,) = self._questions.answers(
            lambda time_s: [self._client.describe_topics(wanted, request_timeout=time_s)]
        )
        found = {}
        for topic, answer in described.items():
            doing = f"description of topic {topic!r}"
            try:
                found[topic] = str(self._patience.result(answer, doing).topic_id)
            except KafkaException as raised:
                error = error_of(raised)
                if error.code() not in MISSING_TOPIC:
                    raise translate(error, doing) from raised
        return found

    def topic_settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics that exist and may be described, defaults included."""
        return described_settings(self._client, topics)

    def change_topic_settings(self, changes: Mapping[str, Mapping[str, str]]) -> None:
        """Set some settings of topics."""
        change_settings(self._client, changes)

    def broker_setting(self, name: str) -> list[str | None]:
        """Return a setting of each broker; None for one that does not tell it in time."""
        return broker_setting(self._client, name, self._answer_s)

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create topics and wait until brokers show them; one that exists is left as it is."""
        if not topics:
            return
        wanted = {
            topic.name: KafkaNewTopic(
                topic.name,
                num_partitions=topic.num_partitions,
                replication_factor=self._replication_factor,
                config=dict(topic.config),
            )
            for topic in topics
        }

        def ask(names: list[str]) -> dict[str, Future[None]]:
            new = [wanted[name] for name in names]
            return self._client.create_topics(new, operation_timeout=self._answer_s)

        there = frozenset({KafkaError.TOPIC_ALREADY_EXISTS})
        refused = refused_topics(ask, wanted, there, self._answer_s)
        for name, raised in refused.items():
            raise creation_error(name, raised, self._replication_factor) from raised
        self._wait_until_visible(wanted.keys())

    def _wait_until_visible(self, names: Collection[str]) -> None:
        """Wait for metadata: a consumer that subscribes too early takes a topic for missing."""
        missing = set(names) - self._counts_with(firsts_of(names), self._answer_s).keys()
        if missing:
            text = f"topics {sorted(missing)} were created and are not shown by the broker"
            raise RetriableClientError(text)

    def delete_topics(self, topics: Sequence[str]) -> dict[str, StreamsError]:
        """Delete topics, and wait until brokers show them no more; return those that stay."""
        if not topics:
            return {}
        ask = partial(self._client.delete_topics, operation_timeout=self._answer_s)
        refused = refused_topics(ask, topics, MISSING_TOPIC, self._answer_s)
        failures = {
            name: translate(error_of(raised), f"deleting topic {name!r}")
            for name, raised in refused.items()
        }
        gone = set(topics) - failures.keys()
        deadline_s = time.monotonic() + self._timeouts.shown_s
        while gone & self._counts().keys() and time.monotonic() < deadline_s:
            time.sleep(_VISIBLE_PAUSE_S)
        return failures

    def offset_ranges(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetRange]:
        """Return beginning, stable end and high watermark of partitions."""
        if not partitions:
            return {}
        first, last = (dict.fromkeys(map(theirs, partitions), at) for at in (_EARLIEST, _LATEST))
        # Asked for side by side. The high watermark is asked for last, so as not to be below.
        beginnings, ends, highs = self._ask(
            (first, IsolationLevel.READ_COMMITTED),
            (last, IsolationLevel.READ_COMMITTED),
            (last, IsolationLevel.READ_UNCOMMITTED),
        )
        found = {}
        with self._leaders_learned():
            for partition in partitions:
                key = theirs(partition)
                beginning, end, high = (
                    self._offset(listed[key], partition) for listed in (beginnings, ends, highs)
                )
                found[partition] = OffsetRange(beginning, end, max(high, end))
        return found

    def told_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where partitions end; those whose broker is silent are left out."""
        if not partitions:
            return {}
        wanted = dict.fromkeys(map(theirs, partitions), _LATEST)
        (listed,) = self._ask((wanted, IsolationLevel.READ_COMMITTED))
        ends = {}
        with self._leaders_learned():
            for partition in partitions:
                with contextlib.suppress(StreamsError):
                    ends[partition] = self._offset(listed[theirs(partition)], partition)
                if self._patience.ends:
                    break
        return ends

    def _ask(
        self, *questions: tuple[dict[KafkaPartition, OffsetSpec], IsolationLevel]
    ) -> list[_Listed]:
        def ask(time_s: float) -> list[_Listed]:
            self._check_refused()
            client = self._lasting.knowing_leaders()
            list_offsets = partial(client.list_offsets, request_timeout=time_s)
            return [list_offsets(wanted, isolation_level=level) for wanted, level in questions]

        return self._questions.answers(ask)

    def _offset(self, answer: Future[ListOffsetsResultInfo], partition: TopicPartition) -> int:
        doing = f"offsets of {partition}"
        try:
            offset = int(self._patience.result(answer, doing).offset)
        except KafkaException as raised:
            error = error_of(raised)
            self._leaders_are_old |= error.code() in OLD_LEADER
            raise translate(error, doing) from raised
        if offset == OFFSET_INVALID:  # So librdkafka gives an answer that it did not get.
            self._leaders_are_old = True
            raise RetriableClientError(f"{doing}: the broker did not answer for it")
        return offset

    @contextlib.contextmanager
    def _leaders_learned(self) -> Iterator[None]:
        """Ask once who leads after answers that an old leader spoilt, unless there is a stop."""
        try:
            yield
        finally:
            if self._leaders_are_old and not self._patience.ends:
                self._learn_leaders()

    def _learn_leaders(self) -> None:
        """Ask who leads all partitions now.

        librdkafka does not ask again by itself: it would be refused for ever, or, where a partition
        was without a leader when it asked, answer so itself for ever.
        """
        with contextlib.suppress(KafkaException):
            self._lasting.list_topics(_TOLD_AFTER_S)
            self._leaders_are_old = False

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset of the first stable record at or after a time (ms), a partition."""
        if not times_ms:
            return {}
        wanted: dict[KafkaPartition, OffsetSpec] = {
            theirs(partition): OffsetSpec.for_timestamp(time_ms)
            for partition, time_ms in times_ms.items()
        }
        (listed,) = self._ask((wanted, IsolationLevel.READ_COMMITTED))
        with self._leaders_learned():
            found = {at: self._offset(listed[theirs(at)], at) for at in times_ms}
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def describe_group(self, group: str) -> Future[GroupDescription]:
        """Ask who is in a group, without waiting; a group that never was has no members."""
        return consumer_groups.described(self._coordinators, group, self._timeouts.look_s)

    def group_members(self, group: str) -> list[str]:
        """Return the client ids of a group's members, sorted."""
        group_offsets.await_coordinator(group, self._config, self._outage, self._answer_s)
        look_s = self._timeouts.look_s
        return consumer_groups.members(self._coordinators, group, look_s, self._answer_s)

    def committed_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Return what a group has committed; offsets pending in a transaction do not count."""
        counts = self.partition_counts()
        return group_offsets.committed(group, counts, self._config, self._outage, self._answer_s)

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets for a group that nobody is in."""
        consumer_groups.alter_offsets(self._make_client, group, offsets, self._answer_s)

    def delete_group(self, group: str) -> None:
        """Delete a group that nobody is in, with all its offsets."""
        consumer_groups.delete_group(self._make_client, group, self._answer_s)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete the records below these offsets, without waiting; failures are logged."""
        wanted = [theirs(partition, offset) for partition, offset in before.items()]
        if not wanted:
            return
        if self._leaders_are_old:
            self._learn_leaders()
        for partition, answer in self._client.delete_records(wanted).items():
            answer.add_done_callback(partial(self._report_deletion, ours(partition)))

    def _report_deletion(self, partition: TopicPartition, answer: Future[Any]) -> None:
        """Log a failure; who leads is asked by the next purge, which may wait for an answer."""
        raised = answer.exception()
        if raised is None:
            return
        error = error_of(raised)
        self._leaders_are_old |= error.code() in OLD_LEADER
        why = str(translate(error, f"purging {partition}"))
        _log.warning("records were not purged", partition=str(partition), why=why)
