"""What must be true of a run of a sweep: of its output, its stores and their changelogs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from pystreams import TopicPartition, serdes
from pystreams.testing.simulation import SimulatedBroker, SimulatedProcess
from pystreams.testing.simulation.disk import StoreFiles
from tests.histories.list_append import anomalies
from tests.simulation.sweeping.appending import expected_of, observations
from tests.simulation.sweeping.scenario import Scenario

TIMESTAMP_BYTES = 8


class Oracle:
    """Knows what was asked for, and checks what has come of it.

    Args:
        broker: Holds topics.
        scenario: What the run is about.
    """

    def __init__(self, broker: SimulatedBroker, scenario: Scenario) -> None:
        self._broker = broker
        self._scenario = scenario
        self._expected: dict[str, set[str]] = {}
        self._counts: Counter[str] = Counter()
        self._looked_at: dict[tuple[str, TopicPartition], int] = {}
        self._transactional = {
            **{store.name: store.transactional for store in scenario.stores},
            "counts": True,
        }

    def next_input(self, key: str) -> tuple[str, str]:
        """Take note of the next record of the input, and return its key and value."""
        name = str(sum(self._counts.values()))
        self._counts[key] += 1
        stores = [store.name for store in self._scenario.stores]
        self._expected.update(expected_of(name, key, stores, self._scenario.partitions))
        return key, name

    # ------------------------------------------------------------------ at any time

    def check_disk(self, process: SimulatedProcess) -> None:
        """Each store holds what its changelog held at its offset: behind it, never ahead."""
        for task_id, store, files in process.disk.stores():
            changelog = TopicPartition(f"app-{store}-changelog", task_id.partition)
            if self._transactional[store]:
                self._check_store(process.process_id, changelog, files)

    def _check_store(self, process: str, changelog: TopicPartition, files: StoreFiles) -> None:
        offset = offset_of(changelog, files)
        if offset is None:
            assert not files.data, f"{process} {changelog}: data without an offset"
            return
        if self._looked_at.get((process, changelog)) == offset:
            return
        log = self._broker.log(changelog)
        if offset >= log.stable_end:
            assert offset < log.high_watermark, f"{process} {changelog}: {offset} is not there"
            return  # The markers of its last transaction are not written yet.
        self._looked_at[process, changelog] = offset
        held, logged = plain(changelog, files.data), log.compacted(offset + 1)
        if held != logged:
            # A compaction since then may have removed what the store still knows.
            later = log.compacted()
            differing = {key for key in held if held[key] != logged.get(key)}
            explained = differing <= later.keys() and held.items() >= logged.items()
            assert explained, f"{process} {changelog} at {offset}: {held}, log {logged}"

    # ------------------------------------------------------------------ at the end

    def check(self, processes: Iterable[SimulatedProcess]) -> None:
        """Check output and stores, when all is processed and every process has stopped."""
        processes = list(processes)
        for process in processes:
            self.check_disk(process)
        found = anomalies(observations(self._broker.committed_records("out")), self._expected)
        assert not found, "\n".join(map(str, found[:20]))
        if self._scenario.counts:
            self._check_counts()
        for topic, partitions in self._broker.partition_counts().items():
            if topic.endswith("-changelog"):
                for number in range(partitions):
                    self._check_newest_store(TopicPartition(topic, number), processes)

    def _check_counts(self) -> None:
        """Counts are 1 to n without gap or repeat; with a cache they only rise, up to n."""
        found: dict[str, list[int]] = {}
        deserialize = serdes.LONG.deserializer("counts")
        for message in self._broker.committed_records("counts"):
            assert message.message_key is not None
            assert message.message_value is not None
            counts = found.setdefault(message.message_key.decode(), [])
            counts.append(deserialize(message.message_value))
        assert found.keys() == self._counts.keys()
        for key, total in self._counts.items():
            assert all(left < right for left, right in pairwise(found[key])), (key, found[key])
            assert found[key][-1] == total, (key, found[key], total)
            if not self._scenario.caching:
                assert len(found[key]) == total, (key, found[key], total)

    def _check_newest_store(
        self, changelog: TopicPartition, processes: Iterable[SimulatedProcess]
    ) -> None:
        """The store on a disk with the highest offset equals the whole changelog."""
        log = self._broker.log(changelog)
        newest: tuple[int, dict[bytes, bytes]] | None = None
        for process in processes:
            for task_id, store, files in process.disk.stores():
                if changelog != (f"app-{store}-changelog", task_id.partition):
                    continue
                offset = offset_of(changelog, files)
                if offset is not None and (newest is None or offset > newest[0]):
                    newest = (offset, plain(changelog, files.data))
        if newest is not None:
            assert newest[1] == log.compacted(), f"{changelog}: {newest} != {log.compacted()}"


def offset_of(changelog: TopicPartition, files: StoreFiles) -> int | None:
    """Return the changelog offset a store says it is at."""
    packed = files.metadata.get(str(changelog).encode())
    return None if packed is None else int.from_bytes(packed, "big")


def plain(changelog: TopicPartition, data: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return what a store holds as its changelog has it: without timestamps."""
    timestamped = changelog.topic == "app-counts-changelog"
    return {key: value[TIMESTAMP_BYTES:] for key, value in data.items()} if timestamped else data
