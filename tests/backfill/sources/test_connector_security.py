"""TLS and login of the application, as Spark's Kafka connector is told of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pystreams import ConfigError, StreamsConfig
from pystreams.backfill import KafkaSource
from pystreams.testing.simulation import (
    Faults,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)

SECRET = "hunter2"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"
BY_PASSWORD = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "orders",
    "sasl.password": SECRET,
}


def options(
    settings: Mapping[str, object], given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return what the connector is told of security."""
    broker = SimulatedBroker(ManualClock(), Faults(0))
    admin = SimulatedClients(broker, Lifeline("backfill", broker.faults)).admin()
    required = {"application.id": "app", "bootstrap.servers": "none:9092"}
    config = StreamsConfig.of({**required, **settings})
    source = KafkaSource("none:9092", admin, options=given or {}, config=config)
    assert SECRET not in repr(source)
    return {
        name.removeprefix("kafka."): value
        for name, value in source.connector_options().items()
        if name.startswith(("kafka.s",))
    }


def refused(settings: Mapping[str, object]) -> str:
    with pytest.raises(ConfigError) as raised:
        options(settings)
    assert SECRET not in str(raised.value)
    return str(raised.value)


def test_a_broker_without_security_needs_none() -> None:
    assert options({}) == {"security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
def test_user_and_password_become_a_login_of_java(mechanism: str, module: str) -> None:
    told = options({**BY_PASSWORD, "sasl.mechanism": mechanism})

    assert told == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        f'username="orders" password="{SECRET}";',
    }


def test_a_password_may_have_any_characters() -> None:
    told = options({**BY_PASSWORD, "sasl.password": 'a"; \\ b'})

    assert told["sasl.jaas.config"].endswith('password="a\\"; \\\\ b";')


def test_what_consumers_are_told_alone_counts() -> None:
    told = options({**BY_PASSWORD, "main.consumer.sasl.username": "reader"})

    assert 'username="reader"' in told["sasl.jaas.config"]


def test_certificates_and_keys_are_read_here_so_that_executors_need_no_files(
    tmp_path: Path,
) -> None:
    authority, own = tmp_path / "ca.pem", tmp_path / "client.pem"
    authority.write_text(f"a comment\n{CERTIFICATE}\n{CERTIFICATE}\n")
    own.write_text(f"{KEY}\n{CERTIFICATE}\n")

    told = options(
        {
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority),
            "ssl.certificate.location": str(own),
            "ssl.key.location": str(own),
            "ssl.key.password": SECRET,
            "ssl.endpoint.identification.algorithm": "none",
        }
    )

    assert told == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": f"{CERTIFICATE}\n{CERTIFICATE}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": KEY,
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.key.password": SECRET,
        "ssl.endpoint.identification.algorithm": "",
    }


def test_a_keystore_stays_a_file() -> None:
    told = options(
        {
            "security.protocol": "SSL",
            "ssl.keystore.location": "/etc/orders.p12",
            "ssl.keystore.password": SECRET,
        }
    )

    assert told == {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "/etc/orders.p12",
        "ssl.keystore.password": SECRET,
    }


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {
                **BY_PASSWORD,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.secret": SECRET,
            },
            "sasl.mechanism = OAUTHBEARER.*SCRAM-SHA-512 or a client's certificate.*--option",
        ),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism = GSSAPI"),
        ({**BY_PASSWORD, "ssl.crl.location": "x"}, "same as ssl.crl.location.*--option"),
        (
            {**BY_PASSWORD, "enable.ssl.certificate.verification": False},
            "same as enable.ssl.certificate.verification",
        ),
        (
            {**BY_PASSWORD, "ssl.ca.location": "/nowhere/ca.pem"},
            "ssl.ca.location = '/nowhere/ca.pem' can't be read .No such file.*name one file",
        ),
        ({**BY_PASSWORD, "ssl.ca.pem": SECRET}, "ssl.ca.pem. has no certificate in PEM form"),
        (
            {**BY_PASSWORD, "ssl.key.pem": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}"},
            "PKCS #8.*openssl pkcs8 -topk8",
        ),
    ],
)
def test_what_java_has_no_word_for_is_refused_with_a_cure(
    settings: Mapping[str, Any], told: str
) -> None:
    assert re.search(told, refused(settings))


def test_options_of_the_connector_take_the_place_of_what_they_are_about() -> None:
    own = {"kafka.sasl.mechanism": "OAUTHBEARER", "kafka.sasl.jaas.config": "own required;"}
    bearer = {**BY_PASSWORD, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}

    told = options({**bearer, "ssl.ca.pem": CERTIFICATE}, own)

    assert told == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CERTIFICATE,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "own required;",
    }
