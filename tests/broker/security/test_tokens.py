"""Tokens of an identity provider: what it refuses is told with the cure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pystreams import AuthenticationError, StreamsConfig
from pystreams.runtime.adapters.administering.confluent_admin import ConfluentAdmin
from pystreams.runtime.adapters.client_factory import ConfluentClients
from tests.broker.security.credentials import CREDENTIALS
from tests.broker.security.secured_broker import USER, SecuredBroker
from tests.broker.security.token_endpoint import token_endpoint

pytestmark = pytest.mark.broker


@dataclass(frozen=True)
class Provider:
    """Who gives out tokens, and the settings of a client of theirs."""

    endpoint: str
    settings: dict[str, str]

    def admin(self, **changes: str) -> ConfluentAdmin:
        config = {"application.id": "app", **self.settings, **changes}
        return ConfluentClients(StreamsConfig.of(config)).admin()


@pytest.fixture
def provider(secured: SecuredBroker) -> Iterator[Provider]:
    with token_endpoint(USER) as endpoint:
        yield Provider(endpoint, CREDENTIALS["OAUTHBEARER"](secured, endpoint))


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("sasl.oauthbearer.client.secret", "wrong-secret", "invalid_client"),
        ("sasl.oauthbearer.token.endpoint.url", "http://127.0.0.1:1/token", "connect"),
    ],
)
def test_no_token_is_told_with_what_to_correct(
    provider: Provider, key: str, value: str, reason: str
) -> None:
    with pytest.raises(AuthenticationError) as raised:
        provider.admin(**{key: value}).partition_counts()

    text = str(raised.value)
    assert "gives the client no token" in text
    assert reason in text
    assert key in text.partition("): ")[2]
    assert "wrong-secret" not in text
    assert provider.admin().partition_counts() is not None
