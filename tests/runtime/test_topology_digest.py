"""What a process tells the others of its topology, with the address where it answers."""

from __future__ import annotations

from typing import Any

from pystreams import StreamsBuilder, StreamsConfig
from pystreams.kernel.clock import SystemClock
from pystreams.runtime.application.discovery import Discovery
from pystreams.serdes import STRING
from pystreams.topology.plan.topology_plan import TopologyPlan

ADDRESS = {"application.server": "localhost:8080"}


class Untold:
    """A serde of the user's that can't be shown."""

    serializer = STRING.serializer
    deserializer = STRING.deserializer

    def __repr__(self) -> str:
        raise LookupError("no name yet")


def digest(serde: Any, **keys: Any) -> str:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=STRING, value_serde=STRING).to("out", value_serde=serde)
    config = StreamsConfig.of({"application.id": "a", "bootstrap.servers": "localhost:1", **keys})
    unused: Any = None
    plan = TopologyPlan(builder.build(), "a")
    return Discovery(plan, config, unused, unused, SystemClock()).topology_digest


def test_a_process_that_others_can_ask_tells_its_topology() -> None:
    assert digest(STRING, **ADDRESS)


def test_without_an_address_nothing_is_made_that_nobody_is_told() -> None:
    assert digest(STRING) == ""


def test_a_topology_that_can_not_be_told_starts_untold() -> None:
    assert digest(Untold(), **ADDRESS) == ""
