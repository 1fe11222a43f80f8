"""What tests against a real broker share: topics of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests import names
from tests.broker.reading import create_topics, delete_named, topics_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pystreams.broker import DevelopmentBroker


class CreateTopic(Protocol):
    """Creates a topic and returns its name."""

    def __call__(
        self, stem: str = "topic", *, partitions: int = 1, config: dict[str, str] | None = None
    ) -> str: ...


@pytest.fixture(scope="module")
def admin(broker: DevelopmentBroker) -> AdminClient:
    """An admin client of the shared broker."""
    # One that asks while the controller has put the broker out, on a machine that stood still, has
    # nobody to ask for as long as this.
    refresh = {"topic.metadata.refresh.interval.ms": 5_000}
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, **refresh})


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A name that no other test has: for an application id, a group or a topic.

    Topics whose names begin with it are deleted after the test: each start of an application reads
    what all topics are.
    """
    name, on_broker = names.unique_name("test"), "broker" in request.fixturenames
    admin: AdminClient | None = request.getfixturevalue("admin") if on_broker else None
    yield name
    if admin is not None:
        own = [topic for topic in topics_of(admin) if topic == name or topic.startswith(f"{name}-")]
        delete_named(admin, *own)


@pytest.fixture
def create_topic(admin: AdminClient) -> Iterator[CreateTopic]:
    """Create topics whose names no other test has; they are deleted after the test."""
    created = []

    def create(
        stem: str = "topic", *, partitions: int = 1, config: dict[str, str] | None = None
    ) -> str:
        name = names.unique_name(stem)
        new_topic = NewTopic(name, num_partitions=partitions, config=config or {})
        create_topics(admin, [new_topic])
        created.append(name)
        return name

    yield create
    delete_named(admin, *created)
