"""The counting application of the exactly-once tests, to be backfilled."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.exactly_once.arena import Arena


@pytest.fixture
def arena(
    broker: DevelopmentBroker,
    admin: AdminClient,
    unique_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Arena:
    """Its topics, and a directory; its topology is that of this process, too."""
    monkeypatch.setenv("COUNTING_NAME", unique_name)
    return Arena.make(broker, admin, unique_name, tmp_path)
