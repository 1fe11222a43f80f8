"""A publisher that was fenced ends, unless the broker did so by a time limit; simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pystreams.backfill import Published
from pystreams.backfill.plan.rows import Result
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.publishing.publication import PublishedRecords
from pystreams.backfill.publishing.publisher import FencedPublisherError, Publisher
from pystreams.runtime.ports import ProducerPort
from pystreams.testing.simulation import NO_FAULTS, SimulatedCrash
from tests.backfill.in_process import run
from tests.backfill.publishing.test_publishing import (
    CONFIG,
    COUNTS,
    Arena,
    arena_of,
    counting,
    history,
)

AFTER_THE_LIMIT_MS = 11_000
"""The simulated broker ends a transaction after ten seconds."""


@pytest.fixture(scope="module")
def backfilled(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    directory: Path = tmp_path_factory.mktemp("backfill")
    return run(counting(), CONFIG, history(), COUNTS, directory)


@pytest.fixture
def arena(backfilled: list[Result]) -> Arena:
    return arena_of(backfilled)


def after_flushes(publisher: Publisher, happens: Callable[[int], None]) -> None:
    """Let something happen after each flush of a publisher, that is, right before its commit."""
    make = publisher._clients.producer
    flushes = 0

    def producer(*arguments: Any) -> ProducerPort:
        made = make(*arguments)
        flush = made.flush

        def flush_and_more() -> None:
            nonlocal flushes
            flush()
            flushes += 1
            happens(flushes)

        made.flush = flush_and_more  # type: ignore[method-assign]
        return made

    publisher._clients.producer = producer  # type: ignore[method-assign, assignment]


def test_any_transaction_that_the_broker_ended_by_its_time_limit_is_sent_again(
    backfilled: list[Result],
) -> None:
    """The claim, one of rows, the hand-over: which one it is differs in nothing."""
    ended = 0
    is_over = False
    while not is_over:
        arena = arena_of(backfilled)
        publisher, _ = arena.publisher(with_outputs=True)
        ended += 1
        is_over = True

        def outage(flushes: int, arena: Arena = arena, wanted: int = ended) -> None:
            nonlocal is_over
            if flushes == wanted:
                is_over = False
                arena.broker.clock.advance_ms(AFTER_THE_LIMIT_MS)
                arena.broker.tick()

        after_flushes(publisher, outage)
        publisher.run()
        arena.check(with_outputs=True)

    assert ended > 10, "transactions, and one more that there was not"


def test_who_was_fenced_by_another_publisher_ends_and_does_not_fence_back(arena: Arena) -> None:
    """Also if the other one comes to nothing: it may as well be reading a task's rows for long."""
    first, _ = arena.publisher(transaction_records=1)
    second, lifeline = arena.publisher(transaction_records=1)

    def fence_and_die(task: PublishedRecords) -> None:
        if not task.by_earlier_run and lifeline.alive:
            after_flushes(second, lambda _: lifeline.crash_in(0))
            with pytest.raises(SimulatedCrash):
                second.run()

    first._progress = fence_and_die
    with pytest.raises(FencedPublisherError, match="another publisher of this backfill"):
        first.run()

    assert not lifeline.alive
    arena.publish()
    arena.check(with_outputs=False)


def test_of_two_that_live_and_fence_each_other_one_goes_on(arena: Arena) -> None:
    """However they take turns: each lets the other begin anew before each of its commits."""
    first, _ = arena.publisher(transaction_records=1)
    second, _ = arena.publisher(transaction_records=1)
    done: list[Published] = []

    def let_second_publish(flushes: int) -> None:
        if flushes == 3:
            done.append(second.run())

    after_flushes(first, let_second_publish)
    with pytest.raises(FencedPublisherError, match="has taken over"):
        first.run()

    assert [published.resumed for published in done] == [True]
    arena.check(with_outputs=False)


def test_who_was_fenced_late_in_an_outage_ends_if_another_has_published_since(
    arena: Arena,
) -> None:
    """As a machine that was asleep: its transaction is too old, and a successor is at work."""
    first, _ = arena.publisher(transaction_records=1)
    second, lifeline = arena.publisher(transaction_records=1)

    def sleep(flushes: int) -> None:
        if flushes == 3:
            arena.broker.clock.advance_ms(AFTER_THE_LIMIT_MS)
            after_flushes(second, lambda flushes: lifeline.crash_in(0) if flushes == 2 else None)
            with pytest.raises(SimulatedCrash):
                second.run()

    after_flushes(first, sleep)
    with pytest.raises(FencedPublisherError, match="has taken over"):
        first.run()

    arena.publish()
    arena.check(with_outputs=False)


def test_who_was_fenced_by_a_publisher_that_has_published_ends(arena: Arena) -> None:
    first, _ = arena.publisher(transaction_records=1)
    second, lifeline = arena.publisher(transaction_records=1)

    def publish_one_and_die(_: PublishedRecords) -> None:
        after_flushes(second, lambda flushes: lifeline.crash_in(0) if flushes == 2 else None)
        with pytest.raises(SimulatedCrash):
            second.run()

    first._progress = publish_one_and_die
    with pytest.raises(FencedPublisherError, match="another publisher of this backfill"):
        first.run()

    arena.publish()
    arena.check(with_outputs=False)


def test_of_two_that_fence_each_other_the_first_to_commit_goes_on(arena: Arena) -> None:
    """The second one finds that it was fenced while it has not committed anything yet."""
    first, _ = arena.publisher()
    second, _ = arena.publisher()

    def let_first_publish(flushes: int) -> None:
        if flushes == 1:
            first.run()

    after_flushes(second, let_first_publish)
    assert not arena.publish_until_crash(40)
    with pytest.raises(FencedPublisherError, match="nothing is repeated or lost"):
        second.run()

    arena.check(with_outputs=False)


def test_whose_transactions_run_into_the_limit_again_and_again_gives_up(arena: Arena) -> None:
    publisher, _ = arena.publisher()
    ended = 0

    def outage(flushes: int) -> None:
        nonlocal ended
        if flushes > 3:
            ended += 1
            arena.broker.clock.advance_ms(AFTER_THE_LIMIT_MS)
            arena.broker.tick()

    after_flushes(publisher, outage)
    with pytest.raises(FencedPublisherError, match="Let one of them run alone"):
        publisher.run()

    assert ended > 10
    arena.publish()
    arena.check(with_outputs=False)


def test_who_was_fenced_by_a_running_application_is_refused(arena: Arena) -> None:
    publisher, _ = arena.publisher()

    def start(flushes: int) -> None:
        if flushes == 3:
            arena.broker.group.join("shop-1", ["in"])
            arena.broker.transactions.init("app-0_0")

    after_flushes(publisher, start)
    with pytest.raises(PublishingRefusedError, match=r"has members \(shop-1-1\)"):
        publisher.run()


def test_a_request_that_reaches_the_broker_once_more_ends_no_later_transaction(
    backfilled: list[Result],
) -> None:
    """Whenever the publisher dies, what it had begun to send is not there."""
    calls = 0
    is_over = False
    while not is_over:
        arena = arena_of(backfilled)
        arena.broker.faults.rates = replace(NO_FAULTS, repeated=0.5, background=1)
        calls += 3
        is_over = arena.publish_until_crash(calls, with_outputs=True)
        arena.publish(with_outputs=True)
        arena.check(with_outputs=True)

    assert calls > 100
