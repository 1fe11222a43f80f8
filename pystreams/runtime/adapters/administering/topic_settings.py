"""The settings of topics, read and changed, and of brokers, with an admin client that is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.connection.confluent_errors import error_of, translate

_log = get_logger("pystreams.admin")

_ANSWER_TIMEOUT_S = 30.0
_BROKERS_TIMEOUT_S = 5.0
"""For settings of brokers, without which an application starts, too: one of them may be gone."""


def described_settings(
    client: AdminClient, topics: Sequence[str], timeout_s: float = _ANSWER_TIMEOUT_S
) -> dict[str, dict[str, str]]:
    """Return the settings of topics, defaults included; see `AdminPort.topic_settings`.

    Args:
        timeout_s: How long to wait for the answer (s).
    """
    if not topics:
        return {}
    wanted = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    answers = client.describe_configs(wanted, request_timeout=timeout_s)
    found: dict[str, dict[str, str]] = {}
    for resource, answer in answers.items():
        try:
            entries = answer.result()
        except KafkaException as raised:
            error = error_of(raised)
            if error.retriable():
                raise translate(error, f"settings of topic {resource.name!r}") from raised
            _log.debug("topic can't be described", topic=resource.name, why=error.str())
            continue
        found[str(resource.name)] = settings_of(entries)
    return found


def settings_of(entries: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """Return a description's settings; a broker may name one without a value."""
    return {name: str(entry.value) for name, entry in entries.items() if entry.value is not None}


def broker_setting(client: AdminClient, name: str, timeout_s: float) -> list[str | None]:
    """Return a setting of each broker; see `AdminPort.broker_setting`."""
    try:
        brokers = client.list_topics(timeout=timeout_s).brokers
        resources = [ConfigResource(ResourceType.BROKER, str(number)) for number in brokers]
        # Each broker is asked for its own.
        time_s = min(timeout_s, _BROKERS_TIMEOUT_S)
        answers = [client.describe_configs([of], request_timeout=time_s) for of in resources]
    except KafkaException:
        return []
    return [_setting_in(answer, name) for some in answers for answer in some.values()]


def _setting_in(answer: Future[dict[str, ConfigEntry]], name: str) -> str | None:
    try:
        return settings_of(answer.result()).get(name)
    except KafkaException as raised:
        _log.debug("a broker does not tell a setting", setting=name, why=str(raised))
        return None


def change_settings(client: AdminClient, changes: Mapping[str, Mapping[str, str]]) -> None:
    """Set some settings of topics; see `AdminPort.change_topic_settings`."""
    if not changes:
        return
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in settings.items()
            ],
        )
        for topic, settings in changes.items()
    ]
    answers = client.incremental_alter_configs(resources, request_timeout=_ANSWER_TIMEOUT_S)
    for resource, answer in answers.items():
        try:
            answer.result()
        except KafkaException as raised:
            doing = f"changing settings of topic {resource.name!r}"
            raise translate(error_of(raised), doing) from raised
