"""Topics that a pattern matches only when results are to be published: left to the application."""

from __future__ import annotations

import pytest

from pystreams.backfill.broker_waiting import REAL_WAITING
from pystreams.backfill.publishing.broker_checks import PublishingChecks
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.publishing.publication import Publication
from pystreams.testing.simulation import (
    Faults,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)
from tests.backfill.sources.test_kafka_source import LATER, by_pattern

REPARTITION = "app-by-value-repartition"


@pytest.fixture
def broker() -> SimulatedBroker:
    made = SimulatedBroker(ManualClock(), Faults(0))
    made.create_topic("log-a", 2)
    return made


def check(broker: SimulatedBroker) -> None:
    admin = SimulatedClients(broker, Lifeline("publisher", broker.faults)).admin()
    publication = Publication(
        "backfill1", {"log-a": 2, REPARTITION: 2}, [], frozenset(), frozenset()
    )
    PublishingChecks(publication, by_pattern(), admin, REAL_WAITING).check_partition_counts(
        with_outputs=False
    )


def test_topic_that_came_later_keeps_nothing_from_being_published(broker: SimulatedBroker) -> None:
    broker.create_topic(LATER, 2)

    check(broker)

    assert REPARTITION not in broker.partition_counts()


def test_larger_topic_that_came_later_would_give_keys_to_other_tasks_and_is_refused(
    broker: SimulatedBroker,
) -> None:
    broker.create_topic(LATER, 8)

    with pytest.raises(
        PublishingRefusedError,
        match=rf"'{REPARTITION}' would get 8 partitions, and had 2 in the backfill",
    ):
        check(broker)
