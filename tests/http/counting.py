"""The application that three processes run: it counts by key."""

from __future__ import annotations

import os

from pystreams import StreamsBuilder, Topology
from pystreams.serdes import STRING


def topology() -> Topology:
    return counting(os.environ["HTTP_TOPIC"])


def counting(topic: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(topic, key_serde=STRING, value_serde=STRING)
    stream.group_by_key().count(name="counts")
    return builder.build()
