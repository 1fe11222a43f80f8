"""What tests of the page share: a browser, topics, and an application that is served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.broker.conftest import CreateTopic, admin, create_topic, unique_name
from tests.http.page.chromium import Chromium
from tests.http.page.word_counting import Application, TwoStores

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

__all__ = ["admin", "chromium", "create_topic", "unique_name"]


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Chromium]:
    """A browser of the test's own."""
    with Chromium(tmp_path) as browser:
        yield browser


@pytest.fixture
def application(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> Application:
    topics = create_topic("words", partitions=2), create_topic("counts", partitions=2)
    return Application(broker, unique_name, topics, tmp_path / "state")


@pytest.fixture
def two_stores(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> TwoStores:
    topics = create_topic("words", partitions=2), create_topic("counts", partitions=2)
    return TwoStores(broker, unique_name, topics, tmp_path / "state")
