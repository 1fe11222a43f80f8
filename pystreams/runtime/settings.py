"""What threads and tasks are given of the configuration: the values they use, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pystreams.config import GroupProtocol, ProcessingGuarantee, StreamsConfig
from pystreams.config.buffer_shares import input_share
from pystreams.config.client_overrides import max_poll_interval_ms, session_timeout_ms
from pystreams.config.clients import is_idempotent
from pystreams.config.shown_values import values_by_key
from pystreams.kernel.clock import Clock
from pystreams.metrics import AT_INFO, OnDemand, Recording
from pystreams.runtime.cluster.committed_offsets import OffsetEntries, no_entries
from pystreams.runtime.core.failures.error_handlers import handler_of, log_and_fail
from pystreams.runtime.core.global_stores import GlobalStores
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.state.bytes_ledger import BytesLedger
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.stores.accounting.read_cache import ReadCacheBudget
from pystreams.stores.contracts.key_value import StateStore
from pystreams.stores.contracts.state_store import StoreEnvironment
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.contracts.extractors import BY_NAME as EXTRACTORS
from pystreams.topology.contracts.held_records import AsyncCalls
from pystreams.topology.contracts.operator import OperatorSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSettings:
    """How a thread is a member of its group.

    Attributes:
        static: Whether revoked tasks are kept until the next assignment (the classic protocol,
            which revokes all before it assigns).
        session_timeout_ms: How long a member stays one without a heartbeat.
        max_poll_interval_ms: How long a member may process between two polls.
    """

    static: bool
    session_timeout_ms: int
    max_poll_interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PollSettings:
    """How a thread reads.

    Attributes:
        poll_ms: How long to wait for records when there is nothing to do.
        max_poll_records: How many records one poll may return.
        buffered_records_per_partition: Above so many waiting records a partition is paused.
        waiting_max_bytes: Above so many bytes of waiting records all partitions that have some
            are paused.
        max_task_idle_ms: How long a task waits for a partition that has nothing.
    """

    poll_ms: int
    max_poll_records: int
    buffered_records_per_partition: int
    waiting_max_bytes: int
    max_task_idle_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    """A thread's share of the application's memory.

    Attributes:
        uncommitted_max_bytes: What stores may hold uncommitted, -1 for no limit.
        cache_max_bytes: What record caches may hold back.
        read_cache_max_bytes: What may be kept of values read or written lately.
    """

    uncommitted_max_bytes: int
    cache_max_bytes: int
    read_cache_max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSettings:
    """Values for one stream thread.

    Attributes:
        task_timeout_ms: How long a task may fail to make progress.
        repartition_purge_interval_ms: How often repartition topics are purged.
        log_summary_interval_ms: How often a summary is logged; below 1 for never.
        standby_replicas: How many processes keep each task of another one warm.
        acceptable_recovery_lag: How many records a task may have to restore when it moves to a
            process that comes.
        threads: How many threads the process has, this one included.
        idempotent: Whether no producer writes a record twice.
    """

    guarantee: ProcessingGuarantee
    membership: MembershipSettings
    polls: PollSettings
    memory: MemoryLimits
    commit_interval_ms: int
    task_timeout_ms: int
    repartition_purge_interval_ms: int
    log_summary_interval_ms: int
    standby_replicas: int = 0
    acceptable_recovery_lag: int = 10_000
    threads: int = 1
    idempotent: bool = True

    @classmethod
    def of(cls, config: StreamsConfig, *, global_stores: bool = False) -> ThreadSettings:
        """Take a thread's values from the application's configuration.

        Args:
            global_stores: Whether there is a thread for global stores, which has a share, too.
        """
        threads = config.num_stream_threads
        limit = config.statestore_uncommitted_max_bytes
        sharing = threads + 1 if global_stores else threads
        return cls(
            guarantee=config.processing_guarantee,
            membership=MembershipSettings(
                static=config.group_protocol is GroupProtocol.CLASSIC,
                session_timeout_ms=session_timeout_ms(config.overrides, config.group_protocol),
                max_poll_interval_ms=max_poll_interval_ms(config.overrides),
            ),
            polls=PollSettings(
                poll_ms=config.poll_ms,
                max_poll_records=config.max_poll_records,
                buffered_records_per_partition=config.buffered_records_per_partition,
                waiting_max_bytes=input_share(config.input_buffer_max_bytes, threads).waiting_bytes,
                max_task_idle_ms=config.max_task_idle_ms,
            ),
            memory=MemoryLimits(
                uncommitted_max_bytes=limit if limit < 0 else limit // sharing,
                cache_max_bytes=config.statestore_cache_max_bytes // threads,
                read_cache_max_bytes=config.statestore_read_cache_max_bytes // threads,
            ),
            commit_interval_ms=config.commit_interval_ms,
            task_timeout_ms=config.task_timeout_ms,
            repartition_purge_interval_ms=config.repartition_purge_interval_ms,
            log_summary_interval_ms=config.log_summary_interval_ms,
            standby_replicas=config.num_standby_replicas,
            acceptable_recovery_lag=config.acceptable_recovery_lag,
            threads=threads,
            idempotent=is_idempotent(config),
        )


def build_as_asked(builder: StoreBuilder) -> StateStore:
    """Make the store its builder describes."""
    return builder.build()


def recording_of(config: StreamsConfig, clock: Clock, nodes: OnDemand) -> Recording:
    """Return how metrics are recorded, timed by a clock; and the time of nodes on demand."""
    return Recording(
        config.metrics_recording_level,
        config.metrics_sample_window_ms,
        config.metrics_num_samples,
        clock.monotonic_ms,
        nodes,
    )


def task_settings(
    config: StreamsConfig,
    *,
    num_partitions: Callable[[str], int],
    async_calls: Callable[[], AsyncCalls],
    build: Callable[[StoreBuilder], StateStore] = build_as_asked,
    recording: Recording = AT_INFO,
    offset_entries: OffsetEntries = no_entries,
    global_stores: GlobalStores | None = None,
) -> TaskSettings:
    """Take the values all tasks share from the application's configuration.

    Args:
        num_partitions: Returns the partition count of a topic by its real name.
        build: Makes stores; a test driver or simulation puts other engines in their place.
        offset_entries: Gives what is committed with an offset.
        global_stores: Those of the process, if there are any.
    """
    extractor = config.default_timestamp_extractor
    queue = config.errors_dead_letter_queue_topic_name
    return TaskSettings(
        timestamp_extractor=EXTRACTORS[extractor] if isinstance(extractor, str) else extractor,
        deserialization_handler=handler_of(config.deserialization_exception_handler, queue),
        processing_handler=handler_of(config.processing_exception_handler, queue),
        production_handler=handler_of(config.production_exception_handler, queue),
        max_task_idle_ms=config.max_task_idle_ms,
        stores=StoreSettings(
            StoreEnvironment(
                application_id=config.application_id,
                exactly_once=config.processing_guarantee.exactly_once,
                default_key_serde=config.default_key_serde,
                default_value_serde=config.default_value_serde,
                cache_enabled=config.statestore_cache_max_bytes > 0,
                rocksdb_config_setter=config.rocksdb_config_setter,
            ),
            build=build,
            recording=recording,
            changelog_loss_policy=config.changelog_loss_policy,
            additional_retention_ms=config.windowstore_changelog_additional_retention_ms,
        ),
        num_partitions=num_partitions,
        async_calls=async_calls,
        operators=_operator_settings(config),
        offset_entries=offset_entries,
        global_stores=global_stores or GlobalStores(),
        app_configs=values_by_key(config),
    )


def global_task_settings(config: StreamsConfig, settings: TaskSettings) -> TaskSettings:
    """Return what global stores are filled with; the processing handler is asked if it is to."""
    if config.processing_exception_handler_global_enabled:
        return settings
    return replace(settings, processing_handler=log_and_fail)


def _operator_settings(config: StreamsConfig) -> OperatorSettings:
    max_call_ms, key = max_poll_interval_ms(config.overrides), "consumer.max.poll.interval.ms"
    if config.processing_guarantee.exactly_once and config.transaction_timeout_ms < max_call_ms:
        max_call_ms, key = config.transaction_timeout_ms, "producer.transaction.timeout.ms"
    # The transaction may be as old as this when a record comes that fails.
    before_ms = config.commit_interval_ms if config.processing_guarantee.exactly_once else 0
    max_retry_ms = max(max_call_ms * 4 // 5 - before_ms, max_call_ms // 10)
    return OperatorSettings(
        outer_join_emit_interval_ms=config.outer_join_emit_interval_ms,
        window_emit_interval_ms=config.window_emit_interval_ms,
        max_call_ms=max_call_ms,
        max_call_key=key,
        max_retry_ms=max_retry_ms,
    )


def of_one_thread(settings: TaskSettings, read_cache_max_bytes: int) -> TaskSettings:
    """Return the settings of a thread's tasks: its stores share a ledger, and a read cache."""
    budget = ReadCacheBudget(read_cache_max_bytes)
    environment = replace(settings.stores.environment, read_cache_budget=budget)
    stores = replace(settings.stores, environment=environment, ledger=BytesLedger())
    return replace(settings, stores=stores)
