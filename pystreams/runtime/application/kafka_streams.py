"""`KafkaStreams`: one application instance, its threads and its state.

A supervisor thread prepares topics and global stores, starts the stream threads, removes state of
tasks that moved away while it waits for them, and closes what they shared. When a thread fails, the
others are stopped, unless the program has it replaced (`ThreadRunner`).
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, Self, TypeVar

from pystreams.config import GroupProtocol, StreamsConfig
from pystreams.errors import NO_ANSWER, StreamsError, as_streams_error
from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.user_tracebacks import traceback_field
from pystreams.metrics import MetricName, MetricValue
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.adapters.event_loop import EventLoop
from pystreams.runtime.adapters.prometheus_endpoint import PrometheusEndpoint
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.runtime.application.client_metrics import Lives, client_metrics
from pystreams.runtime.application.client_state import State
from pystreams.runtime.application.discovering import SUPERVISOR_NAME
from pystreams.runtime.application.discovery import Discovery
from pystreams.runtime.application.global_state import GlobalState
from pystreams.runtime.application.querying import QueryingClient
from pystreams.runtime.application.uncaught_errors import ThreadRunner
from pystreams.runtime.cluster.newcomer_place import id_of_newcomer
from pystreams.runtime.core.failures.error_handlers import handler_of, log_and_fail
from pystreams.runtime.loop.reports.statistics import Statistics, total
from pystreams.runtime.loop.stream_thread import StreamThread
from pystreams.runtime.maintenance.earlier_topology import EarlierTopology
from pystreams.runtime.maintenance.state_cleaner import StateCleaner
from pystreams.runtime.ports import AdminPort, ClientFactory
from pystreams.runtime.settings import ThreadSettings, recording_of, task_settings
from pystreams.runtime.tasks.thread_parts import ProcessIdentity, ThreadParts
from pystreams.runtime.topics.application_topics import TopicManager
from pystreams.runtime.topics.input_topic_watch import TopicWatch
from pystreams.runtime.topics.input_topics import InputTopics
from pystreams.runtime.topics.internal_topic_ids import InternalTopicIds
from pystreams.stores.engines.rocksdb import MEMORY
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.configuration_check import check_configured
from pystreams.topology.plan.partition_plan import PartitionPlan
from pystreams.topology.plan.topology_plan import TopologyPlan

_log = get_logger("pystreams.client")

R = TypeVar("R")


class KafkaStreams(QueryingClient):
    """Runs a topology.

    `start` returns at once; `wait` blocks until the application has stopped; `close` stops it.
    All methods may be called from any thread. An instance is started once. As a context manager
    it is started and closed, and raises what stopped it:

        with KafkaStreams(topology, config) as streams:
            streams.wait()  # Until SIGTERM or Ctrl-C, or an error.

    Its log lines go to `logging.getLogger("pystreams")`, which prints none by itself, or to
    structlog where the program has configured that.

    Args:
        config: The configuration: a `StreamsConfig`, or a mapping of Kafka's dotted names.
        clients: Makes Kafka clients; the real ones when None.
        clock: The clock; the machine's when None.
        restarts: How often this process was killed and started again, for its metrics: who starts
            it knows.

    Raises:
        ConfigError: The configuration is wrong.
        TopologyError: The topology can't run.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig | Mapping[str, Any],
        *,
        clients: ClientFactory | None = None,
        clock: Clock | None = None,
        restarts: int = 0,
    ) -> None:
        checked = config if isinstance(config, StreamsConfig) else StreamsConfig.of(config)
        super().__init__(checked, TopologyPlan(topology, checked.application_id), clock)
        check_configured(topology, self._config)
        listener = self._dead_letters.note
        self._clients = clients or ConfluentClients(self._config, self._clock, listener)
        self._client_id = self._config.client_id or self._config.application_id
        self._global = GlobalState(self._plan, self._fail)
        self._running_threads: list[threading.Thread] = []
        self._event_loop = EventLoop()
        self._endpoint = PrometheusEndpoint(self.metrics)
        self._supervisor = threading.Thread(target=self._supervise, name=SUPERVISOR_NAME)
        self._stop = threading.Event()
        self._error: StreamsError | None = None
        self._runner: ThreadRunner | None = None
        self._restarts = restarts
        self._directory: StateDirectory | None = None

    @property
    def config(self) -> StreamsConfig:
        """The configuration."""
        return self._config

    @property
    def topology(self) -> Topology:
        """What it runs."""
        return self._plan.topology

    @property
    def error(self) -> StreamsError | None:
        """What stopped the application, or None."""
        return self._error

    @property
    def state(self) -> State:
        """Where the application is in its life."""
        if not self._started:
            return State.CREATED
        if self._finished.is_set():
            return State.ERROR if self._error else State.NOT_RUNNING
        if self._error is not None:
            return State.PENDING_ERROR
        if self._stop.is_set():
            return State.PENDING_SHUTDOWN
        started = bool(self._threads) or self._global.is_all
        settled = started and all(thread.settled for thread in self._threads)
        return State.RUNNING if settled else State.REBALANCING

    def start(self) -> None:
        """Start the threads; returns at once.

        Raises:
            ConfigError: Metrics can't be served where `metrics.prometheus.port` says.
            StreamsError: It was started before, or the machine starts no more threads.
        """
        if self._started:
            raise StreamsError("this KafkaStreams was started before: make a new one")
        config = self._config
        if config.metrics_prometheus_port >= 0:
            self._endpoint.start(config.metrics_prometheus_host, config.metrics_prometheus_port)
        self._started, self._started_in = True, os.getpid()
        try:
            self._watch_program()
            self._begin_listening()
            self._supervisor.start()
        except RuntimeError as error:
            self._error = as_streams_error(error)
            self._end()
            raise self._error from error

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Commit and stop; raise what has stopped it by itself, unless the block raises."""
        self.close()
        if self._error is not None and kind is None:
            raise self._error

    def close(self, timeout_s: float | None = None, *, leave_group: bool | None = None) -> bool:
        """Commit and stop; return whether that is done: `unfinished_threads` tells what is not.

        A static member, as with `group.protocol=classic`, stays in its group until its session
        ends, so that a restart gets its partitions back at once: one whose state directory was
        there when it started, or that has a `group.instance.id` of its own. Others leave.

        A child process (`os.fork`) of the one that has started it closes nothing but its own copies
        of the locks, and gets False at once: so does `wait` there.

        Args:
            timeout_s: How long to wait for it (s); None for as long as it takes, 0 not at all.
            leave_group: True leaves the group, False stays in it where that can be; None as above.
        """
        if self._is_forked:
            if self._directory is not None:
                self._directory.close_copies()
            return False
        self._stop.set()
        for thread in self._threads:
            thread.stop(leave_group=leave_group)
        self._global.stop_filling()
        if not self._started:
            self._finished.set()
        return self.wait(timeout_s)

    def statistics(self) -> Statistics:
        """Return the application's numbers; approximate while it runs."""
        return total(self.state.value, [thread.statistics() for thread in self._threads])

    def metrics(self) -> Mapping[MetricName, MetricValue]:
        """Return all metrics as they are now, with Kafka's names; docs/metrics.md lists them.

        A new mapping each time. What a task or store measured goes with it when it moves away.
        """
        state = self.state
        threads = list(self._threads)
        metrics = client_metrics(
            self._config,
            self._client_id,
            state=(state.value, list(State).index(state)),
            lives=Lives(
                sum(running.is_alive() for running in self._running_threads),
                sum(thread.error is not None for thread in threads)
                + (self._runner.replaced if self._runner else 0),
                self._restarts,
            ),
            watchdog=self._watchdog,
            dead_letters=self._dead_letters.by_stage(),
        )
        for thread in threads:
            metrics.update(thread.metrics())
        metrics.update(self._global.metrics())
        return metrics

    # ------------------------------------------------------------------ supervisor

    def _supervise(self) -> None:
        try:
            self._watchdog.start(lambda: [*self._threads, *self._global.threads], self._finished)
            self._run()
        except Exception as error:  # noqa: BLE001 - kept for the user, whatever it is
            known = as_streams_error(error)
            if told := traceback_field(known):
                _log.error("application failed", error=str(known), **told)
            if not (self._stop.is_set() and isinstance(known, NO_ANSWER)):
                self._error = self._error or known
        finally:
            self._end()

    def _end(self) -> None:
        self._endpoint.close()
        self._finished.set()

    def _state_directory(self) -> StateDirectory:
        config = self._config
        return StateDirectory(config.state_dir, config.application_id, config.application_server)

    def _run(self) -> None:
        config = self._config
        cache_bytes = config.statestore_rocksdb_block_cache_bytes
        MEMORY.configure(cache_bytes, config.statestore_rocksdb_write_buffer_bytes)
        self._directory = directory = self._state_directory()
        try:
            earlier = EarlierTopology(directory, self._plan, config)
            earlier.check()
            admin = self._clients.admin(self._stop.is_set)
            topics = TopicManager(
                self._plan,
                admin,
                config.topic_config(),
                config.windowstore_changelog_additional_retention_ms,
                dead_letter_queue=config.dead_letter_queue,
                # A handler of the user's may have an answer to a topic that is missing.
                needs_sinks=handler_of(config.production_exception_handler) is log_and_fail,
            )
            partitions = topics.prepare_at_start(self._stop, self._clock)
            earlier.learn(partitions)
            self._topics = topics
            self._discovery = Discovery(self._plan, config, admin, topics, self._clock)
            inputs = self._inputs(earlier, admin)
            internal = InternalTopicIds(self._plan, admin)
            watch = TopicWatch(inputs, internal, topics.partition_counts, self._stop)
            watch.prepare()
            if not self._stop.is_set():
                earlier.keep()
            _log.info(
                "starting",
                application=config.application_id,
                guarantee=config.processing_guarantee.value,
                tasks=len(partitions.task_ids()),
                threads=config.num_stream_threads,
                state_directory=str(directory.directory),
            )
            self._take_place(directory, admin, partitions)
            process = self._identify(directory, self._discovery.topology_digest)
            parts = ThreadParts(
                plan=self._plan,
                task_settings=task_settings(
                    config,
                    num_partitions=topics.num_partitions,
                    async_calls=self._event_loop.calls,
                    recording=recording_of(config, self._clock, self._nodes),
                    offset_entries=inputs.entries,
                    global_stores=self._global.stores,
                ).telling(self._dead_letters.note),
                settings=ThreadSettings.of(config, global_stores=self._global.wanted),
                clients=self._clients,
                admin=admin,
                input_topics=inputs,
                directories=directory,
                clock=self._clock,
                identity=process,
                partition_counts=topics.partition_counts,
                recount=topics.prepare,
                paused=self._paused,
                restore_listener=self._restore_listener,
                shut_down=partial(self._fail, leave_group=True),
            )
            cleaner = StateCleaner(directory, config.state_cleanup_delay_ms, self._clock)
            cleaner.clean_at_start(config.state_cleanup_dir_max_age_ms)
            watch.start(config.metadata_max_age_ms, self._fail)
            if self._global.fill(config, parts, topics.global_counts):
                self._run_threads(parts, cleaner)
        finally:
            self._global.close(self._error)
            self._event_loop.close()
            directory.close()

    def _inputs(self, earlier: EarlierTopology, admin: AdminPort) -> InputTopics:
        config = self._config
        return InputTopics(
            self._plan,
            admin,
            config.accepted_source_topic_ids,
            earlier.note(self._clock.now_ms(), config.num_standby_replicas, admin),
            earlier.last_topology(admin),
            exactly_once=config.exactly_once,
        )

    def _take_place(
        self, directory: StateDirectory, admin: AdminPort, partitions: PartitionPlan
    ) -> None:
        """Take an identity with which few tasks move, where this process has none yet."""
        config, plan = self._config, self._plan
        stateful = [part.id for part in plan.subtopologies if plan.logged_stores(part)]
        free = not (directory.kept_identity or config.group_instance_id)
        if not (free and stateful and config.group_protocol is GroupProtocol.CLASSIC):
            return
        try:
            group = admin.describe_group(plan.application_id).result()
        except StreamsError as error:
            _log.debug("any place in the group is taken: it can't be looked at", why=str(error))
            return
        process_id = id_of_newcomer(
            group.members,
            plan.application_id,
            config.num_stream_threads,
            [partitions.num_tasks[part] for part in stateful],
            secrets.randbelow,
        )
        if process_id is not None:
            directory.rename(process_id)

    def _identify(self, directory: StateDirectory, topology_digest: str) -> ProcessIdentity:
        """Return who this process is, from now on, to the group and the broker."""
        process = ProcessIdentity.of(
            self._config,
            directory.process_id,
            kept=directory.kept_identity,
            topology_digest=topology_digest,
            directory_id=directory.directory_id(),
        )
        self._client_id = process.client_id
        return process

    def _run_threads(self, parts: ThreadParts, cleaner: StateCleaner) -> None:
        count = 0 if self._global.is_all else self._config.num_stream_threads
        self._threads = [StreamThread(index, parts) for index in range(1, count + 1)]
        self._runner = runner = ThreadRunner(
            self._threads, parts, self._uncaught_handler, self._stop, self._fail
        )
        self._running_threads = running = [
            threading.Thread(target=runner.run, args=(number,), name=thread.name)
            for number, thread in enumerate(self._threads)
        ]
        for number, thread in enumerate(running):
            try:
                thread.start()
            except RuntimeError as error:
                self._fail(as_streams_error(error))
                for unstarted in self._threads[number:]:
                    unstarted.shut_down()
                break
        if self._stop.is_set():
            self.close(0)
        if self._global.is_all:
            self._stop.wait()
        for thread in running:
            while thread.is_alive():
                thread.join(cleaner.interval_s)
                cleaner.maybe_clean(running=self.state is State.RUNNING)

    def _fail(self, error: StreamsError, leave_group: bool | None = None) -> None:  # noqa: FBT001
        self._error = self._error or error
        self.close(0, leave_group=leave_group)
