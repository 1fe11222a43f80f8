"""A request of a transaction that had no answer, and reaches the broker in a later one."""

from __future__ import annotations

import logging
from itertools import count
from typing import TYPE_CHECKING

import pytest

from pystreams.runtime.adapters.producing.lost_requests import LostRequests
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.tasks.producers import StreamsProducer
from tests.broker.flushing import flush
from tests.broker.troubles.request_proxy import END_TXN, TXN_OFFSET_COMMIT, RequestProxy
from tests.broker.waiting import wait_until
from tests.runtime.adapters.application import (
    Application,
    MakeApplication,
    answer_of,
    never_stopped,
    numbered,
    stable,
    until,
)
from tests.runtime.adapters.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pystreams import TopicPartition
    from pystreams.runtime.ports import ConsumerPort

SETTINGS = {"processing.guarantee": "exactly_once", "producer.socket.timeout.ms": 1000}


@pytest.fixture
def application(proxy: RequestProxy) -> Iterator[Application]:
    made = Application(proxy.bootstrap_servers, SETTINGS)
    yield made
    made.close()


class Committing:
    """A producer that commits numbers, and as many offsets of what it has read."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.sink, source = application.topic(), application.topic()
        self.consumer: ConsumerPort
        self.consumer, listener = application.member(source)
        self.source: TopicPartition = listener.assigned[0]
        self.port = application.transactional()
        self.producer = StreamsProducer(self.port, "task", never_stopped())

    def send(self, number: int) -> None:
        answer_of(self.producer.begin)  # In doubt, it asks for an epoch first.
        self.producer.send([numbered(self.sink, 1, start=number)])
        flush(self.port)

    def commit(self, number: int) -> None:
        self.send(number)
        offsets = {self.source: CommittedOffset(number + 1, "")}
        self.port.commit_transaction(offsets, self.consumer.group_metadata())
        self.producer.in_transaction = False

    def until_committed(self, *expected: int) -> None:
        """Wait for these numbers and no others, and for the offset behind the last."""
        until(
            lambda: stable(self.application, self.sink) == list(expected),
            f"{expected} in {self.sink}",
        )
        committed = answer_of(lambda: self.consumer.committed([self.source]))
        assert committed == {self.source: CommittedOffset(expected[-1] + 1, "")}


def noticed(facility: str, line: str) -> bool:
    lost = LostRequests(Lines(), {"transactional.id": "id"})
    lost.log(logging.DEBUG, "", facility, "client", line)
    return lost.noticed


def test_a_connection_that_was_up_may_have_lost_a_request() -> None:
    assert noticed("FAIL", "Disconnected (after 12ms in state UP) (_TRANSPORT)")
    assert noticed("FAIL", "of a form that we do not know")
    assert noticed("REQTMOUT", "Timed out EndTxnRequest in flight")
    assert noticed("RETRY", "Moved 1 retry buffer(s) to output queue")


def test_a_connection_that_never_came_about_has_lost_nothing() -> None:
    assert not noticed("FAIL", "Connect failed: Connection refused (after 0ms in state CONNECT)")
    assert not noticed("WAKEUP", "Wake-up sent to 1 broker thread in state >= UP")


def test_the_lines_that_only_we_asked_for_are_not_shown() -> None:
    config = {"transactional.id": "id"}
    ours, theirs = Lines(), Lines()
    asked = {"debug": "eos", **config}
    for lines, own in ((ours, config), (theirs, asked)):
        LostRequests(lines, own).log(logging.DEBUG, "", "FAIL", "client", "quiet")
        LostRequests(lines, own).log(logging.WARNING, "", "FAIL", "client", "loud")

    assert ours.shown == ["loud"]
    assert theirs.shown == ["quiet", "loud"]
    assert LostRequests.telling(config) == {"debug": "eos,broker"}
    assert LostRequests.telling({"debug": "cgrp"}) == {"debug": "cgrp,eos"}


def test_what_was_answered_leaves_no_doubt(make_application: MakeApplication) -> None:
    # With the time-out of everyday: one of a second is over when a machine stands still.
    committing = Committing(make_application({"processing.guarantee": "exactly_once"}))

    for number in range(5):
        committing.commit(number)
        assert not committing.port.in_doubt

    committing.until_committed(*range(5))


@pytest.mark.parametrize("cuts", [True, False], ids=["connection lost", "time-out"])
@pytest.mark.parametrize("api", [END_TXN, TXN_OFFSET_COMMIT], ids=["end", "offsets"])
def test_a_commit_that_was_repeated_leaves_doubt_until_there_is_a_new_epoch(
    application: Application, proxy: RequestProxy, api: int, cuts: bool
) -> None:
    committing = Committing(application)
    committing.commit(0)
    proxy.keep_next(api, cuts=cuts)

    committing.commit(1)
    assert proxy.kept
    assert committing.port.in_doubt

    numbers = count(2)

    def is_sure() -> bool:
        committing.commit(next(numbers))
        return not committing.port.in_doubt

    # Once, unless the machine stands still for as long as a request may take here.
    wait_until(is_sure, "a commit that was answered")
    committing.until_committed(*range(next(numbers)))


@pytest.mark.parametrize("cuts", [True, False], ids=["connection lost", "time-out"])
def test_a_commit_that_comes_late_does_not_commit_the_next_transaction(
    application: Application, proxy: RequestProxy, cuts: bool
) -> None:
    committing = Committing(application)
    proxy.keep_next(END_TXN, cuts=cuts)
    committing.commit(0)
    committing.send(1)

    proxy.deliver_late()
    answer_of(committing.producer.abort)

    committing.commit(2)
    committing.until_committed(0, 2)


def test_an_abort_that_comes_late_does_not_abort_the_next_transaction(
    application: Application, proxy: RequestProxy
) -> None:
    committing = Committing(application)
    committing.send(0)
    proxy.keep_next(END_TXN)
    answer_of(committing.producer.abort)
    committing.send(1)

    proxy.deliver_late()

    committing.commit(2)
    committing.until_committed(1, 2)
