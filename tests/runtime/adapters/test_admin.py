"""Topics and their offsets."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from structlog.testing import capture_logs

from pystreams import BrokerNotAvailableError, FatalStreamsError, TopicPartition
from pystreams.errors import RetriableClientError
from pystreams.runtime.adapters.administering.confluent_admin import ConfluentAdmin
from pystreams.runtime.adapters.connection.connections import BrokerOutage
from pystreams.runtime.adapters.connection.timeouts import Timeouts
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.cluster.new_topic import NewTopic
from tests.broker import reading
from tests.broker.flushing import flush
from tests.broker.waiting import DEADLINE_S
from tests.runtime.adapters.application import (
    Application,
    answer_of,
    delete_before,
    numbered,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pystreams.broker import DevelopmentBroker


def test_created_topics_have_their_partitions_and_settings(
    application: Application, broker: DevelopmentBroker
) -> None:
    name = f"{application.name}-created"
    topic = NewTopic(name, 3, {"cleanup.policy": "compact", "retention.ms": "-1"})
    answer_of(lambda: application.admin.create_topics([topic]))
    assert answer_of(application.admin.partition_counts)[name] == 3

    answer_of(lambda: application.admin.create_topics([NewTopic(name, 5, {})]))
    counts = answer_of(application.admin.partition_counts)
    assert counts[name] == 3, "what exists is left as it is"
    resource = ConfigResource(ResourceType.TOPIC, name)
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    settings = reading.answer_of(
        lambda: client.describe_configs([resource])[resource].result(DEADLINE_S)
    )
    assert settings["cleanup.policy"].value == "compact"
    assert settings["retention.ms"].value == "-1"


def admin_on(
    client: Any, stopping: Callable[[], bool] = lambda: False, **timeouts: float
) -> ConfluentAdmin:
    """Return an admin with a client of ours."""
    return ConfluentAdmin(
        {"bootstrap.servers": "one:9092"},
        BrokerOutage("one:9092"),
        make=lambda _: client,
        timeouts=Timeouts(**timeouts),
        stopping=stopping,
    )


class LateBroker:
    """Stands in for the client: it shows topic "new" from the fifth time, and 2 partitions."""

    def __init__(self) -> None:
        self.asked = 0

    def list_topics(self, timeout: float) -> Any:
        self.asked += 1
        shown = ["old", "new"] if self.asked >= 5 else ["old"]
        topic = SimpleNamespace(partitions=[0, 1], error=None)
        return SimpleNamespace(topics=dict.fromkeys(shown, topic))

    def describe_topics(self, _topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        """Nothing is hidden from the client."""
        return {}


def test_a_topic_that_a_broker_shows_late_is_waited_for() -> None:
    late_broker = LateBroker()
    admin = admin_on(late_broker, shown_s=60)
    assert admin.partition_counts() == {"old": 2}
    assert admin.partition_counts(awaited=[TopicPartition("old", 1)]) == {"old": 2}
    assert late_broker.asked == 2

    counts = admin.partition_counts(awaited=[TopicPartition("new", 0), TopicPartition("old", 0)])
    assert counts == {"old": 2, "new": 2}
    assert late_broker.asked == 5


@pytest.mark.parametrize("awaited", [TopicPartition("missing", 0), TopicPartition("old", 2)])
def test_what_a_broker_does_not_show_in_time_is_left_out(awaited: TopicPartition) -> None:
    late_broker = LateBroker()
    assert admin_on(late_broker, shown_s=2).partition_counts(awaited=[awaited])["old"] == 2
    assert late_broker.asked > 1


def test_a_replication_factor_that_can_not_be_had_names_the_cure(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    application = make_application({"replication.factor": 3})
    with pytest.raises(FatalStreamsError, match=r"replication\.factor \(now 3\)"):
        application.topic()


def test_a_setting_of_brokers_is_what_each_of_them_tells_and_none_where_it_does_not(
    application: Application,
) -> None:
    told = answer_of(lambda: application.admin.broker_setting("offset.metadata.max.bytes"))

    assert told == ["4096"]
    assert application.admin.broker_setting("no.setting.at.all") == [None]
    assert admin_on(ThreeBrokers(None)).broker_setting("x") == ["1", "2", "3"]
    assert admin_on(ThreeBrokers(2)).broker_setting("x") == ["1", None, "3"]


class ThreeBrokers:
    """Stands in for the client: each broker tells its own number, but for one that refuses."""

    def __init__(self, refusing: int | None) -> None:
        self._refusing = refusing

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(brokers={1: "one", 2: "two", 3: "three"})

    def describe_configs(
        self, resources: list[ConfigResource], request_timeout: float
    ) -> dict[ConfigResource, Future[Any]]:
        (resource,) = resources  # The client takes one broker at a time.
        answer: Future[Any] = Future()
        if resource.name == str(self._refusing):
            answer.set_exception(
                KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
            )
        else:
            answer.set_result({"x": SimpleNamespace(value=resource.name)})
        return {resource: answer}


def test_topic_that_is_created_again_has_another_id(
    application: Application, broker: DevelopmentBroker
) -> None:
    admin, kept, other = application.admin, application.topic(), application.topic()
    before = answer_of(lambda: admin.topic_ids([kept, other, "nowhere"]))
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    reading.delete_named(client, other)
    until(lambda: not admin.topic_ids([other]), "the deletion")
    answer_of(lambda: admin.create_topics([NewTopic(other, 1, {})]))
    until(lambda: admin.topic_ids([other]), "the creation")

    again = answer_of(lambda: admin.topic_ids([kept, other]))
    assert before.keys() == again.keys() == {kept, other}
    assert again[kept] == before[kept] != before[other] != again[other]
    assert admin.topic_ids([]) == {}


def test_offset_ranges_tell_what_is_stable(exactly_once: Application) -> None:
    topic = exactly_once.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    exactly_once.fill(topic, 7)
    producer = exactly_once.transactional()
    producer.begin_transaction()
    producer.send(numbered(topic, 3))
    flush(producer)
    assert answer_of(lambda: exactly_once.admin.offset_ranges([first, second])) == {
        first: OffsetRange(0, 7, 10),
        second: OffsetRange(0, 0, 0),
    }
    assert exactly_once.admin.offset_ranges([]) == {}


def test_record_at_a_time_is_looked_for_among_what_is_stable(exactly_once: Application) -> None:
    """Its numbers are the seconds behind 1000 at which records are."""
    partition = TopicPartition(exactly_once.topic(), 0)
    exactly_once.fill(partition.topic, 7)
    producer = exactly_once.transactional()
    producer.begin_transaction()
    producer.send(numbered(partition.topic, 3, start=7))
    flush(producer)
    exactly_once.fill(partition.topic, 5, start=10)
    admin = exactly_once.admin

    def offset_at(second: int) -> int | None:
        return answer_of(lambda: admin.offsets_at({partition: second})).get(partition)

    assert offset_at(1004) == 4
    assert offset_at(1008) is None, "in the open transaction"
    assert offset_at(1012) is None, "behind it"
    assert offset_at(5000) is None
    assert admin.offsets_at({}) == {}

    producer.commit_transaction({}, None)
    until(lambda: offset_at(1008) == 8)


def test_deleted_records_are_gone(application: Application) -> None:
    partition = TopicPartition(application.topic(), 0)
    application.fill(partition.topic, 10)
    application.admin.delete_records({})
    delete_before(application, partition, 4)


class OldLeaders:
    """Stands in for the client: requests are refused until it has asked who leads."""

    def __init__(self, code: int = KafkaError.NOT_LEADER_FOR_PARTITION) -> None:
        self.calls: list[str] = []
        self._refusal = KafkaException(KafkaError(code))

    def list_topics(self, timeout: float) -> None:
        self.calls.append("leaders")

    def poll(self, timeout: float) -> None:
        """Nothing is refused to the client."""

    def delete_records(self, wanted: list[KafkaPartition]) -> dict[KafkaPartition, Future[None]]:
        answer: Future[None] = Future()
        if "leaders" in self.calls:
            answer.set_result(None)
        else:
            answer.set_exception(self._refusal)
        self.calls.append("purge")
        return dict.fromkeys(wanted, answer)

    def list_offsets(self, wanted: dict[KafkaPartition, Any], **_: Any) -> dict[Any, Future[Any]]:
        answer: Future[Any] = Future()
        if "leaders" in self.calls:
            answer.set_result(SimpleNamespace(offset=7))
        else:
            answer.set_exception(self._refusal)
        return dict.fromkeys(wanted, answer)


def admin_that_has_heard(
    client: OldLeaders, stopping: Callable[[], bool] = lambda: False, **timeouts: float
) -> ConfluentAdmin:
    """Return an admin whose client has asked once before who leads."""
    admin = admin_on(client, stopping, **timeouts)
    admin._lasting.list_topics(1.0)
    client.calls.clear()
    return admin


def test_the_purge_after_one_that_asked_an_old_leader_asks_who_leads() -> None:
    """The client does not do so by itself: nothing would be purged until the next restart."""
    client = OldLeaders()
    admin = admin_on(client)
    partition = TopicPartition("app-repartition", 0)

    with capture_logs() as lines:
        for offset in range(1, 4):
            admin.delete_records({partition: offset})

    assert client.calls == ["purge", "leaders", "purge", "purge"]
    (line,) = lines
    assert (line["event"], line["partition"]) == ("records were not purged", "app-repartition-0")


@pytest.mark.parametrize(
    "code", [KafkaError._NOENT, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.FENCED_LEADER_EPOCH]
)
def test_offsets_of_a_leader_that_is_not_known_are_asked_for_again_of_the_new_one(
    code: int,
) -> None:
    """A client that met partitions without a leader takes that for an answer, for ever."""
    admin, partition = admin_that_has_heard(OldLeaders(code)), TopicPartition("app-changelog", 0)

    with pytest.raises(RetriableClientError, match="offsets of app-changelog-0"):
        admin.offset_ranges([partition])
    assert admin.offset_ranges([partition]) == {partition: OffsetRange(7, 7, 7)}


class Unanswered(OldLeaders):
    """Stands in for the client, which has no error of a broker that died, and no offset either."""

    def list_offsets(self, wanted: dict[KafkaPartition, Any], **_: Any) -> dict[Any, Future[Any]]:
        answer: Future[Any] = Future()
        offset = 7 if "leaders" in self.calls else OFFSET_INVALID
        answer.set_result(SimpleNamespace(offset=offset))
        return dict.fromkeys(wanted, answer)


def test_an_offset_that_was_not_answered_is_asked_for_again_and_is_no_end() -> None:
    """Taken for the end of a changelog it says that the topic was made anew."""
    admin, partition = admin_that_has_heard(Unanswered()), TopicPartition("app-changelog", 0)

    with pytest.raises(RetriableClientError, match="offsets of app-changelog-0"):
        admin.offset_ranges([partition])
    assert admin.offset_ranges([partition]) == {partition: OffsetRange(7, 7, 7)}


class HalfAnswered(OldLeaders):
    """Stands in for the client, which has no answer of the broker that leads one partition."""

    def list_offsets(self, wanted: dict[KafkaPartition, Any], **_: Any) -> dict[Any, Future[Any]]:
        answers: dict[Any, Future[Any]] = {partition: Future() for partition in wanted}
        for partition, answer in answers.items():
            answer.set_result(SimpleNamespace(offset=OFFSET_INVALID if partition.partition else 7))
        return answers


def test_ends_are_told_of_the_partitions_whose_broker_answers() -> None:
    partitions = [TopicPartition("in", number) for number in range(2)]

    assert admin_on(HalfAnswered()).told_ends(partitions) == {partitions[0]: 7}


def test_who_leads_is_asked_once_a_question_however_many_partitions_had_no_answer() -> None:
    """Each time takes seconds while a broker hangs: 500 times were minutes."""
    client = HalfAnswered()
    admin = admin_that_has_heard(client)

    admin.told_ends([TopicPartition("in", number) for number in range(20)])
    assert client.calls == ["leaders"]


def test_after_a_stop_nobody_is_asked_who_leads() -> None:
    """The process would end that much later: it waits for the thread that asks."""
    client = HalfAnswered()

    admin_that_has_heard(client, stopping=lambda: True).told_ends([TopicPartition("in", 1)])
    assert client.calls == []


class Silent(OldLeaders):
    """Stands in for the client of a broker that takes every question and answers none."""

    def __init__(self, asked: Callable[[], object]) -> None:
        super().__init__(KafkaError._NOENT)
        self._asked = asked

    def list_offsets(self, wanted: dict[KafkaPartition, Any], **_: Any) -> dict[Any, Future[Any]]:
        self._asked()
        return {partition: Future() for partition in wanted}


class DeadLeader(OldLeaders):
    """Stands in for the client: until it has asked who leads, its requests wait for a dead broker.

    Their time passes first.
    """

    def __init__(self) -> None:
        super().__init__(KafkaError._TIMED_OUT)
        self.open = 0

    def _answer(self, request_timeout: float, found: SimpleNamespace) -> Future[Any]:
        answer: Future[Any] = Future()
        if "leaders" in self.calls:
            answer.set_result(found)
        else:
            self.open += 1
            expiry = threading.Timer(request_timeout, answer.set_exception, [self._refusal])
            expiry.daemon = True
            expiry.start()
        return answer

    def list_offsets(
        self, wanted: dict[KafkaPartition, Any], **settings: Any
    ) -> dict[Any, Future[Any]]:
        time_s = settings["request_timeout"]
        return dict.fromkeys(wanted, self._answer(time_s, SimpleNamespace(offset=7)))

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        answer = self._answer(request_timeout, SimpleNamespace(topic_id="id"))
        return dict.fromkeys(["app-changelog"], answer)


def test_offsets_are_asked_of_the_next_leader_while_the_dead_one_keeps_the_question() -> None:
    """By itself the client would wait for the dead one for half a minute, and then once more."""
    client = DeadLeader()
    admin = admin_that_has_heard(client, answer_s=10, again_s=0.05)
    partition = TopicPartition("in", 0)

    assert admin.offset_ranges([partition]) == {partition: OffsetRange(7, 7, 7)}
    assert client.calls == ["leaders"]
    assert client.open == 3, "one question of each kind is left behind"


def test_offsets_at_times_are_asked_of_the_next_leader_too() -> None:
    admin, partition = admin_on(DeadLeader(), answer_s=10, again_s=0.05), TopicPartition("in", 0)

    assert admin.offsets_at({partition: 1}) == {partition: 7}


def test_topics_are_looked_for_elsewhere_while_a_dead_broker_keeps_the_question() -> None:
    admin = admin_on(DeadLeader(), answer_s=10, again_s=0.05)

    assert admin.topic_ids(["app-changelog"]) == {"app-changelog": "id"}


class SlowLeader(Silent):
    """Stands in for the client of a broker that answers the first question after some others."""

    def __init__(self, others: int) -> None:
        super().__init__(lambda: None)
        self._others = others
        self._asked_of: list[dict[Any, Future[Any]]] = []

    def list_topics(self, timeout: float) -> None:
        super().list_topics(timeout)
        if len(self.calls) == self._others:
            for listed in self._asked_of[:3]:
                for answer in listed.values():
                    answer.set_result(SimpleNamespace(offset=7))

    def list_offsets(self, wanted: dict[KafkaPartition, Any], **_: Any) -> dict[Any, Future[Any]]:
        self._asked_of.append(super().list_offsets(wanted))
        return self._asked_of[-1]


def test_a_slow_broker_has_all_the_time_for_its_answer() -> None:
    admin, partition = admin_on(SlowLeader(3), answer_s=60, again_s=0.05), TopicPartition("in", 0)

    assert admin.offset_ranges([partition]) == {partition: OffsetRange(7, 7, 7)}


def test_questions_without_an_answer_end_in_the_error_of_the_client() -> None:
    class NoLeader(DeadLeader):
        def list_topics(self, timeout: float) -> None:
            """Nobody leads."""

    admin, partition = admin_on(NoLeader(), answer_s=0.3, again_s=0.05), TopicPartition("in", 0)

    with pytest.raises(RetriableClientError, match=r"offsets of in-0.*_TIMED_OUT"):
        admin.offset_ranges([partition])


def test_a_stop_ends_the_wait_for_offsets_that_no_broker_tells() -> None:
    """By itself the client would wait for half a minute, longer than a stop may take."""
    stop = threading.Event()
    admin = admin_on(Silent(stop.set), stop.is_set, last_s=0.1)

    with pytest.raises(RetriableClientError, match="app-changelog-0: no answer before"):
        admin.offset_ranges([TopicPartition("app-changelog", 0)])


def test_a_stop_ends_the_search_for_a_broker() -> None:
    nowhere = "127.0.0.1:1"
    admin = ConfluentAdmin(
        {"bootstrap.servers": nowhere},
        BrokerOutage(nowhere),
        timeouts=Timeouts(metadata_s=3600.0),
        stopping=lambda: True,
    )
    with pytest.raises(BrokerNotAvailableError):
        admin.partition_counts()


def test_without_a_broker_the_error_names_its_address() -> None:
    nowhere = "127.0.0.1:1"
    admin = ConfluentAdmin(
        {"bootstrap.servers": nowhere},
        BrokerOutage(nowhere),
        timeouts=Timeouts(answer_s=1.0, metadata_s=0.5),
    )
    with pytest.raises(BrokerNotAvailableError, match=r"127\.0\.0\.1:1.*bootstrap\.servers"):
        admin.partition_counts()
    with pytest.raises(RetriableClientError):
        admin.offset_ranges([TopicPartition("topic", 0)])
