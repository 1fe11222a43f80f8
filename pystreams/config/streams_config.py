"""`StreamsConfig`: every key with its kind, default and meaning, and the values of one run.

The class body is the single source: parsing, `pystreams config` and docs/reference/configuration.md
all read the definitions its fields carry. Keys are Kafka's, with underscores for dots. Defaults are
Kafka's; where one differs, its text says why.
"""

# ruff: noqa: RUF009 - `key` makes a dataclass field, like `dataclasses.field`, which it calls.

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pystreams.config import client_overrides
from pystreams.config.builtin_functions import DEAD_LETTER_QUEUE, EXTRACTOR, HANDLER
from pystreams.config.definitions import REQUIRED, Importance, definitions_of, key
from pystreams.config.guarantee import (
    ChangelogLossPolicy,
    GroupProtocol,
    IsolationLevel,
    ProcessingGuarantee,
    TopologyOptimization,
)
from pystreams.config.kinds import (
    ADDRESS,
    BOOLEAN,
    PATH,
    SERDE,
    SERVERS,
    callable_or_name,
    one_of,
    some_of,
    text,
    whole_number,
)
from pystreams.config.resolution import Source, entries_of, resolve
from pystreams.metrics import RecordingLevel
from pystreams.serdes import Serde

Handler = str | Callable[..., Any]
"""The name of a built-in one, or the user's function."""

