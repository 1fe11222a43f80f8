"""Each way to show a broker who one is, as an application is configured for it."""

from __future__ import annotations

from collections.abc import Callable

from tests.broker.security.secured_broker import PASSWORD, USER, SecuredBroker
from tests.broker.security.token_endpoint import CLIENT, CLIENT_SECRET

Configure = Callable[[SecuredBroker, str], dict[str, str]]


def _with_password(mechanism: str) -> Configure:
    def configure(broker: SecuredBroker, _endpoint: str) -> dict[str, str]:
        return {
            "bootstrap.servers": broker.sasl_tls,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(broker.ca),
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    return configure


def _with_token(broker: SecuredBroker, endpoint: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.sasl_tls,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(broker.ca),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": CLIENT_SECRET,
        "sasl.oauthbearer.token.endpoint.url": endpoint,
    }


def _with_certificate(broker: SecuredBroker, _endpoint: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.mutual_tls,
        "security.protocol": "SSL",
        "ssl.ca.location": str(broker.ca),
        **broker.client_certificate,
    }


CREDENTIALS: dict[str, Configure] = {
    "SCRAM-SHA-512": _with_password("SCRAM-SHA-512"),
    "PLAIN": _with_password("PLAIN"),
    "OAUTHBEARER": _with_token,
    "mTLS": _with_certificate,
}
