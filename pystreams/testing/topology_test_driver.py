"""`TopologyTestDriver`: runs a topology record by record, with no broker and no thread.

    driver = TopologyTestDriver(topology)
    orders = driver.create_input_topic("orders", STRING, STRING)
    counts = driver.create_output_topic("counts", STRING, LONG)
    orders.pipe_input("a", "x")
    assert counts.read_key_values() == [("a", 1)]

Every sub-topology is one task with partition 0; what it writes to internal topics and to topics
the topology reads flows on at once; what is piped into the topic of a global store is in that store
at once. As in Kafka Streams' driver, a commit follows each record: record caches hold nothing back.
Stores live in memory whatever engine they name; `state_directory` gives them those they ask for.

Source: Kafka Streams' `TopologyTestDriver`. Differs from Kafka: sub-topologies are tasks of their
own with their own stream time, as at run time; Java's driver runs them all as one task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar

from pystreams.config import StreamsConfig
from pystreams.errors import StreamsError
from pystreams.ids import TaskId, TopicPartition
from pystreams.record import ConsumedMessage, Headers, OutputBuffer, ProducedRecord, StaticMessage
from pystreams.runtime.adapters.event_loop import EventLoop
from pystreams.runtime.core.global_stores import GlobalStores
from pystreams.runtime.core.global_task import GlobalTask
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.settings import global_task_settings
from pystreams.serdes import Serde
from pystreams.stores.contracts.key_value import StateStore, TimestampedKeyValueStore
from pystreams.stores.contracts.session import SessionStore
from pystreams.stores.contracts.versioned import VersionedKeyValueStore
from pystreams.stores.contracts.window import TimestampedWindowStore
from pystreams.testing.driver_arguments import check_is_read, checked_advance, checked_record
from pystreams.testing.driver_settings import driver_config, driver_task_settings
from pystreams.testing.driver_stores import DriverStores, restore_stores
from pystreams.testing.driver_topics import TestInputTopic, TestOutputTopic
from pystreams.testing.plain_values import PlainValues, PlainWindows
from pystreams.testing.told_damage import damage_told
from pystreams.testing.trace import TraceEvent, Tracer
from pystreams.topology.contracts.record_parts import checked_time
from pystreams.topology.graph.subtopologies import Subtopology
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.configuration_check import check_configured
from pystreams.topology.plan.topology_plan import TopologyPlan

K = TypeVar("K")
V = TypeVar("V")


class TopologyTestDriver:
    """Runs a topology for tests.

    Args:
        config: A `StreamsConfig` or a mapping of Kafka's dotted names; `application.id` and
            `bootstrap.servers` have defaults here; `outer.join.emit.interval.ms` and
            `window.emit.interval.ms` are 0.
        wall_clock_ms: Where the wall clock starts (ms).
        state_directory: Where persistent stores live; None keeps ours in memory, and gives those
            of a user's own a temporary directory until `close`.
        trace: Told what becomes of each record: each `Hop` from node to node, each `StateChange`,
            each record that is `Written`. `trace=print` shows it as text.

    Raises:
        TopologyError: The topology can't run, or `trace` is no plain function of one event.
        ConfigError: The configuration is wrong.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig | Mapping[str, Any] | None = None,
        *,
        wall_clock_ms: int = 0,
        state_directory: Path | str | None = None,
        trace: Callable[[TraceEvent], object] | None = None,
    ) -> None:
        self._config = driver_config(config)
        self._plan = TopologyPlan(topology, self._config.application_id)
        self._tracer = None if trace is None else Tracer(self._plan, self._config, trace)
        check_configured(topology, self._config)
        self._now_ms = checked_time("wall_clock_ms", wall_clock_ms)
        self._state_directory = None if state_directory is None else Path(state_directory)
        self._temporary: TemporaryDirectory[str] | None = None
        if state_directory is None and any(own.engine is None for own in topology.stores.values()):
            self._temporary = TemporaryDirectory(prefix="topology-test-driver-")
        self._closed = False
        self._produced, self._offsets = dict[str, list[ProducedRecord]](), dict[str, int]()
        self._tasks: list[StreamTask] = []
        self._global_task: GlobalTask | None = None
        self._event_loop = EventLoop()
        self._stores = DriverStores(topology.stores, self.get_all_state_stores)
        try:
            with damage_told():
                if self._plan.global_subtopologies:
                    self._global_task = self._fill_nothing()
                for part in self._plan.subtopologies:
                    self._begin(part)
        except BaseException:
            with suppress(StreamsError):  # It must not hide what failed before.
                self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ topics

    def create_input_topic(
        self,
        topic: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        *,
        start_timestamp: int = 0,
        auto_advance_ms: int = 0,
    ) -> TestInputTopic[K, V]:
        """Return a topic to pipe records into.

        Args:
            start_timestamp: Timestamp of records piped without one (ms).
            auto_advance_ms: What is added to it after each such record (ms).
        """
        return TestInputTopic(
            topic,
            key_serde,
            value_serde,
            self.pipe_raw,
            start_timestamp=start_timestamp,
            auto_advance_ms=auto_advance_ms,
        )

    def create_output_topic(
        self, topic: str, key_serde: Serde[K], value_serde: Serde[V]
    ) -> TestOutputTopic[K, V]:
        """Return a topic to read what the topology wrote; internal topics by their real names."""
        return TestOutputTopic(
            topic, key_serde, value_serde, lambda: self._produced.setdefault(topic, [])
        )

    @damage_told()
    def pipe_raw(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers = (),
    ) -> None:
        """Pipe one serialized record and process all that follows from it.

        Raises:
            TopologyError: The topology does not read the topic.
            TypeError: A part of it is none of a record.
            StreamsError: The driver was closed.
        """
        record = checked_record(topic, key, value, timestamp, headers)
        self._pipe(TopicPartition(topic, 0), self._next_message(topic, record))

    def produced_topic_names(self) -> set[str]:
        """Return the topics anything was written to, internal ones by their real names."""
        return {topic for topic, records in self._produced.items() if records}

    def produced_raw(self, topic: str) -> list[ProducedRecord]:
        """Return what is unread of a topic, as (key, value, timestamp in ms, headers)."""
        return self._produced.get(topic, [])

    # ------------------------------------------------------------------ time, stores, end

    @damage_told()
    def advance_wall_clock_ms(self, advance_ms: int) -> None:
        """Move the wall clock on (ms): punctuations and retries are due that it makes due."""
        until_ms, is_over = self._now_ms + checked_advance("advance_ms", advance_ms), False
        while not is_over:
            # What is done at one moment may make others due.
            retries_ms = [task.held.retry_at_ms for task in self._tasks]
            due_ms = min((at_ms for at_ms in retries_ms if at_ms is not None), default=until_ms)
            is_over = due_ms >= until_ms
            self._now_ms = until_ms if is_over else max(due_ms, self._now_ms)
            for task in self._tasks:
                task.time.go_on(self._now_ms)
                task.go_on()
                task.punctuate_wall_clock(self._now_ms)
                self._commit(task)
            self._run()

    def get_state_store(self, name: str) -> Any:
        """Return a store by name, or None when the topology has none of that name.

        Reads of a timestamped store, as all tables of the DSL have, give `ValueAndTimestamp`.
        """
        return self.get_all_state_stores().get(name)

    def get_key_value_store(self, name: str) -> PlainValues:
        """Return a key-value store that takes and gives plain values, timestamped or not.

        What is put into a timestamped one gets the timestamp -1, unknown.

        Raises:
            TopologyError: There is none of that name, or it is of another kind; below as well.
        """
        return self._stores.plain_values(name)

    def get_timestamped_key_value_store(self, name: str) -> TimestampedKeyValueStore[Any, Any]:
        """Return a timestamped key-value store, as all tables of the DSL have."""
        store: TimestampedKeyValueStore[Any, Any] = self._stores.of_form(
            name, "timestamped_key_value_store"
        )
        return store

    def get_versioned_key_value_store(self, name: str) -> VersionedKeyValueStore[Any, Any]:
        """Return a versioned store."""
        store: VersionedKeyValueStore[Any, Any] = self._stores.of_form(
            name, "versioned_key_value_store"
        )
        return store

    def get_window_store(self, name: str) -> PlainWindows:
        """Return a window store that takes and gives plain values, timestamped or not."""
        return self._stores.plain_windows(name)

    def get_timestamped_window_store(self, name: str) -> TimestampedWindowStore[Any, Any]:
        """Return a timestamped window store."""
        store: TimestampedWindowStore[Any, Any] = self._stores.of_form(
            name, "timestamped_window_store"
        )
        return store

    def get_session_store(self, name: str) -> SessionStore[Any, Any]:
        """Return a session store."""
        store: SessionStore[Any, Any] = self._stores.of_form(name, "session_store")
        return store

    def get_all_state_stores(self) -> dict[str, StateStore]:
        """Return all stores by name, global ones too."""
        stores = self._global_stores()
        for task in self._tasks:
            stores.update(task.state_manager.stores())
        return self._stores.as_read(stores)

    def _global_stores(self) -> dict[str, StateStore]:
        return {} if self._global_task is None else self._global_task.state.stores()

    @damage_told()
    def restore_stores(self, changelogs: Mapping[str, Sequence[ProducedRecord]]) -> None:
        """Fill stores as their changelogs would, before the first record is piped.

        Args:
            changelogs: Changelog records by store; those of stores without one are left alone.
        """
        for task in self._tasks:
            restore_stores(task.state_manager, changelogs)
            task.revive()
            task.state_manager.rebuild_all()
            task.start({}, self._now_ms)
        if self._tracer is not None:
            self._tracer.restored(changelogs)

    def close(self) -> None:
        """Close processors and stores."""
        self._closed = True
        for task in self._tasks:
            task.close()
        if self._global_task is not None:
            self._global_task.state.commit()
            self._global_task.close()
        self._event_loop.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    # ------------------------------------------------------------------ inside

    def _pipe(self, partition: TopicPartition, message: ConsumedMessage) -> None:
        """Process a record, which may be of any partition, and all that follows from it."""
        topic = partition.topic
        if self._closed:
            raise StreamsError(f"a record for {topic!r} comes too late: the driver was closed")
        if topic in self._plan.global_topics():
            self._fill(partition, message)
            return
        check_is_read(self._plan, topic)
        self._enqueue(partition, message)
        self._run()

    def _fill_nothing(self) -> GlobalTask:
        """Open the global stores."""
        settings = global_task_settings(self._config, self._settings())
        task = GlobalTask(self._plan, settings, dict.fromkeys(self._plan.global_topics(), 1))
        task.state.open(self._directory_of("global"))
        task.start(self._now_ms)
        return task

    def _fill(self, partition: TopicPartition, message: ConsumedMessage) -> None:
        """Let a global store have one more record of its topic."""
        assert self._global_task is not None, "there are global stores"
        self._global_task.take_partitions({partition.topic: partition.partition + 1})
        self._global_task.process(partition, [message], self._now_ms)
        self._capture_all(self._global_task.outputs())

    def _begin(self, subtopology: Subtopology) -> None:
        """Open and start a task; it is closed with the driver, also if it does not start."""
        topics = chain.from_iterable(part.topics for part in self._plan.sources_of(subtopology))
        read = [TopicPartition(self._plan.topic_name(topic), 0) for topic in topics]
        task_id, settings = TaskId(subtopology.id, 0), self._settings()
        task = StreamTask(task_id, self._plan, subtopology, read, settings, lambda _: 0)
        task.open(self._directory_of(str(task.task_id)))
        self._tasks.append(task)
        task.state_manager.rebuild_all()
        task.start({}, self._now_ms)

    def _directory_of(self, name: str) -> Path:
        temporary = self._temporary
        root = self._state_directory if temporary is None else Path(temporary.name)
        directory = (root or Path()) / name
        if root is not None:
            directory.mkdir(parents=True, exist_ok=True)
        return directory

    def _settings(self) -> TaskSettings:
        return driver_task_settings(
            self._config,
            in_memory=self._state_directory is None,
            event_loop=self._event_loop,
            global_stores=GlobalStores(lambda name: self._global_stores().get(name)),
            trace=None if self._tracer is None else self._tracer.step,
        )

    def _next_message(self, topic: str, record: ProducedRecord) -> StaticMessage:
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        return StaticMessage(topic, 0, offset, *record)

    def _enqueue(self, partition: TopicPartition, message: ConsumedMessage) -> None:
        part = self._plan.subtopology_of_topic(partition.topic)
        assert part is not None, "only topics the topology reads are enqueued"
        task = self._tasks[self._plan.subtopologies.index(part)]
        task.time.go_on(self._now_ms)
        task.take_partition(partition)
        task.add_records(partition, [message])
        self._capture_all(task.outputs())

    def _run(self) -> None:
        """Process record by record until nothing is ready, committing after each.

        With `max.task.idle.ms` above 0 records wait while another topic of their task is empty,
        until the wall clock has moved on by so much.
        """
        progress = True
        while progress:
            progress = False
            for task in self._tasks:
                waits = task.unfinished or task.buffered_records()
                if not waits or not task.ready(self._now_ms) or not (run := task.next_run(1)):
                    continue
                task.process(run)
                task.punctuate_stream_time()
                self._commit(task)
                progress = True

    def _commit(self, task: StreamTask) -> None:
        task.settle()
        if task.held.retry_at_ms is None:
            self._capture_all(task.outputs())
            task.post_commit()

    def _capture_all(self, outputs: Sequence[OutputBuffer]) -> None:
        for output in outputs:
            if output.records:
                self._capture(output)

    def _capture(self, output: OutputBuffer) -> None:
        topic, records = output.topic, list(output.records)
        output.records.clear()
        if self._tracer is not None:
            self._tracer.left(topic, records)
        output.last_offset = self._offsets.get(topic, 0) + len(records) - 1
        self._produced.setdefault(topic, []).extend(records)
        take = self._reader_of(topic)
        if take is None:
            self._offsets[topic] = output.last_offset + 1
            return
        for record in records:
            take(TopicPartition(topic, 0), self._next_message(topic, record))

    def _reader_of(self, topic: str) -> Callable[[TopicPartition, ConsumedMessage], None] | None:
        """Return what takes a record that was written to a topic; None where nothing does."""
        if topic in self._plan.global_topics():
            return self._fill
        return None if self._plan.source_of_topic(topic) is None else self._enqueue