_MEBIBYTE = 1 << 20
_MILLISECONDS = whole_number(0)
_CLIENT_MILLISECONDS = whole_number(0, 2**31 - 1)
_SOCKET_BUFFER = whole_number(-1, 100_000_000)
_SECURITY_PROTOCOL = text(
    "(?i:plaintext|ssl|sasl_plaintext|sasl_ssl)",
    valid="PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
)
_HIGH = Importance.HIGH
_MEDIUM = Importance.MEDIUM


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsConfig:
    """The configuration of one application, checked and immutable. Made by `of`, never by hand."""

    application_id: str = key(
        text(r"(?!\.{1,2}$)[a-zA-Z0-9._-]+", valid="letters, digits, '.', '_' and '-'"),
        REQUIRED,
        """Names the application: its consumer group, its state directory, and the prefix of its
        internal topics and transactional ids. Changing it starts a new application.""",
        importance=_HIGH,
    )
    bootstrap_servers: str = key(
        SERVERS,
        REQUIRED,
        "The brokers to connect to first; the others are found through them.",
        importance=_HIGH,
    )
    processing_guarantee: ProcessingGuarantee = key(
        one_of(ProcessingGuarantee, {"exactly_once_beta": "use exactly_once_v2, its final name"}),
        ProcessingGuarantee.AT_LEAST_ONCE,
        """`at_least_once` loses nothing but may repeat what followed the last commit;
        `exactly_once` (a transactional producer per task) and `exactly_once_v2` (one per thread,
        fewer connections) commit output, state and offsets together.""",
        importance=_HIGH,
    )
    state_dir: Path = key(
        PATH,
        Path(tempfile.gettempdir()) / "pystreams",
        """Where stores keep their data, in a directory for each application and task. Choose one
        that survives restarts of the machine, or state is restored from the changelogs.""",
        importance=_HIGH,
        default_text="<temporary directory>/pystreams",
    )
    state_cleanup_delay_ms: int = key(
        whole_number(1),
        600_000,
        """How long the directory of a task that moved to another process is kept; if the task
        comes back meanwhile, it restores only what it lacks. Stores without a changelog are lost
        with it.""",
    )
    state_cleanup_dir_max_age_ms: int = key(
        whole_number(-1),
        -1,
        """At the start, task directories that no process has used for this long are removed, and
        their state is restored whole. Set it below the changelogs' `delete.retention.ms`, after
        which they no longer tell what was deleted. -1 keeps all. Spec: KIP-1259.""",
    )
    accepted_source_topic_ids: str = key(
        text("[^:,]+:[^:,]+(,[^:,]+:[^:,]+)*", valid="topic:id, several by commas", empty=True),
        "",
        """Source topics that were deleted and created again and are to be read all the same, each
        as `<topic>:<id>` with its present id. State made of the former topic stays, and what is
        read of the new one, from where the offset reset policy says, is added to it. Also topics
        that tables are restored from, and that have got partitions. Otherwise the application
        refuses to start, and names the id. Not in Kafka.""",
    )
    num_stream_threads: int = key(
        whole_number(1),
        1,
        """Threads that process, each with its own consumer. Threads overlap input and output;
        Python code runs on one at a time, so CPU scales with `pystreams run --processes`.""",
        importance=_MEDIUM,
    )
    num_standby_replicas: int = key(
        whole_number(0),
        0,
        """How many other processes keep the stores of each task warm, so that they take it over
        without a restore when its process dies. Each has a copy on its disk and reads the
        changelogs all the time. Processes on one host that share a `state.dir` need none for each
        other.""",
        importance=_HIGH,
    )
    acceptable_recovery_lag: int = key(
        whole_number(0),
        10_000,
        """How many changelog records a task may have to restore when it moves to a process that
        joins the group. One that comes with more to restore follows the changelogs before it joins,
        while others process, as long as it comes nearer to their ends. A large number has it join
        at once. Under `group.protocol=consumer` it always does.""",
        importance=_MEDIUM,
    )
    commit_interval_ms: int = key(
        _MILLISECONDS,
        30_000,
        "Longest time between two commits. Commits come earlier when the record buffers are full.",
        importance=_MEDIUM,
        exactly_once=100,
    )
    statestore_cache_max_bytes: int = key(
        whole_number(0),
        10 * 1024 * 1024,
        """Memory for the record caches of all stores in the process, shared evenly by its threads.
        A cache logs and forwards only the last update of a key in a commit; 0 turns them off.""",
        importance=_MEDIUM,
    )
    statestore_read_cache_max_bytes: int = key(
        whole_number(0),
        10 * 1024 * 1024,
        """Memory for keys and values of RocksDB stores that were read or written lately, for all
        stores in the process, shared evenly by its threads. Changes no result. What Python needs
        comes on top, several times that for small values. 0 turns it off. Not in Kafka.""",
        importance=_MEDIUM,
    )
    statestore_uncommitted_max_bytes: int = key(
        whole_number(-1),
        64 * 1024 * 1024,
        """Limit for writes that are not committed yet, of all stores in the process, shared evenly
        by its threads. A thread commits before it would cross its share; -1 is no limit.
        Spec: KIP-892.""",
        importance=_MEDIUM,
    )
    default_state_isolation_level: IsolationLevel = key(
        one_of(IsolationLevel),
        IsolationLevel.READ_UNCOMMITTED,
        """What queries from outside the stream threads see: every write, or only what is
        committed. Spec: KIP-892. Alias: default.interactive.query.isolation.level.""",
        exactly_once=IsolationLevel.READ_COMMITTED,
    )
    default_key_serde: Serde[Any] | None = key(
        SERDE, None, "Serde of keys where an operation names none.", importance=_MEDIUM
    )
    default_value_serde: Serde[Any] | None = key(
        SERDE, None, "Serde of values where an operation names none.", importance=_MEDIUM
    )
    default_timestamp_extractor: Handler = key(
        EXTRACTOR,
        "fail_on_invalid_timestamp",
        """Gives a record its event time (ms). The built-in functions take the record's own
        timestamp, and differ when it is negative; the last takes the time of processing.""",
        importance=_MEDIUM,
    )
    deserialization_exception_handler: Handler = key(
        HANDLER,
        "fail",
        "What to do with a record that can't be decoded: `fail`, or log it and `continue`.",
        importance=_MEDIUM,
    )
    processing_exception_handler: Handler = key(
        HANDLER,
        "fail",
        """What to do when the user's code raises, or a record does not fit the serdes of a store:
        `fail`, or log, drop the record and `continue`.""",
        importance=_MEDIUM,
    )
    processing_exception_handler_global_enabled: bool = key(
        BOOLEAN,
        False,
        """Whether `processing.exception.handler` is asked when what fills a global store or a
        global table raises. By default that stops the application.""",
    )
    production_exception_handler: Handler = key(
        HANDLER,
        "fail",
        """What to do with a record that can't be written: `fail`, or log, drop it and `continue`.
        Errors that pass by themselves are retried before the handler is asked; it is not where a
        topic takes nothing at all, as without the right to write. Under exactly-once
        it is asked before a record is sent (serializers, size); one that only the broker refuses
        stops the application, as its transaction can't be committed. So does a store's changelog
        record that is refused: it is never dropped.""",
        importance=_MEDIUM,
    )
    errors_dead_letter_queue_topic_name: Handler | None = key(
        DEAD_LETTER_QUEUE,
        None,
        """Where records go that an exception handler drops (`continue`), with key, value and
        headers, and headers that tell why: a topic, or a function that chooses one for each record.
        The topic must exist. Spec: KIP-1034.""",
        importance=_MEDIUM,
    )
    max_task_idle_ms: int = key(
        whole_number(-1),
        0,
        """How long a task with several inputs waits for data of an empty one, to process in the
        order of time. 0 waits only for data that is already on the broker; -1 never waits.""",
        importance=_MEDIUM,
    )
    task_timeout_ms: int = key(
        _MILLISECONDS,
        300_000,
        """How long a task may start or commit in vain, as brokers do not answer or refuse for now,
        before the last error stops the client. A restored record begins the time anew.""",
        importance=_MEDIUM,
    )
    replication_factor: int = key(
        whole_number(-1, 32_767),
        -1,
        "Replicas of the internal topics; -1 uses the broker's default.",
        importance=_MEDIUM,
    )
    topology_optimization: frozenset[TopologyOptimization] = key(
        some_of(TopologyOptimization),
        frozenset(),
        """What `StreamsBuilder.build(config)` may do to need fewer topics and stores, see
        docs/dsl/optimization.md. Changing it over existing state is another topology.""",
        importance=_MEDIUM,
        default_text="none",
    )
    ensure_explicit_internal_resource_naming: bool = key(
        BOOLEAN,
        False,
        """Whether a topology is refused that leaves the name of a store, changelog or repartition
        topic to be generated: such names change with the operations before them, and their state
        is lost. See docs/deploy.md. Spec: KIP-1111.""",
        importance=_HIGH,
    )
    changelog_loss_policy: ChangelogLossPolicy = key(
        one_of(ChangelogLossPolicy),
        ChangelogLossPolicy.STOP,
        """What becomes of a store that holds more than its changelog, because that was deleted or
        cut off: `stop` changes nothing and ends with the choices; `keep` logs the store anew;
        `restore` wipes it and restores what there is; `empty` starts empty. For one store:
        `pystreams recover`.""",
    )
    group_protocol: GroupProtocol = key(
        one_of(
            GroupProtocol,
            {"streams": "librdkafka does not speak the streams protocol; use consumer or classic"},
        ),
        GroupProtocol.CLASSIC,
        """How the group's members share partitions: `classic` works with every broker, `consumer`
        needs brokers from 4.0 and rebalances without stopping the others (KIP-848).""",
        importance=_MEDIUM,
    )
    buffered_records_per_partition: int = key(
        whole_number(1),
        1000,
        "Records a task buffers of one partition before its fetching is paused.",
    )
    input_buffer_max_bytes: int = key(
        whole_number(1),
        512 * _MEBIBYTE,
        """What all threads of the process may hold of records that are read and not processed, in
        the clients' queues and in tasks: beyond it, partitions are paused. Each process of
        `--processes` has as much. See docs/operations.md. Spec: KIP-770.""",
        importance=_MEDIUM,
    )
    output_buffer_max_bytes: int = key(
        whole_number(1),
        128 * _MEBIBYTE,
        """What all producers of the process may hold of records that no broker has acknowledged:
        beyond it, the thread waits. Not in Kafka, where each producer has its buffer.memory.""",
        importance=_MEDIUM,
    )
    max_poll_records: int = key(
        whole_number(1, 1_000_000),
        1000,
        "Most records taken from the client at once. Alias: consumer.max.poll.records.",
    )
    poll_ms: int = key(_MILLISECONDS, 100, "Longest wait for input when there is none.")
    repartition_purge_interval_ms: int = key(
        _MILLISECONDS,
        30_000,
        """How often records of repartition topics that are processed and committed are deleted;
        at most once per commit.""",
    )
    windowstore_changelog_additional_retention_ms: int = key(
        whole_number(0),
        86_400_000,
        """Added to the retention of window and session stores in their changelog topics, so that
        clocks may drift.""",
    )
    outer_join_emit_interval_ms: int = key(
        _MILLISECONDS,
        1000,
        """How often, in real time, a left or outer join of two streams looks for records whose
        window closed without a match. 0 looks with each record that moves the stream time. Alias:
        Kafka's internal __emit.interval.ms.kstreams.outer.join.spurious.results.fix__.""",
    )
    window_emit_interval_ms: int = key(
        _MILLISECONDS,
        1000,
        """How often, in real time, an aggregation of windows with
        EmitStrategy.on_window_close() looks for windows that have closed. 0 looks with each record
        that moves the stream time. Alias: Kafka's internal
        __emit.interval.ms.kstreams.windowed.aggregation__.""",
    )
    backfill_ignore_idle_timeouts: bool = key(
        BOOLEAN,
        False,
        """Whether a backfill runs a topology with idle_timeout_ms: as if it had none, since the
        history does not say when the input was silent. Otherwise it refuses to. Not in Kafka.""",
    )
    log_summary_interval_ms: int = key(
        whole_number(-1),
        120_000,
        "How often a line sums up what was processed and committed; 0 or less turns it off.",
    )
    rocksdb_config_setter: Callable[..., Any] | None = key(
        callable_or_name({}, "a function (store_name, options) -> None, or module:function"),
        None,
        "Called with the RocksDB options of each store before it opens, to change them.",
    )
    statestore_rocksdb_block_cache_bytes: int = key(
        whole_number(_MEBIBYTE),
        128 * _MEBIBYTE,
        """What all RocksDB stores of the process keep of their files in memory, index and filter
        blocks included. Each process of `--processes` has as much. Not in Kafka, where each store
        has 50 MiB of its own.""",
        importance=_MEDIUM,
    )
    statestore_rocksdb_write_buffer_bytes: int = key(
        whole_number(_MEBIBYTE),
        64 * _MEBIBYTE,
        """Memtables of all RocksDB stores of the process together: beyond it, they are flushed.
        Each process of `--processes` has as much. Not in Kafka, where each store has up to 48 MiB
        of its own.""",
        importance=_MEDIUM,
    )
    metrics_recording_level: RecordingLevel = key(
        one_of(RecordingLevel),
        RecordingLevel.INFO,
        """How much is measured. INFO costs nothing per record; DEBUG times each call of a store's
        methods; TRACE is the same as DEBUG.""",
    )
    metrics_sample_window_ms: int = key(
        whole_number(1), 30_000, "Length of one sample of rates, averages and maxima."
    )
    metrics_num_samples: int = key(
        whole_number(1), 2, "How many samples rates, averages and maxima are over."
    )
    metrics_prometheus_port: int = key(
        whole_number(-1, 65_535),
        -1,
        """Where metrics are served to Prometheus, http://<host>:<port>/metrics; -1 for nowhere, 0
        for any free port (the log says which). Process n of `--processes` takes the port n - 1
        higher. Not in Kafka.""",
        importance=_MEDIUM,
    )
    metrics_prometheus_host: str = key(
        text(),
        "127.0.0.1",
        "The address metrics are served on; 0.0.0.0 for all of this machine's. Not in Kafka.",
    )
    client_id: str = key(
        text("[a-zA-Z0-9._-]*", valid="letters, digits, '.', '_' and '-'", empty=True),
        "",
        "Prefix of the clients' ids; the application's id and the process's when empty.",
        importance=_MEDIUM,
        default_text="<application.id>-<process id>",
    )
    application_server: str = key(
        ADDRESS,
        "",
        """Where other instances and clients can ask this one, `host:port`; the group is told. With
        `--http` the address that is listened on, unless that is 0.0.0.0, `::` or port 0. Process n
        of `--processes` tells the port n - 1 higher.""",
    )
    security_protocol: str = key(
        _SECURITY_PROTOCOL,
        "PLAINTEXT",
        "How to talk to the brokers. `sasl.*` and `ssl.*` keys of librdkafka are passed on.",
        importance=_MEDIUM,
        client=True,
    )
    request_timeout_ms: int = key(
        whole_number(1500, 300_000),
        40_000,
        "How long a client waits for an answer of a broker (librdkafka: socket.timeout.ms).",
        client=True,
    )
    retry_backoff_ms: int = key(
        whole_number(1, 300_000), 100, "Wait before a failed request is sent again.", client=True
    )
    reconnect_backoff_ms: int = key(
        whole_number(0, 3_600_000), 50, "Wait before the first reconnection.", client=True
    )
    reconnect_backoff_max_ms: int = key(
        whole_number(0, 3_600_000), 1000, "Longest wait between reconnections.", client=True
    )
    connections_max_idle_ms: int = key(
        _CLIENT_MILLISECONDS, 540_000, "Idle connections are closed after this time.", client=True
    )
    metadata_max_age_ms: int = key(
        whole_number(1, 3_600_000),
        300_000,
        """How often the clients ask for topics and partitions without a cause (librdkafka:
        topic.metadata.refresh.interval.ms). New topics of a pattern are found this fast.""",
        client=True,
    )
    metadata_recovery_strategy: str = key(
        text("none|rebootstrap", valid="none, rebootstrap"),
        "rebootstrap",
        "Whether a client that knows no living broker starts from bootstrap.servers again.",
        client=True,
    )
    metadata_recovery_rebootstrap_trigger_ms: int = key(
        _CLIENT_MILLISECONDS, 300_000, "How long it tries the brokers it knows before.", client=True
    )
    receive_buffer_bytes: int = key(
        _SOCKET_BUFFER,
        -1,
        "Receive buffer of connections; -1 lets the system choose (Kafka Streams: 32 KiB).",
        client=True,
    )
    send_buffer_bytes: int = key(
        _SOCKET_BUFFER,
        -1,
        "Send buffer of connections; -1 lets the system choose (Kafka Streams: 128 KiB).",
        client=True,
    )
    enable_metrics_push: bool = key(
        BOOLEAN, True, "Whether clients send their metrics to brokers that ask.", client=True
    )
    overrides: Mapping[str, Any]
    """Keys passed on to clients and topics, with their prefixes. May hold passwords."""
    ignored: tuple[str, ...]
    """Keys that were set and have no effect, each with the reason; log them."""

    @classmethod
    def of(cls, values: Mapping[str, Any] | None = None, /, **keywords: object) -> StreamsConfig:
        """Check values and return the configuration they make.

        Args:
            values: Dotted names -> values, typed or as the text of a file. None means not set.
            keywords: The same with underscores for dots; they win over `values`.

        Raises:
            ConfigError: Something is unknown, wrong, missing or contradictory. Names all of it.
        """
        return cls.from_sources([Source("", keywords), Source("", values or {})])

    @classmethod
    def from_sources(cls, sources: Sequence[Source]) -> StreamsConfig:
        """Check values from several places and return the configuration they make.

        Args:
            sources: The strongest first. Their labels tell the user where a wrong value stands.

        Raises:
            ConfigError: As for `of`.
        """
        return cls(**resolve(KEY_DEFINITIONS, sources))

    def __repr__(self) -> str:
        """Return the identity only: values may hold passwords."""
        return (
            f"StreamsConfig(application_id={self.application_id!r}, "
            f"bootstrap_servers={self.bootstrap_servers!r}, "
            f"processing_guarantee={self.processing_guarantee.value!r})"
        )

    @property
    def exactly_once(self) -> bool:
        """Whether output, changelogs and offsets commit in transactions."""
        return self.processing_guarantee.exactly_once

    @property
    def transaction_timeout_ms(self) -> int:
        """How long the broker keeps a transaction open before it aborts it."""
        return client_overrides.transaction_timeout_ms(self.overrides)

    @property
    def group_instance_id(self) -> str | None:
        """The user's `group.instance.id`; each thread appends its number to it."""
        return client_overrides.group_instance_id(self.overrides)

    @property
    def dead_letter_queue(self) -> str | None:
        """The topic of the dead letter queue; None without one, or where a function chooses it."""
        queue = self.errors_dead_letter_queue_topic_name
        return queue if isinstance(queue, str) else None

    def topic_config(self) -> dict[str, str]:
        """Return what the user set for internal topics with the prefix `topic.`."""
        return client_overrides.topic_config(self.overrides)


KEY_DEFINITIONS = definitions_of(StreamsConfig)
"""Every key that `StreamsConfig` holds."""


def optimizations_of(
    config: StreamsConfig | Mapping[str, Any] | None,
) -> frozenset[TopologyOptimization]:
    """Return what a configuration, which may hold that key alone, says of `topology.optimization`.

    Raises:
        ConfigError: It is none that there is.
    """
    if isinstance(config, StreamsConfig):
        return config.topology_optimization
    found = entries_of("topology.optimization", {} if config is None else config)
    needed = {"application.id": "none", "bootstrap.servers": "none:1"}
    return StreamsConfig.of({**needed, **found}).topology_optimization
