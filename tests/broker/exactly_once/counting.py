"""The application that is killed: two sub-topologies, two stores, three outputs.

Input: key -> 1, 2, 3, ... Outputs: `echo`, the input as it is; `by-key`, a running count a key;
`by-group`, a running count a group of keys, behind a repartition. Each is 1, 2, 3, ... a key if
and only if every record had its effect exactly once, in order.
"""

from __future__ import annotations

import os

from pystreams import StreamsBuilder, Topology, serdes


def group_of(key: str) -> str:
    return f"group {key[-1]}"


def topology() -> Topology:
    name = os.environ["COUNTING_NAME"]
    builder = StreamsBuilder()
    source = builder.stream(f"{name}-in", key_serde=serdes.STRING, value_serde=serdes.LONG)
    source.to(f"{name}-echo")
    source.group_by_key().count(name="by-key").to_stream().to(f"{name}-by-key")
    grouped = source.group_by(lambda key, _value: group_of(key), key_serde=serdes.STRING)
    grouped.count(name="by-group").to_stream().to(f"{name}-by-group")
    return builder.build()
