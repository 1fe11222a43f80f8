"""One process of an application under simulation: its stream threads, driven step by step.

    process = SimulatedProcess(topology, config, broker, disk)
    process.start()
    while ...:
        process.step(0)            # one iteration of its first stream thread
    process.crash_in(40)           # kill -9 at the 40th call from here
    ...
    process.start()                # again, with what the disk has left
    process.stop()

The threads are the real `StreamThread`s; broker, disk and time are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pystreams.config import Source, StreamsConfig
from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition
from pystreams.metrics import OnDemand
from pystreams.runtime.core.global_stores import GlobalStores
from pystreams.runtime.core.global_task import GlobalTask
from pystreams.runtime.loop.global_stream_thread import GlobalStreamThread
from pystreams.runtime.loop.membership.application_shutdown import ApplicationShutdown
from pystreams.runtime.loop.stream_thread import StreamThread
from pystreams.runtime.settings import (
    ThreadSettings,
    global_task_settings,
    recording_of,
    task_settings,
)
from pystreams.runtime.tasks.thread_parts import ProcessIdentity, ThreadParts
from pystreams.runtime.topics.application_topics import TopicManager
from pystreams.runtime.topics.input_topics import InputTopics
from pystreams.stores.contracts.key_value import StateStore
from pystreams.stores.contracts.spec import StoreEngine
from pystreams.stores.store_builder import StoreBuilder
from pystreams.testing.simulation.broker import SimulatedBroker
from pystreams.testing.simulation.calls import InlineCalls
from pystreams.testing.simulation.clients import SimulatedClients
from pystreams.testing.simulation.clock import InlineExecutor, ManualEvent
from pystreams.testing.simulation.disk import SimulatedDirectories, SimulatedDisk, SimulatedEngine
from pystreams.testing.simulation.faults import Lifeline, SimulatedCrash
from pystreams.topology.contracts.held_records import AsyncCalls
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan


class SimulatedGlobalState(NamedTuple):
    """What a process holds of its global stores.

    Attributes:
        thread: The loop that owns them, driven by the process.
    """

    task: GlobalTask
    thread: GlobalStreamThread


class SimulatedProcess:
    """A process that can crash at any call and start again.

    Args:
        config: Its configuration; `bootstrap.servers` has a default here.
        process_id: Its identity, the same after a restart.
        real_stores: Whether stores lie on the real disk, in the simulated one's directory; such
            a process is only stopped in order.
        make_clients: Makes the clients of a life.

    Attributes:
        process_id: Its identity; another one is that of its next start.
        threads: Its stream threads while it runs.
        global_state: What it holds of its global stores, if there are any, while it runs.
        clients: What made the clients of this life.
        crashes: How often it has crashed.
        newcomer: Whether its next start looks before it joins the group, as that of a process which
            finds no identity on its disk.
        nodes: Until when the time of nodes is measured.
        told_to_end: What another process has ended it with (`SHUTDOWN_APPLICATION`), or None.
        make_waiting_pool: Makes what runs calls to the broker beside the threads of its next life.
        async_calls: Makes what makes the asynchronous calls of each task of its next life.
    """

    def __init__(
        self,
        topology: Topology,
        config: Mapping[str, Any],
        broker: SimulatedBroker,
        disk: SimulatedDisk,
        process_id: str = "process",
        *,
        real_stores: bool = False,
        make_clients: Callable[[SimulatedBroker, Lifeline], SimulatedClients] = SimulatedClients,
    ) -> None:
        stand_ins = {"bootstrap.servers": "simulated:9092"}
        self._config = StreamsConfig.from_sources([Source("", config), Source("", stand_ins)])
        self.plan = TopologyPlan(topology, self._config.application_id)
        self.process_id = process_id
        self.disk = disk
        self.threads: list[StreamThread] = []
        self.global_state: SimulatedGlobalState | None = None
        self.crashes = 0
        self.nodes = OnDemand()
        self.told_to_end: StreamsError | None = None
        self._lives = 0
        self._warming: set[str] = set()
        self._held_back: set[str] = set()
        self._broker = broker
        self.newcomer = False
        self.make_waiting_pool: Callable[[], Executor] = InlineExecutor
        self.async_calls: Callable[[], AsyncCalls] = partial(InlineCalls, broker.clock)
        self._real_stores = real_stores
        self._lifeline = Lifeline(process_id, broker.faults)
        self._make_clients = make_clients
        self.clients = make_clients(broker, self._lifeline)

    # ------------------------------------------------------------------ life

    @property
    def running(self) -> bool:
        """Whether it has started and neither crashed nor stopped."""
        return bool(self.threads)

    def start(self) -> None:
        """Create missing internal topics, fill the global stores, then start all threads.

        Raises:
            FatalStreamsError: As the client: what it has read is of another source topic.
        """
        assert not self.threads, "it runs already"
        self._lives += 1
        self.told_to_end = None
        self._lifeline = Lifeline(self.process_id, self._broker.faults)
        self.clients = self._make_clients(self._broker, self._lifeline)
        partitions = plan_partitions(self.plan, self._broker.partition_counts())
        for topic in self.plan.repartition_topics():
            self._broker.create_topic(topic, partitions.num_partitions[topic])
        for part in self.plan.subtopologies:
            for builder in self.plan.logged_stores(part):
                changelog = self.plan.changelog_topic(builder.name)
                self._broker.create_topic(changelog, partitions.num_tasks[part.id])
        self._topics = TopicManager(self.plan, self.clients.admin(), {}, 0)
        accepted = self._config.accepted_source_topic_ids
        self._input_topics = InputTopics(
            self.plan, self.clients.admin(), accepted, exactly_once=self._config.exactly_once
        )
        self._input_topics.prepare(partitions.num_partitions)
        try:
            self._fill_global_stores(partitions.num_partitions)
        except SimulatedCrash:
            self._die()
            return
        self._warming, self._held_back = set(), set()
        self.threads = [
            StreamThread(index, self._parts(index, partitions.num_partitions))
            for index in range(1, self._config.num_stream_threads + 1)
        ]
        self.newcomer = False
        for thread in self.threads:
            thread.join_group()

    def step(self, index: int = 0) -> int:
        """Run one iteration of one thread.

        A process that another one tells to end stops.

        Returns:
            How many records it processed; 0 if the process crashed in it.

        Raises:
            StreamsError: The thread failed. All threads are shut down, as the client does.
        """
        thread = self.threads[index]
        try:
            if self.global_state is not None:
                self.global_state.thread.run_once()
            processed = thread.run_once()
        except SimulatedCrash:
            self._die()
            return 0
        except StreamsError as error:
            thread.error = error
            self.stop()
            raise
        if self.told_to_end is not None:
            self.stop(leave_group=True)
        return processed

    def shut_down_application(self) -> ApplicationShutdown:
        """Stop, and ask the other processes to: step what is returned until it is over."""
        name = self.threads[0].name
        self.stop(leave_group=True)
        request = ApplicationShutdown(name, self._parts(0, self._broker.partition_counts()))
        request.begin()
        return request

    def crash_in(self, calls: int | None) -> None:
        """Crash at the call of a port or a disk after this many others; None takes it back."""
        self._lifeline.crash_in(calls)

    def crash_at(self, call: str) -> None:
        """Crash at the next call whose line in the trace contains this text."""
        self._lifeline.crash_at(call)

    def stand_still(self, where: int | str, meanwhile: Callable[[], None] | None) -> None:
        """Stand still once, see `Lifeline.stand_still`; others do nothing to this process then."""
        self._lifeline.stand_still(where, meanwhile)

    def crash(self) -> None:
        """Crash now, between two calls."""
        self._lifeline.alive = False
        self._die()

    def stop(self, *, leave_group: bool | None = None) -> None:
        """Stop all threads in order: commit, close, leave the group as `KafkaStreams.close`."""
        try:
            for thread in self.threads:
                thread.stop(leave_group=leave_group)
                thread.shut_down()
            if self.global_state is not None:
                self.global_state.thread.stop()
                self.global_state.thread.shut_down()
        except SimulatedCrash:
            self._die()
        self.threads = []
        self.global_state = None

    def restored_records(self) -> int:
        """Return how many changelog records were restored in this life."""
        return sum(consumer.restored for consumer in self.clients.restore_consumers)

    def _die(self) -> None:
        self.crashes += 1
        self.threads = []
        self.global_state = None
        self.disk.crash()

    # ------------------------------------------------------------------ wiring

    def _fill_global_stores(self, partition_counts: Mapping[str, int]) -> None:
        if self.plan.global_subtopologies:
            parts = self._parts(0, partition_counts)
            settings = global_task_settings(self._config, parts.task_settings)
            task = GlobalTask(self.plan, settings, self._broker.partition_counts())
            stop = ManualEvent(self._broker.clock)
            look_interval_ms = self._config.metadata_max_age_ms
            thread = GlobalStreamThread(task, parts, look_interval_ms=look_interval_ms, stop=stop)
            self.global_state = SimulatedGlobalState(task, thread)
            thread.fill()

    def _global_store(self, name: str) -> StateStore | None:
        return None if self.global_state is None else self.global_state.task.state.stores()[name]

    def _parts(self, index: int, partition_counts: Mapping[str, int]) -> ThreadParts:
        counts = dict(partition_counts)

        def counts_of(assigned: Iterable[TopicPartition]) -> Mapping[str, int]:
            if any(part.partition >= counts.get(part.topic, 0) for part in assigned):
                recount()
            return counts

        def recount() -> None:
            self._broker.faults.maybe_fail("partition_counts")
            counts.clear()
            found = plan_partitions(self.plan, self._broker.partition_counts())
            counts.update(found.num_partitions)

        return ThreadParts(
            plan=self.plan,
            task_settings=task_settings(
                self._config,
                num_partitions=self._topics.num_partitions,
                async_calls=self.async_calls,
                build=self._build,
                recording=recording_of(self._config, self._broker.clock, self.nodes),
                offset_entries=self._input_topics.entries,
                global_stores=GlobalStores(self._global_store),
            ),
            settings=ThreadSettings.of(
                self._config, global_stores=bool(self.plan.global_subtopologies)
            ),
            clients=self.clients,
            admin=self.clients.admin(),
            input_topics=self._input_topics,
            directories=SimulatedDirectories(
                self.disk, self._lifeline, f"{self.process_id}-{index}"
            ),
            clock=self._broker.clock,
            identity=replace(
                ProcessIdentity.of(
                    self._config,
                    self.process_id,
                    kept=self._lives > 1,
                    directory_id=self.disk.directory_id,
                ),
                newcomer=self.newcomer,
            ),
            partition_counts=counts_of,
            recount=recount,
            shut_down=self._end,
            warming=self._warming,
            held_back=self._held_back,
            make_stop_event=partial(ManualEvent, self._broker.clock),
            make_waiting_pool=self.make_waiting_pool,
        )

    def _end(self, error: StreamsError) -> None:
        self.told_to_end = error

    def _build(self, builder: StoreBuilder) -> StateStore:
        """Put a simulated engine under each store but those in memory."""
        if self._real_stores or builder.engine is StoreEngine.IN_MEMORY:
            return builder.build()
        lifeline = self._lifeline
        segmented = builder.store_kind.segmented

        def engine(name: str) -> SimulatedEngine:
            faults = self._broker.faults
            return SimulatedEngine(name, self.disk, lifeline, faults, segmented=segmented)

        return builder.over(engine).build()
