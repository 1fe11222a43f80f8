"""A batch that was refused before a later one was taken, which librdkafka reports as written."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from pystreams.errors import TransactionAbortableError
from pystreams.record import OutputBuffer
from pystreams.runtime.adapters.producing.implicit_acknowledgements import ImplicitAcknowledgements
from pystreams.runtime.tasks.producers import StreamsProducer
from tests.broker.flushing import flush
from tests.broker.reading import read_all
from tests.broker.troubles.request_proxy import PRODUCE, RequestProxy, not_leader
from tests.broker.writing import Writer
from tests.runtime.adapters.application import Application, answer_of, never_stopped, stable
from tests.runtime.adapters.lines import Lines

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker
    from pystreams.runtime.adapters.producing.confluent_producer import ConfluentProducer

LARGE_BYTES = 700_000
"""Two records of it are no batch."""
NUMBERS = [1000, 2000, 3000]


def large(number: int) -> bytes:
    return str(number).encode().ljust(LARGE_BYTES)


def numbers_in(topic: str, partition: int | None) -> OutputBuffer:
    """Return a buffer of large records: with a partition, a changelog's."""
    output = OutputBuffer(topic, partition, is_changelog=partition is not None)
    output.records.extend((b"key", large(number), number, ()) for number in NUMBERS)
    return output


@pytest.fixture(params=[None, 0], ids=["sink", "changelog"])
def partition(request: pytest.FixtureRequest) -> int | None:
    found: int | None = request.param
    return found


def sent_for_nothing(port: ConfluentProducer, topic: str, partition: int | None) -> OutputBuffer:
    """Send records whose first batch is lost, and see the flush refused."""
    output = numbers_in(topic, partition)
    port.send(output)
    with pytest.raises(TransactionAbortableError, match=f"1 records for {topic}-0 may be lost"):
        flush(port)
    assert output.last_offset is None
    return output


def test_without_a_transaction_what_may_be_lost_is_not_committed_but_sent_again(
    proxy: RequestProxy, partition: int | None
) -> None:
    application = Application(proxy.bootstrap_servers, {})
    topic, port = application.topic(), application.producer()
    producer = StreamsProducer(port, None, never_stopped())
    proxy.answer_next(PRODUCE, not_leader(topic), late=True)

    output = sent_for_nothing(port, topic, partition)
    answer_of(producer.abort)
    assert stable(application, topic) == NUMBERS[1:]
    output.records.extend(numbers_in(topic, partition).records)
    producer.send([output])
    flush(port)

    assert stable(application, topic) == NUMBERS[1:] + NUMBERS
    assert output.last_offset == (None if partition is None else 4)
    application.close()


def test_a_transaction_that_may_have_lost_records_is_aborted_and_the_next_one_has_them_all(
    proxy: RequestProxy, partition: int | None
) -> None:
    application = Application(proxy.bootstrap_servers, {"processing.guarantee": "exactly_once"})
    topic, port = application.topic(), application.transactional()
    producer = StreamsProducer(port, "task", never_stopped())
    answer_of(producer.begin)
    proxy.answer_next(PRODUCE, not_leader(topic), late=True)

    sent_for_nothing(port, topic, partition)
    answer_of(producer.abort)
    answer_of(producer.begin)
    producer.send([numbers_in(topic, partition)])
    flush(port)
    port.commit_transaction({}, None)

    assert stable(application, topic) == NUMBERS
    application.close()


def test_what_writes_the_input_of_tests_loses_nothing_so(
    broker: DevelopmentBroker, application: Application
) -> None:
    proxy, topic = RequestProxy(broker.bootstrap_servers), application.topic()
    proxy.answer_next(PRODUCE, not_leader(topic))
    writer = Writer(proxy.bootstrap_servers)
    for number in NUMBERS:
        writer.write(topic, large(number))
    writer.flush()
    proxy.close()

    assert proxy.own_answers == 1
    found = [int(message.value() or b"") for message in read_all(broker.bootstrap_servers, topic)]
    assert found == NUMBERS


def test_all_lines_are_passed_on_and_an_unknown_form_is_told_as_it_is() -> None:
    lines = Lines()
    implicit = ImplicitAcknowledgements(lines)
    implicit.log(logging.DEBUG, "", "TXNSTATE", "client", "other")
    implicit.refuse("producer")
    implicit.log(logging.DEBUG, "", "IMPLICITACK", "client", "some were acked")

    assert lines.shown == ["other", "some were acked"]
    with pytest.raises(TransactionAbortableError, match="producer: some were acked may be lost"):
        implicit.refuse("producer")
    implicit.refuse("producer")
