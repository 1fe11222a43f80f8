"""What the client's errors become, and what is said about an outage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import structlog
from confluent_kafka import KafkaError, KafkaException

from pystreams import ConfigError, FatalStreamsError, MissingSourceTopicError, StreamsError
from pystreams.errors import (
    IdentityTakenError,
    RetriableClientError,
    TaskMigratedError,
    TransactionAbortableError,
)
from pystreams.runtime.adapters.connection.confluent_errors import error_of, translate
from pystreams.runtime.adapters.connection.connections import BrokerOutage, LibrdkafkaLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runtime.adapters.application import Application


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KafkaError(KafkaError._TIMED_OUT), RetriableClientError),
        (KafkaError(KafkaError.REBALANCE_IN_PROGRESS), RetriableClientError),
        (KafkaError(KafkaError.FENCED_LEADER_EPOCH), RetriableClientError),
        (KafkaError(KafkaError.OFFSET_NOT_AVAILABLE), RetriableClientError),
        (KafkaError(KafkaError._DESTROY_BROKER), RetriableClientError),
        (KafkaError(KafkaError.THROTTLING_QUOTA_EXCEEDED), RetriableClientError),
        (KafkaError(KafkaError._FAIL, retriable=True), RetriableClientError),
        (KafkaError(KafkaError._FAIL, txn_requires_abort=True), TransactionAbortableError),
        (KafkaError(KafkaError._TIMED_OUT, txn_requires_abort=True), TransactionAbortableError),
        (KafkaError(KafkaError.UNKNOWN_MEMBER_ID, txn_requires_abort=True), TaskMigratedError),
        (KafkaError(KafkaError._FENCED, fatal=True), TaskMigratedError),
        (KafkaError(KafkaError.INVALID_TXN_STATE, fatal=True), TaskMigratedError),
        (KafkaError(KafkaError.ILLEGAL_GENERATION), TaskMigratedError),
        (KafkaError(KafkaError._FAIL, fatal=True), FatalStreamsError),
        (KafkaError(KafkaError._FATAL, "Fatal error: ... consumer fenced by"), TaskMigratedError),
        (
            KafkaError(KafkaError._FATAL, "... fenced by ... with same group.instance.id"),
            IdentityTakenError,
        ),
        (KafkaError(KafkaError.FENCED_INSTANCE_ID, txn_requires_abort=True), IdentityTakenError),
        (KafkaError(KafkaError.INVALID_CONFIG), FatalStreamsError),
    ],
    ids=str,
)
def test_errors_become_what_the_runtime_does_next(
    error: KafkaError, expected: type[StreamsError]
) -> None:
    translated = translate(error, "task 0_1: committing")
    assert type(translated) is expected
    assert str(translated).startswith("task 0_1: committing: ")
    assert error.name() in str(translated)


def test_missing_rights_name_the_cure() -> None:
    error = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert "grant READ on the group" in str(translate(error, "polling"))


def test_an_error_that_another_callback_stumbled_over_is_found() -> None:
    original = KafkaException(KafkaError(KafkaError._FENCED, fatal=True))
    stumbled = SystemError("returned a result with an exception set")
    stumbled.__cause__ = original
    assert error_of(stumbled).code() == KafkaError._FENCED
    with pytest.raises(SystemError, match="our bug"):
        error_of(SystemError("our bug"))


def test_an_outage_is_told_once_and_its_end_too() -> None:
    with structlog.testing.capture_logs() as lines:
        outage = BrokerOutage("one:9092,two:9092")
        outage.ends()
        for _ in range(3):
            outage.on_error(KafkaError(KafkaError._TRANSPORT, "connection refused"))
            outage.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "2/2 brokers are down"))
        assert outage.lasting
        outage.ends()
        outage.ends()
    told = [line for line in lines if line["log_level"] != "debug"]
    assert [(line["log_level"], line["bootstrap_servers"]) for line in told] == [
        ("warning", "one:9092,two:9092"),
        ("info", "one:9092,two:9092"),
    ]


def test_lines_of_the_client_become_events() -> None:
    outage = BrokerOutage("one:9092")
    log = LibrdkafkaLog(outage, outage.refused({}))
    with structlog.testing.capture_logs() as lines:
        log.log(40, "%s [%s] %s", "FAIL", "client-1", "connect failed")
        outage.lasting = True
        log.log(40, "%s [%s] %s", "FAIL", "client-1", "connect failed again")
        log.log(30, "%s [%s] %s", "CONFWARN", "client-1", "no such setting")
        for offset in (1, 2):
            reset = f"in [0]: offset reset (at offset {offset} (leader epoch -1), broker 1) to ..."
            log.log(30, "%s [%s] %s", "OFFSET", "client-1", reset)
    assert [(line["log_level"], line["event"][:30]) for line in lines] == [
        ("debug", "connect failed"),
        ("warning", "no such setting"),
        ("debug", "in [0]: offset reset (at offse"),
        ("warning", "in [0]: offset reset (at offse"),
    ]


def test_a_setting_that_the_client_refuses_is_a_configuration_error(
    make_application: Callable[[dict[str, Any]], Application],
) -> None:
    application = make_application({"producer.compression.codec": "nonsense"})
    with pytest.raises(ConfigError, match=r"compression\.codec"):
        application.producer()


@pytest.mark.parametrize(
    ("about", "cure"),
    [
        ("offsets of app-counts-changelog-0", "a changelog was deleted: start again"),
        ("offsets of app-by-key-repartition-11", "a repartition topic was deleted: start again"),
        ("offsets of orders-0", "create the topic"),
        ("offsets of my-changelog-of-orders-0", "create the topic"),
    ],
)
@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_a_topic_of_ours_that_was_deleted_is_not_to_be_created_by_hand(
    about: str, cure: str, code: int
) -> None:
    assert f": {cure}" in str(translate(KafkaError(code), about))


def test_a_deleted_repartition_topic_is_no_source_topic_to_create() -> None:
    told = str(MissingSourceTopicError(["app-by-key-repartition"]))
    assert "a repartition topic was deleted: start again" in told
    assert "correct its name" not in told
