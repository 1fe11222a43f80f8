"""What tests of the page share: a browser, topics, and an application that is served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.conftest import admin, create_topic, unique_name
from tests.http.page.chromium import Chromium

__all__ = ["admin", "chromium", "create_topic", "unique_name"]


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Chromium]:
    """A browser of the test's own."""
    with Chromium(tmp_path) as browser:
        yield browser
