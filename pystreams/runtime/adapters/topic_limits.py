"""What topics take, and other settings of theirs, as the broker describes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ResourceType

from pystreams.runtime.adapters.confluent_errors import BrokerOutage, error_of, make_client

_log = structlog.get_logger("pystreams.producer")

_ANSWER_TIMEOUT_S = 10.0
_LIMITS = ("max.message.bytes", "segment.bytes")


def described_limits(
    config: Mapping[str, Any], outage: BrokerOutage, topics: Collection[str]
) -> dict[str, int]:
    """Return how many bytes a batch may have, by topic.

    Topics that don't exist or may not be described are left out, as all are while no broker answers
    (it takes ten seconds to find that out).

    Args:
        config: librdkafka's configuration of an admin client, which is made for this.
        outage: Told when brokers can't be reached.
        topics: What to ask about.
    """
    if not topics:
        return {}
    described = described_settings(make_client(AdminClient, config, outage), topics)
    limits = {topic: smallest_limit(settings) for topic, settings in described.items()}
    return {topic: limit for topic, limit in limits.items() if limit is not None}


def described_settings(
    client: AdminClient, topics: Collection[str]
) -> dict[str, Mapping[str, ConfigEntry]]:
    """Return the settings of topics, without those that don't exist or may not be described.

    Args:
        client: Asks the broker, for ten seconds at most.
        topics: What to ask about, at least one.
    """
    wanted = [ConfigResource(ResourceType.TOPIC, topic) for topic in sorted(topics)]
    answers = client.describe_configs(wanted, request_timeout=_ANSWER_TIMEOUT_S)
    found: dict[str, Mapping[str, ConfigEntry]] = {}
    for resource, answer in answers.items():
        try:
            found[resource.name] = answer.result()
        except KafkaException as error:
            why = error_of(error).str()
            _log.debug("topic can't be described", topic=resource.name, why=why)
    return found


def smallest_limit(settings: Mapping[str, ConfigEntry]) -> int | None:
    """Return what a topic's settings let a batch have (bytes); None where they name no limit."""
    values = [settings[name].value for name in _LIMITS if name in settings]
    return min((int(value) for value in values if value is not None), default=None)
