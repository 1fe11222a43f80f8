"""What topics take, in a broker's words."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import ConfigEntry

from pystreams.runtime.adapters.administering.topic_limits import smallest_limit
from pystreams.runtime.adapters.administering.topic_settings import settings_of


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"max.message.bytes": "1048588", "segment.bytes": "1073741824"}, 1_048_588),
        ({"max.message.bytes": "1048588", "segment.bytes": "16384"}, 16_384),
        ({"max.message.bytes": "1048588"}, 1_048_588),
        ({"max.message.bytes": None, "segment.bytes": "16384"}, 16_384),
        ({"max.message.bytes": None}, None),
        ({"cleanup.policy": "delete"}, None),
    ],
)
def test_smallest_limit_counts_and_a_broker_may_name_none(
    settings: dict[str, str | None], limit: int | None
) -> None:
    entries = {name: ConfigEntry(name, value) for name, value in settings.items()}

    assert smallest_limit(settings_of(entries)) == limit
