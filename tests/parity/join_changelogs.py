"""Changelogs of stores with duplicates: what Kafka Streams logs and pystreams does not.

Kafka's store ignores a record without a value; its changelog has and numbers it. Here it is not
logged, and the numbers are the store's. Records that are too old for the store are not logged
either; the input has none, because there numbers differ in the stores as well.
"""

from __future__ import annotations

from pystreams import Topology
from pystreams.stores.kinds.window.keys import key_of, start_of, window_key
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.parity.golden import Produced


def changelogs_with_duplicates(topology: Topology, application_id: str) -> list[str]:
    """The changelog topics of stores with duplicates."""
    found = []
    for name, builder in topology.stores.items():
        assert isinstance(builder, StoreSpecBuilder)
        retention = builder.spec.retention
        if retention is not None and retention.retain_duplicates:
            found.append(f"{application_id}-{name}-changelog")
    return found


def as_logged_here(records: list[Produced]) -> list[Produced]:
    """The records of Kafka's changelog that we log, with our numbers."""
    logged: list[Produced] = []
    for record in records:
        if record.key is not None and record.value is not None:
            key = window_key(key_of(record.key), start_of(record.key), len(logged) + 1)
            logged.append(record._replace(key=key))
    return logged
