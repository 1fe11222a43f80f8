"""The counting application of the exactly-once tests, to be backfilled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.exactly_once.arena import Arena
from tests.broker.reading import delete_topics


@pytest.fixture
def arena(
    broker: DevelopmentBroker,
    admin: AdminClient,
    unique_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Arena]:
    """Its topics, and a directory; its topology is that of this process, too."""
    monkeypatch.setenv("COUNTING_NAME", unique_name)
    yield Arena.make(broker, admin, unique_name, tmp_path)
    delete_topics(admin, f"{unique_name}-")
