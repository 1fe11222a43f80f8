"""What a client knows of the application's other instances, and of its own threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams.errors import StreamsError
from pystreams.kernel.clock import Clock
from pystreams.metrics import OnDemand
from pystreams.runtime.application.discovery import Discovery
from pystreams.runtime.application.embedding import EmbeddedClient
from pystreams.runtime.application.group_processes import GroupProcess
from pystreams.runtime.application.troubles import Trouble
from pystreams.runtime.application.unfinished_threads import UnfinishedThread, unfinished_among
from pystreams.runtime.application.watchdog import Watchdog
from pystreams.runtime.cluster.streams_metadata import (
    HostInfo,
    KeyQueryMetadata,
    LagInfo,
    StreamsMetadata,
)
from pystreams.runtime.loop.global_stream_thread import global_thread_name
from pystreams.runtime.loop.reports.thread_metadata import ThreadMetadata
from pystreams.runtime.loop.stream_thread import StreamThread
from pystreams.serdes import Serde
from pystreams.topology.graph.nodes import StreamPartitioner

SUPERVISOR_NAME = "pystreams-supervisor"
_NODES_FOR_MS = 10_000


class DiscoveringClient(EmbeddedClient):
    """A client that finds out which instance has what; `KafkaStreams` is the only one.

    Instances are known by their `application.server`, which each tells the group.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._threads: list[StreamThread] = []
        self._client_id = ""
        self._discovery: Discovery | None = None
        self._watchdog = Watchdog(self._clock, self._paused)
        self._nodes = OnDemand()

    def metadata_for_local_threads(self) -> list[ThreadMetadata]:
        """Return what the stream threads and their tasks are doing."""
        return [thread.metadata() for thread in self._threads]

    def measure_nodes(self) -> None:
        """Have it measured, for ten seconds from now, how long the nodes of the topology work.

        That is done in some of the runs of records, a tenth of the time at most. What came out is
        in `metadata_for_local_threads`. At `metrics.recording.level=DEBUG` all is measured, always.
        """
        self._nodes.until_ms = self._clock.monotonic_ms() + _NODES_FOR_MS

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """What stands still, as it was seen last, at most seconds ago."""
        return self._watchdog.troubles

    def unfinished_threads(self) -> list[UnfinishedThread]:
        """Return which threads have not ended: what a `close` that returned False waits for."""
        others = (
            (global_thread_name(self._client_id), "reads the topics of global stores, or waits"),
            (SUPERVISOR_NAME, "waits for the threads above, or closes what they shared"),
        )
        return unfinished_among(self.metadata_for_local_threads(), others)

    def metadata_for_all_streams_clients(self) -> list[StreamsMetadata]:
        """Return all instances that have an `application.server`, as the group has them now.

        Raises:
            StreamsError: The application was not started, or the group can't be described.
        """
        return self._discover().clients()

    def group_processes(self) -> list[GroupProcess] | None:
        """Return the processes of the application, as the group had them some seconds ago.

        This one comes first, while it is a member. It never waits: what is told is what an earlier
        call has asked for. None while nothing was told yet, or for half a minute; before the start
        and after the end.
        """
        if self._discovery is None or self._finished.is_set():
            return None
        return self._discovery.processes([thread.name for thread in self._threads])

    def streams_metadata_for_store(self, store: str) -> list[StreamsMetadata]:
        """Return the instances that have partitions of a store, and an `application.server`.

        Raises:
            TopologyError: The topology has no store of that name.
            StreamsError: The application was not started, or the group can't be described.
        """
        return self._discover().clients(store)

    def query_metadata_for_key(
        self,
        store: str,
        key: Any,
        *,
        key_serde: Serde[Any] | None = None,
        partitioner: StreamPartitioner | None = None,
    ) -> KeyQueryMetadata:
        """Return which instance has a key, there or not, and in which partition.

        The group is asked at most once a second. What it says may be over by the time it is used:
        an instance that is asked for what it has not says so. Of a windowed key the key inside
        counts, unless a repartition topic was given it whole.

        Args:
            key_serde: Writes the key for Kafka's own partitioner; the store's serde when None.
            partitioner: What the store's input is partitioned by, if not by Kafka's own.

        Raises:
            TopologyError: The topology has no store of that name.
            ValueError: The serde can't write the key, or it has not one partition.
            StreamsError: The application was not started, or the group can't be described.
        """
        return self._discover().of_key(store, key, key_serde, partitioner)

    def owner_of(self, store: str, number: int, *, afresh: bool = False) -> HostInfo | None:
        """Return where the instance answers that has a partition of a store; None if none does.

        Args:
            afresh: Whether what the group said a moment ago is no answer.

        Raises:
            TopologyError: The topology has no store of that name.
            StreamsError: The application was not started, or the group can't be described.
        """
        return self._discover().owner(store, number, afresh=afresh)

    def known_owner_of(self, store: str, number: int) -> HostInfo | None:
        """Return who had a partition of a store when the group was last described.

        Does not wait: the group is asked every few seconds, for the next call.

        Returns:
            None if nobody said so within the last half minute.

        Raises:
            TopologyError: The topology has no store of that name.
            StreamsError: The application was not started.
        """
        return self._discover().known_owner(store, number)

    def partition_of_key(self, store: str, key: Any) -> int | None:
        """Return the partition that Kafka's own partitioner gives a key; None in a global store.

        Raises:
            TopologyError: The topology has no store of that name.
            ValueError: The store's serde can't write the key.
            StreamsError: The application was not started.
        """
        return self._discover().partition_of_key(store, key)

    def key_partitioner(self, store: str) -> Callable[[Any], int]:
        """Return what returns the partition of a key as `partition_of_key`, at a part of its cost.

        It belongs to the thread that calls it, and raises whatever the store's serde does.

        Raises:
            TopologyError: The topology has no store of that name.
            StreamsError: The application was not started, or the store is a global one.
        """
        return self._discover().key_partitioner(store)

    def num_partitions_of_store(self, store: str) -> int:
        """Return how many partitions a store has on all instances together; 0 of a global store.

        Raises:
            StreamsError: The application was not started.
        """
        return self._discover().num_partitions(store)

    def all_local_store_partition_lags(self) -> dict[str, dict[int, LagInfo]]:
        """Return how far each partition of this instance's stores is behind its changelog.

        One that is processed is not behind. Each call asks the broker.

        Raises:
            StreamsError: The application was not started, or the broker does not answer.
        """
        return self._discover().lags(self.metadata_for_local_threads())

    def _discover(self) -> Discovery:
        if self._discovery is None:
            raise StreamsError(
                f"the other instances are not known yet: the application is {self.state.value}; "
                "start it, or ask again in a moment"
            )
        return self._discovery
