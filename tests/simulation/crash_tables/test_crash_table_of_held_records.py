"""The crash table of batches and asynchronous calls: what is held back is committed, or done again.

After each crash the store holds what its offset says, and after the restart each record was counted
once, in the order of its key.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from pystreams import StreamsBuilder, Topology, serdes
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.simulation.crash_tables.crash_run import FIRST_MS, CrashRun, die_at_each_step
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once")
RECORDS = 40
KEYS = "abc"


async def tagged(value: bytes) -> bytes:
    return value + b"!"


def asking(*, ordered: bool) -> Topology:
    builder = StreamsBuilder()
    types: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.BYTES}
    stream = builder.stream("in", **types)
    batched = stream.map_values_batch(lambda values: [value.upper() for value in values])
    answered = batched.map_values_async(tagged, max_in_flight=7, ordered=ordered)
    joined = answered.group_by_key(**types).reduce(lambda so_far, value: so_far + value, name="all")
    joined.to_stream().to("out", **types)
    return builder.build()


def builders_of(topology: Topology) -> dict[str, StoreSpecBuilder]:
    stores = topology.stores.items()
    return {name: builder for name, builder in stores if isinstance(builder, StoreSpecBuilder)}


def values_of(key: str) -> bytes:
    return b"".join(b"X%d!" % number for number in range(RECORDS) if KEYS[number % 3] == key)


class HeldRecordsRun(CrashRun):
    """Three rounds of records, all of them held back twice."""

    ordered = True
    builders = builders_of(asking(ordered=True))

    def topology(self, *, transactional: bool) -> Topology:
        return asking(ordered=self.ordered)

    def feed_and_process(self) -> None:
        self.left = list(range(RECORDS))
        self.feed_rest()

    def feed_rest(self) -> None:
        while self.left and self.process.running:
            for number in self.left[:15]:
                key = KEYS[number % 3].encode()
                self.app.broker.produce("in", key, b"x%d" % number, FIRST_MS + number)
            del self.left[:15]
            self.process_all()

    def check_outputs(self) -> None:
        results: dict[bytes | None, list[bytes]] = defaultdict(list)
        for message in self.app.broker.committed_records("out"):
            results[message.message_key].append(message.message_value or b"")
        for key in KEYS:
            mine = results[key.encode()]
            assert mine[-1] == values_of(key)
            assert mine == sorted(set(mine), key=len)


class UnorderedRun(HeldRecordsRun):
    """Only the records of one key keep their order."""

    ordered = False


KINDS = [HeldRecordsRun, UnorderedRun]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_crash_at_a_step_counts_each_record_once(
    kind: type[HeldRecordsRun], guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=11) > 5
