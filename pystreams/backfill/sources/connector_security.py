"""The application's TLS and login, in the words of the Java client of Spark's Kafka connector.

Certificates and keys go to the connector as text, not as paths: they are read on this machine, and
executors on others need no files. Java's client hides them in what it logs, as it does passwords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pystreams.config import StreamsConfig
from pystreams.config.clients import history_consumer_config
from pystreams.errors import ConfigError

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_LIBRDKAFKA_MECHANISM = "GSSAPI"
"""What librdkafka takes where no mechanism is set."""
_TRANSLATED_TLS = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.location",
        "ssl.keystore.password",
    }
)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:ENCRYPTED )?PRIVATE KEY-----.+?-----END (?:ENCRYPTED )?PRIVATE KEY-----",
    re.DOTALL,
)
_SYSTEM_CERTIFICATES = "probe"
"""What librdkafka calls the certificates of the operating system; Java brings its own."""
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


def security_options(config: StreamsConfig, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options with which the connector reaches brokers as workers would.

    Args:
        given: The user's options of the connector. Where they have some of TLS (`kafka.ssl.*`) or
            of the login (`kafka.sasl.*`), all of that is theirs to say.

    Raises:
        ConfigError: Java's client has no word for a key, or a file can't be read.
    """
    client = history_consumer_config(config)
    names = {name.lower(): value for name, value in given.items()}
    protocol = names.get("kafka.security.protocol", str(client["security.protocol"])).upper()
    options = {"security.protocol": protocol}
    if protocol.startswith("SASL") and not _has(names, "kafka.sasl."):
        options |= _login(client)
    if protocol.endswith("SSL") and not _has(names, "kafka.ssl."):
        options |= _tls(client)
    return {f"kafka.{name}": value for name, value in options.items()}


def _has(names: Mapping[str, str], prefix: str) -> bool:
    return any(name.startswith(prefix) for name in names)


def _login(client: Mapping[str, Any]) -> dict[str, str]:
    chosen = client.get("sasl.mechanism", client.get("sasl.mechanisms", _LIBRDKAFKA_MECHANISM))
    mechanism = str(chosen).upper()
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise ConfigError(
            f"Spark's Kafka connector is needed here, and can't log in by sasl.mechanism = "
            f"{mechanism} with the application's configuration: Java's client does that otherwise "
            f"than librdkafka. Run the command with a configuration that logs in by "
            f"{', '.join(_LOGIN_MODULES)} or a client's certificate, or give the connector a login "
            "of its own, in Java's names: kafka.sasl.mechanism, kafka.sasl.jaas.config and what "
            "they need, as options (--option)"
        )
    user, password = (
        str(client.get(name, "")).translate(_ESCAPES) for name in ("sasl.username", "sasl.password")
    )
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }


def _tls(client: Mapping[str, Any]) -> dict[str, str]:
    _refuse_untranslated(client)
    options = _trusted(client)
    if "ssl.keystore.location" in client:
        options["ssl.keystore.type"] = "PKCS12"
        options["ssl.keystore.location"] = str(client["ssl.keystore.location"])
        options["ssl.keystore.password"] = str(client.get("ssl.keystore.password", ""))
    elif key := _text(client, "ssl.key"):
        options["ssl.keystore.type"] = "PEM"
        options["ssl.keystore.key"] = _private_key(key)
        chain = _text(client, "ssl.certificate") or ""
        options["ssl.keystore.certificate.chain"] = _certificates(chain, "ssl.certificate")
        if "ssl.key.password" in client:
            options["ssl.key.password"] = str(client["ssl.key.password"])
    algorithm = client.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        # Java says it with an empty text.
        is_none = str(algorithm).lower() == "none"
        options["ssl.endpoint.identification.algorithm"] = "" if is_none else str(algorithm)
    return options


def _refuse_untranslated(client: Mapping[str, Any]) -> None:
    untranslated = {name for name in client if name.startswith("ssl.")} - _TRANSLATED_TLS
    unverified = "enable.ssl.certificate.verification"
    if str(client.get(unverified, "true")).lower() == "false":
        untranslated.add(unverified)
    if untranslated:
        raise ConfigError(
            f"Spark's Kafka connector is needed here, and Java's client has nothing that is the "
            f"same as {min(untranslated)}: run the command with a configuration without it, or "
            "give the connector TLS of its own, in Java's names: kafka.ssl.truststore.location and "
            "what else it needs, as options (--option)"
        )


def _trusted(client: Mapping[str, Any]) -> dict[str, str]:
    if client.get("ssl.ca.location") == _SYSTEM_CERTIFICATES:
        return {}
    authorities = _text(client, "ssl.ca")
    if authorities is None:
        return {}
    certificates = _certificates(authorities, "ssl.ca")
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates}


def _text(client: Mapping[str, Any], what: str) -> str | None:
    """Return what a key holds, or the file that it names; None where neither is set."""
    if f"{what}.pem" in client:
        return str(client[f"{what}.pem"])
    location = client.get(f"{what}.location")
    if location is None:
        return None
    try:
        return Path(str(location)).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(
            f"{what}.location = {str(location)!r} can't be read ({reason}), which Spark's Kafka "
            "connector needs: name one file in PEM form that this user may read"
        ) from None


def _certificates(text: str, what: str) -> str:
    found = _CERTIFICATE.findall(text)
    if not found:
        raise ConfigError(
            f"{what}.location (or {what}.pem) has no certificate in PEM form (-----BEGIN "
            "CERTIFICATE-----), which Spark's Kafka connector needs: name the file that has it"
        )
    return "\n".join(found)


def _private_key(text: str) -> str:
    found = _PRIVATE_KEY.search(text)
    if found is None:
        raise ConfigError(
            "ssl.key.location (or ssl.key.pem) has no key in the form PKCS #8 (-----BEGIN PRIVATE "
            "KEY-----), the only one that Spark's Kafka connector reads: convert it with "
            "`openssl pkcs8 -topk8 -in KEY -out KEY.pk8` (-nocrypt for one without a password), "
            "and name that file; the application reads it too"
        )
    return found[0]
