"""Which instance has what: learnt from the description of the group, asked for when needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from pystreams.config import StreamsConfig
from pystreams.deploy.results_digest import results_digest_of
from pystreams.errors import StreamsError
from pystreams.exception_texts import exception_text
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.partitioner import partition_of
from pystreams.runtime.application.group_processes import GroupProcess, processes_of
from pystreams.runtime.cluster.group_description import GroupDescription
from pystreams.runtime.cluster.streams_metadata import (
    HostInfo,
    KeyQueryMetadata,
    LagInfo,
    StreamsMetadata,
    host_of,
)
from pystreams.runtime.loop.reports.thread_metadata import ThreadMetadata
from pystreams.runtime.ports import AdminPort
from pystreams.runtime.topics.application_topics import TopicManager
from pystreams.serdes import BYTES, Serde, filled, headers_serializer
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.topology.contracts.windowed_serdes import WindowedSerde, bytes_in_records
from pystreams.topology.graph.nodes import StreamPartitioner
from pystreams.topology.plan.partition_plan import partitions_of_task, partitions_of_tasks
from pystreams.topology.plan.topology_plan import TopologyPlan

_FRESH_MS = 1_000
_ANSWER_TIMEOUT_S = 10.0
_AHEAD_MS = 5_000
_OLD_MS = 30_000
"""What the group said longer ago is shown to nobody."""
_RUNNING = "running"
_log = get_logger("pystreams.client")


@dataclass(frozen=True, slots=True)
class _Look:
    """What the group said, and when (ms)."""

    group: GroupDescription
    at_ms: float


class _Writer(NamedTuple):
    """What has decided which partition a store's keys are in.

    Attributes:
        topic: What they are partitioned in.
        windows: How many windows are around a key that is hashed: of a key in windows it is the one
            inside, unless a repartition topic was given it whole.
        bytes_of: Makes the bytes of the store's keys that are hashed.
    """

    topic: str
    windows: int
    serde: Serde[Any]
    bytes_of: Callable[[Any], bytes]


class _Owners(NamedTuple):
    """Who has partitions of stores, as one description of the group says, as far as was asked."""

    group: GroupDescription | None
    found: dict[tuple[str, int], HostInfo | None]


class Discovery:
    """Finds out which instance has what. Safe to use from any thread.

    Args:
        admin: Asks for the group, and for ends of changelogs.
        topics: Knows how many partitions topics and stores have.

    Attributes:
        topology_digest: What tells this topology from others, for the group. Empty if nobody is
            told where this process answers, or if it can't be worked out.
    """

    def __init__(
        self,
        plan: TopologyPlan,
        config: StreamsConfig,
        admin: AdminPort,
        topics: TopicManager,
        clock: Clock,
    ) -> None:
        self._plan = plan
        self._config = config
        self._admin = admin
        self._topics = topics
        self._clock = clock
        self.topology_digest = _told_digest(plan, config) if config.application_server else ""
        self._written_by: dict[str, _Writer] = {}
        self._lock = threading.Lock()
        self._look: _Look | None = None
        self._asked: Future[GroupDescription] | None = None
        self._asked_ahead: Future[GroupDescription] | None = None
        self._known_owners = _Owners(None, {})

    def clients(self, store: str | None = None) -> list[StreamsMetadata]:
        """Return the instances that say where they answer: all, or those that have a store.

        Raises:
            StreamsError: The group can't be described.
        """
        if store is not None:
            self._plan.spec_of(store)
        by_host: dict[HostInfo, set[TopicPartition]] = {}
        for member in self._group(_FRESH_MS).members:
            host = host_of(member.client_id)
            if host is not None:
                by_host.setdefault(host, set()).update(member.partitions)
        found = [
            StreamsMetadata(
                host_info=host,
                state_store_names=self._stores_of(partitions),
                topic_partitions=frozenset(partitions),
            )
            for host, partitions in sorted(by_host.items())
        ]
        return [client for client in found if store is None or store in client.state_store_names]

    def processes(self, threads: Collection[str]) -> list[GroupProcess] | None:
        """Return the processes of the group; see `KafkaStreams.group_processes`.

        Args:
            threads: The names of this process' stream threads.
        """
        group = self._group_ahead()
        if group is None:
            return None
        tasks = partitions_of_tasks(self._plan, self._topics.partition_counts())
        return processes_of(group, self._plan, tasks, threads, self.topology_digest)

    def of_key(
        self, store: str, key: Any, serde: Serde[Any] | None, partitioner: StreamPartitioner | None
    ) -> KeyQueryMetadata:
        """Return who has a key; see `KafkaStreams.query_metadata_for_key`."""
        number = self.partition_of_key(store, key, serde, partitioner)
        if number is None:
            here = HostInfo.build_from_endpoint(self._config.application_server)
            return KeyQueryMetadata(here, frozenset(), -1)
        return KeyQueryMetadata(self.owner(store, number), frozenset(), number)

    def num_partitions(self, store: str) -> int:
        """Return how many partitions a store has; 0 of a global one."""
        return self._topics.num_partitions_of_store(store)

    def partition_of_key(
        self,
        store: str,
        key: Any,
        serde: Serde[Any] | None = None,
        partitioner: StreamPartitioner | None = None,
    ) -> int | None:
        """Return the partition of a store that a key belongs to; None in a global store.

        Args:
            serde: Writes the key; the store's own when None.
            partitioner: What the store's input is partitioned by; Kafka's default when None.

        Raises:
            ValueError: The key can't be written, or has not one partition.
        """
        writer, count = self._written_by.get(store), self._topics.num_partitions_of_store(store)
        if writer is None:
            spec = self._plan.spec_of(store)
            if not count:
                return None
            writer = self._find_writer(store, spec)
        topic, windows, own, bytes_of = writer
        if partitioner is not None:
            chosen = partitioner(topic, key, None, count)
            if isinstance(chosen, int):
                return chosen
            if chosen is not None:
                raise ValueError(f"the key {key!r} has not one partition but {sorted(chosen)}")
        try:
            if serde is not None:
                bytes_of = _hashed_bytes(serde, topic, windows)
            return partition_of(bytes_of(key), count)
        except Exception as error:  # A serde may raise anything.
            raise ValueError(
                f"the key {key!r} does not fit {serde or own!r}: {exception_text(error)}"
            ) from error

    def key_partitioner(self, store: str) -> Callable[[Any], int]:
        """Return what returns the partition of a key; see `KafkaStreams.key_partitioner`."""
        spec, part = self._plan.spec_of(store), self._plan.subtopology_of_store(store)
        if part is None:
            raise StreamsError(f"the global store {store!r} has no partitions")
        writer = self._find_writer(store, spec)
        bytes_of = _hashed_bytes(writer.serde, writer.topic, writer.windows, of_one_thread=True)
        count_of, number = self._topics.num_tasks, part.id

        def number_of(key: Any) -> int:
            return partition_of(bytes_of(key), count_of(number))

        return number_of

    def owner(self, store: str, number: int, *, afresh: bool = False) -> HostInfo | None:
        """Return who has a partition of a store; see `KafkaStreams.owner_of`."""
        return self._owner_in(self._group(0 if afresh else _FRESH_MS), store, number)

    def known_owner(self, store: str, number: int) -> HostInfo | None:
        """Return who had a partition of a store; see `KafkaStreams.known_owner_of`."""
        group = self._group_ahead()
        if group is None:
            return None
        known = self._known_owners
        if known.group is not group:
            known = self._known_owners = _Owners(group, {})
        asked = (store, number)
        if asked not in known.found:
            known.found[asked] = self._owner_in(group, store, number)
        return known.found[asked]

    def lags(self, threads: list[ThreadMetadata]) -> dict[str, dict[int, LagInfo]]:
        """Return how far the stores of these threads' tasks are behind their changelogs.

        Raises:
            StreamsError: The broker does not answer.
        """
        tasks = [
            task for thread in threads for task in (*thread.active_tasks, *thread.standby_tasks)
        ]
        positions: Mapping[TopicPartition, int | None] = {
            changelog: None if task.state == _RUNNING else task.restored_offsets.get(changelog, 0)
            for task in tasks
            for changelog in task.changelogs
        }
        names = {changelog: name for task in tasks for changelog, name in task.changelogs.items()}
        ends = self._admin.offset_ranges(list(positions)) if positions else {}
        lags: dict[str, dict[int, LagInfo]] = {}
        for changelog, position in sorted(positions.items()):
            end = ends[changelog].high_watermark
            lag = LagInfo(end if position is None else position, end)
            lags.setdefault(names[changelog], {})[changelog.partition] = lag
        return lags

    # ------------------------------------------------------------------ inside

    def _find_writer(self, store: str, spec: StoreSpec) -> _Writer:
        """Return the topic that a store's keys are partitioned in, and what writes them."""
        topic = min((partition.topic for partition in self._inputs(store, 0)), default="")
        default = self._config.default_key_serde
        serde = filled(spec.key_serde, default) or BYTES
        read, _ = self._plan.serdes_of_topic(topic) or (None, None)
        windows = _windows_around(filled(read, default))
        if windows and not self._plan.is_repartition(topic):
            windows -= 1  # A sink writes it to the partition of the key inside.
        writer = _Writer(topic, windows, serde, _hashed_bytes(serde, topic, windows))
        self._written_by[store] = writer
        return writer

    def _inputs(self, store: str, number: int) -> frozenset[TopicPartition]:
        """Return what the task reads that has a partition of a store."""
        part = self._plan.subtopology_of_store(store)
        if part is None:
            return frozenset()
        counts = self._topics.partition_counts()
        return frozenset(partitions_of_task(self._plan, counts, TaskId(part.id, number)))

    def _owner_in(self, group: GroupDescription, store: str, number: int) -> HostInfo | None:
        needed = self._inputs(store, number)
        for member in group.members:
            if needed and needed <= member.partitions:
                return host_of(member.client_id)
        return None

    def _stores_of(self, partitions: set[TopicPartition]) -> frozenset[str]:
        read = {topic for topic, _ in partitions}
        parts = [self._plan.subtopology_of_topic(topic) for topic in read]
        return frozenset(name for part in parts if part is not None for name in part.stores)

    def _group_ahead(self) -> GroupDescription | None:
        with self._lock:
            now_ms, ahead = self._clock.monotonic_ms(), self._asked_ahead
            if ahead is not None and ahead.done():
                self._asked_ahead = None
                if ahead.exception() is None:
                    self._look = _Look(ahead.result(), now_ms)
            age_ms = inf if self._look is None else now_ms - self._look.at_ms
            if self._asked_ahead is None and age_ms >= _AHEAD_MS:
                self._asked_ahead = self._admin.describe_group(self._plan.application_id)
            return self._look.group if self._look is not None and age_ms < _OLD_MS else None

    def _group(self, fresh_ms: float) -> GroupDescription:
        """Return the group as it was within the last moment; asks once for all who want it."""
        with self._lock:
            look = self._look
            if look is not None and self._clock.monotonic_ms() - look.at_ms < fresh_ms:
                return look.group
            asked = self._asked
            if asked is None:
                asked = self._asked = self._admin.describe_group(self._plan.application_id)
        try:
            group = asked.result(_ANSWER_TIMEOUT_S)
        except TimeoutError as error:
            raise StreamsError("the group was not described in time: ask again") from error
        finally:
            with self._lock:
                if self._asked is asked:
                    self._asked = None
        with self._lock:
            self._look = _Look(group, self._clock.monotonic_ms())
        return group


