"""The secured broker of the tests in this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.security.secured_broker import SecuredBroker, secured_broker


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """One broker with a listener of each security protocol, until the last of these tests is done.

    A broker costs a fiftieth of a processor where nobody asks it anything.
    """
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker
