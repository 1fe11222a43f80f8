"""How large a batch of records topics take, as the broker describes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka.admin import AdminClient

from pystreams.errors import RetriableClientError
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.administering.topic_settings import described_settings
from pystreams.runtime.adapters.connection.connections import BrokerOutage, make_client

_log = get_logger("pystreams.producer")

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
    """
    if not topics:
        return {}
    client = make_client(AdminClient, config, outage)
    try:
        described = described_settings(client, sorted(topics), timeout_s=_ANSWER_TIMEOUT_S)
    except RetriableClientError as error:
        _log.debug("topics can't be described", why=str(error))
        return {}
    limits = {topic: smallest_limit(settings) for topic, settings in described.items()}
    return {topic: limit for topic, limit in limits.items() if limit is not None}


def smallest_limit(settings: Mapping[str, str]) -> int | None:
    """Return what a topic's settings let a batch have (bytes); None where they name no limit."""
    return min((int(settings[name]) for name in _LIMITS if name in settings), default=None)