def _windows_around(serde: Serde[Any] | None) -> int:
    """Return how many windows are around the keys of a serde."""
    windows = 0
    while isinstance(serde, WindowedSerde):
        windows, serde = windows + 1, serde.inner
    return windows


def _hashed_bytes(
    serde: Serde[Any], topic: str, windows: int, *, of_one_thread: bool = False
) -> Callable[[Any], bytes]:
    """Return what makes the bytes that decide about a key's partition.

    Args:
        windows: How many windows stay around it.
        of_one_thread: Whether one thread calls it; else any may.
    """
    taken_off = max(_windows_around(serde) - windows, 0)
    inner = serde
    for _ in range(taken_off):
        assert isinstance(inner, WindowedSerde)
        inner = inner.known_inner()
    # What a serde makes is one thread's; to look for headers takes long.
    sees_headers = headers_serializer(inner, topic) is not None
    if of_one_thread and not taken_off and not sees_headers:
        return inner.serializer(topic)

    def bytes_of(key: Any) -> bytes:
        for _ in range(taken_off):
            key = key.key
        if sees_headers:
            return bytes_in_records(inner, topic)(key)
        return inner.serializer(topic)(key)

    return bytes_of


def _told_digest(plan: TopologyPlan, config: StreamsConfig) -> str:
    """Return the topology's digest; empty if objects of the user's, as serdes, make it fail."""
    try:
        return results_digest_of(
            plan.topology, config.default_key_serde, config.default_value_serde
        )
    except Exception as error:  # noqa: BLE001 - what is only shown stops no start.
        _log.warning("topology not compared with other processes", why=repr(error))
        return ""
