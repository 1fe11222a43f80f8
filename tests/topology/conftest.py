"""What tests of the DSL share: a builder, and a driver that runs what it built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pystreams import StreamsBuilder
from pystreams.testing import TopologyTestDriver

Drive = Callable[..., TopologyTestDriver]


@pytest.fixture
def builder() -> StreamsBuilder:
    """A builder without declarations."""
    return StreamsBuilder()


@pytest.fixture
def drive(builder: StreamsBuilder) -> Iterator[Drive]:
    """Builds the topology and runs it; strings by default, closed when the test ends."""
    with ExitStack() as stack:

        def start(**config: Any) -> TopologyTestDriver:
            settings = {"default.key.serde": "string", "default.value.serde": "string"}
            settings.update({key.replace("_", "."): value for key, value in config.items()})
            driver = TopologyTestDriver(builder.build(), {"application.id": "app", **settings})
            return stack.enter_context(driver)

        yield start
