"""Applications of tests, closed at their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.broker.troubles.request_proxy import RequestProxy
from tests.runtime.adapters.application import Application, MakeApplication

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pystreams.broker import DevelopmentBroker
    from pystreams.kernel.clock import Clock


@pytest.fixture
def make_application(broker: DevelopmentBroker) -> Iterator[MakeApplication]:
    """Make applications with settings of one's own."""
    made: list[Application] = []

    def make(settings: dict[str, Any], clock: Clock | None = None) -> Application:
        made.append(Application(broker.bootstrap_servers, settings, clock))
        return made[-1]

    yield make
    for application in made:
        application.close()


@pytest.fixture
def application(make_application: MakeApplication) -> Application:
    """An at-least-once application."""
    return make_application({})


@pytest.fixture
def exactly_once(make_application: MakeApplication) -> Application:
    """An exactly-once application."""
    return make_application({"processing.guarantee": "exactly_once"})


@pytest.fixture
def proxy(broker: DevelopmentBroker) -> Iterator[RequestProxy]:
    between = RequestProxy(broker.bootstrap_servers)
    yield between
    between.close()
