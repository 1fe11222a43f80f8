"""The application that is killed: a table whose rows expire, change by change."""

from __future__ import annotations

import os

from pystreams import Materialized, StreamsBuilder, Topology, serdes

TTL_MS = 500
STORE = "kept"


def topology() -> Topology:
    name = os.environ["KILLED_NAME"]
    builder = StreamsBuilder()
    table = builder.table(
        f"{name}-in",
        key_serde=serdes.STRING,
        value_serde=serdes.LONG,
        materialized=Materialized(name=STORE, ttl_ms=TTL_MS, caching=False),
    )
    changes = table.to_stream()
    changes.to(f"{name}-out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()
