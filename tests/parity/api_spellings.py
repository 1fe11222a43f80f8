"""Names of Kafka Streams' methods that do not follow from the rules of `api_names`."""

from __future__ import annotations

_KEYWORDS = "arguments of the operation, or of the class itself"
_QUERIES = "`KafkaStreams.query`"
_RUNTIME = "the runtime calls it: `StateStore.{}`"
_ASKING = "of `KafkaStreams.query`"
_PLAIN = "an attribute of the class, made by its constructor"

SPELLED: dict[str, str] = {
    # Options: what Java's static methods begin, a keyword says.
    **{
        f"{cls}.{method}": said
        for cls in (
            "Consumed",
            "Produced",
            "Grouped",
            "Repartitioned",
            "Joined",
            "StreamJoined",
            "Materialized",
        )
        for method, said in (("as", "`name=`"), ("with", f"`key_serde=`, ...: {_KEYWORDS}"))
    },
    "Consumed.withOffsetResetPolicy": "`offset_reset=`",
    "Produced.streamPartitioner": "`partitioner=`",
    "Produced.withStreamPartitioner": "`partitioner=`",
    "Repartitioned.streamPartitioner": "`partitioner=`",
    "Repartitioned.withStreamPartitioner": "`partitioner=`",
    "Repartitioned.numberOfPartitions": "`num_partitions=`",
    "Repartitioned.withNumberOfPartitions": "`num_partitions=`",
    "Joined.withGracePeriod": "`grace_period_ms=`",
    "StreamJoined.withDslStoreSuppliers": "`store_type=`",
    "StreamJoined.withLoggingDisabled": "`logging=False`",
    "StreamJoined.withLoggingEnabled": "`log_config=`",
    "Materialized.withRetention": "`retention_ms=`",
    "Materialized.withCachingDisabled": "`caching=False`",
    "Materialized.withCachingEnabled": "`caching=True`, the default",
    "Materialized.withLoggingDisabled": "`logging=False`",
    "Materialized.withLoggingEnabled": "`log_config=`",
    "Branched.as": "`name=` of `BranchedKStream.branch`",
    "Branched.withName": "`name=` of `BranchedKStream.branch`",
    "Branched.withConsumer": "`chain=` of `BranchedKStream.branch`, a function that returns None",
    "Branched.withFunction": "`chain=` of `BranchedKStream.branch`",
    "Named.as": "`name=` of the operation (`node_name=` where the store has a name too)",
    "Named.withName": "`name=` of the operation",
    "Printed.toFile": "`file=` of `KStream.print`, an open file",
    "Printed.toSysOut": "`KStream.print`, without `file=`",
    "Printed.withKeyValueMapper": "`mapper=` of `KStream.print`",
    "Printed.withLabel": "`label=` of `KStream.print`",
    "Printed.withName": "`name=` of `KStream.print`",
    # Windows of joins.
    "JoinWindows.gracePeriodMs": f"`JoinWindows.grace_period_ms`, {_PLAIN}",
    "JoinWindows.size": f"`JoinWindows.size_ms`, {_PLAIN}",
    "TableJoined.as": "`node_name=` of `KTable.join`",
    "TableJoined.withName": "`node_name=` of `KTable.join`",
    "TableJoined.with": "`TableJoined(...)`",
    # Windows of aggregations.
    **{
        f"{windows}.{method}": f"`{windows}.{attribute}`, {_PLAIN}"
        for windows, method, attribute in (
            ("TimeWindows", "gracePeriodMs", "grace_period_ms"),
            ("TimeWindows", "size", "size_ms"),
            ("SlidingWindows", "gracePeriodMs", "grace_period_ms"),
            ("SlidingWindows", "timeDifferenceMs", "time_difference_ms"),
            ("SessionWindows", "gracePeriodMs", "grace_period_ms"),
            ("SessionWindows", "inactivityGap", "inactivity_gap_ms"),
            ("UnlimitedWindows", "gracePeriodMs", "grace_period_ms"),
            ("UnlimitedWindows", "size", "size_ms"),
        )
    },
    "EmitStrategy.type": "a strategy is a member of the enum: compare it",
    # Processor API.
    "FixedKeyRecord.headers": "`Record.headers`: a fixed-key processor gets a plain record",
    "FixedKeyRecord.key": "`Record.key`; a forwarded record with another key is refused",
    "FixedKeyRecord.timestamp": "`Record.timestamp`",
    "FixedKeyRecord.value": "`Record.value`",
    "FixedKeyRecord.withHeaders": "`Record.with_headers`",
    "FixedKeyRecord.withTimestamp": "`Record.with_timestamp`",
    "FixedKeyRecord.withValue": "`Record.with_value`",
    "Cancellable.cancel": "`cancel()` of what `ProcessorContext.schedule` returns",
    # Stores.
    "StoreBuilder.logConfig": "`StoreBuilder.changelog_config`",
    "StoreBuilder.loggingEnabled": "`StoreBuilder.logging`",
    **{
        f"StoreBuilder.with{word}{state}": f"`with_{word.lower()}_{state.lower()}()` of what "
        "`Stores` returns"
        for word in ("Caching", "Logging")
        for state in ("Enabled", "Disabled")
    },
    **{
        f"{store}.{method}": said
        for store in ("KeyValueStore", "WindowStore", "SessionStore", "VersionedKeyValueStore")
        for method, said in (
            ("close", _RUNTIME.format("close")),
            ("commit", _RUNTIME.format("commit")),
            ("committedOffset", _RUNTIME.format("committed_offset")),
            ("getPosition", "`StateStore.position`"),
            ("init", _RUNTIME.format("init")),
            ("isOpen", "`StateStore.is_open`"),
            ("name", "`StateStore.name`"),
            ("persistent", "`StateStore.persistent`"),
            ("query", _QUERIES),
        )
    },
    # The test driver and the client.
    "TopologyTestDriver.advanceWallClockTime": "`TopologyTestDriver.advance_wall_clock_ms`",
    "TestInputTopic.advanceTime": "`TestInputTopic.advance_time_ms`",
    "TestInputTopic.pipeKeyValueList": "`TestInputTopic.pipe_key_values`",
    "TestInputTopic.pipeRecordList": "`TestInputTopic.pipe_input`, record by record",
    "TestInputTopic.pipeValueList": "`TestInputTopic.pipe_value`, value by value",
    "TestOutputTopic.readKeyValuesToList": "`TestOutputTopic.read_key_values`",
    "TestOutputTopic.readRecordsToList": "`TestOutputTopic.read_records`",
    "TestOutputTopic.readValuesToList": "`TestOutputTopic.read_values`",
    # Interactive queries: a request is one call, a query is made by its class.
    "StateQueryRequest.inStore": f"`store=` {_ASKING}",
    "InStore of StateQueryRequest.withQuery": "the first argument of `KafkaStreams.query`",
    "StateQueryRequest.withAllPartitions": f"`partitions=None` {_ASKING}, the default",
    "StateQueryRequest.withPartitions": f"`partitions=` {_ASKING}",
    "StateQueryRequest.withPositionBound": f"`position_bound=` {_ASKING}",
    "StateQueryResult.getOnlyPartitionResult": "`StateQueryResult.only_value`: the value itself; "
    "it raises if there is none and a partition failed",
    "QueryResult.getResult": "`QueryResult.value`",
    "QueryResult.isFailure": "`QueryResult.is_success` is False",
    "Position.emptyPosition": "`Position()`",
    "Position.fromMap": "`Position({TopicPartition(...): offset, ...})`",
    "Position.getPartitionPositions": "`Position.offsets`, of all topics, by `TopicPartition`",
    "Position.getTopics": "`Position.offsets`, of all topics, by `TopicPartition`",
    "Position.isEmpty": "`not position`",
    "PositionBound.isUnbounded": "`not bound.position`",
    **{
        f"{query}.{method}": said
        for query in ("RangeQuery", "TimestampedRangeQuery")
        for method, said in (
            ("withRange", "`lower=`, `upper=`"),
            ("withLowerBound", "`lower=`"),
            ("withUpperBound", "`upper=`"),
            ("withNoBounds", f"`{query}()`"),
            ("withAscendingKeys", "`descending=False`, the default"),
            ("withDescendingKeys", "`descending=True`"),
            ("resultOrder", f"`{query}.descending`"),
        )
    },
    "RangeQuery.getLowerBound": "`RangeQuery.lower`",
    "RangeQuery.getUpperBound": "`RangeQuery.upper`",
    "TimestampedRangeQuery.lowerBound": "`TimestampedRangeQuery.lower`",
    "TimestampedRangeQuery.upperBound": "`TimestampedRangeQuery.upper`",
    "TimestampedKeyQuery.key": "`TimestampedKeyQuery.key`",
    "WindowKeyQuery.withKeyAndWindowStartRange": "`key=`, `time_from=`, `time_to=`",
    "WindowRangeQuery.withWindowStartRange": "`time_from=`, `time_to=`",
    "VersionedKeyQuery.asOfTimestamp": "`VersionedKeyQuery.as_of`",
    "VersionedKeyQuery.key": "`VersionedKeyQuery.key`",
    "MultiVersionedKeyQuery.key": "`MultiVersionedKeyQuery.key`",
    "MultiVersionedKeyQuery.resultOrder": "`MultiVersionedKeyQuery.descending`",
    "MultiVersionedKeyQuery.withAscendingTimestamps": "`descending=False`, the default",
    "MultiVersionedKeyQuery.withDescendingTimestamps": "`descending=True`",
    "ResultOrder.ANY": "`descending=False` of the query, the default: there is always an order",
    "ResultOrder.ASCENDING": "`descending=False` of the query, the default",
    "ResultOrder.DESCENDING": "`descending=True` of the query",
}
"""Methods that do not follow the rules, and how to say them; names in backticks are checked."""

_ACTIVE = (
    "not needed: always so; standby tasks are not asked, and a partition that restores or moves "
    "answers `FailureReason.NOT_ACTIVE`"
)
_REQUEST = "not needed: a request is the arguments of `KafkaStreams.query`, and no object"

_WRAPPED = "not needed: what is returned is the supplier to use"

NOT_NEEDED: dict[str, str] = {
    "JoinWindows.windowsFor": "not needed: joins look windows up themselves",
    "TopologyTestDriver.metrics": "not needed: a test looks at records and stores",
    "StateQueryRequest.requireActive": _ACTIVE,
    "StateQueryRequest.isRequireActive": _ACTIVE,
    "StateQueryRequest.getPartitions": _REQUEST,
    "StateQueryRequest.getPositionBound": _REQUEST,
    "StateQueryRequest.getQuery": _REQUEST,
    "StateQueryRequest.getStoreName": _REQUEST,
    "StateQueryRequest.isAllPartitions": _REQUEST,
    "StateQueryResult.addResult": "not needed: `KafkaStreams.query` returns it whole",
    "StateQueryResult.setGlobalResult": "not needed: `KafkaStreams.query` returns it whole",
    # What a store of one's own answers.
    "QueryResult.forFailure": "not needed: what `StateStore.query` raises becomes "
    "`FailureReason.STORE_EXCEPTION`",
    "QueryResult.forResult": "not needed: `StateStore.query` returns the bare answer",
    "QueryResult.forUnknownQueryType": "not needed: `StateStore.query` returns `NotImplemented`",
    "QueryResult.notUpToBound": "not needed: the runtime holds positions against bounds",
    "QueryResult.setPosition": "not needed: the runtime says how far a partition has come",
    "Position.copy": "not needed: a position never changes",
    "Window.startTime": "not needed: `Window.start`, in ms",
    "Window.endTime": "not needed: `Window.end`, in ms",
    "ProcessorWrapper.asWrapped": _WRAPPED,
    "ProcessorWrapper.asWrappedFixedKey": _WRAPPED,
    "ProcessorWrapper.configure": "not needed: make the wrapper with what it needs",
    "TaskId.compareTo": "not needed: task ids are compared as they are",
}
"""Methods that Python does without, and why."""

_HEADERS = "stores with headers (`dsl.store.format=HEADERS`) are not supported"
_EXECUTION_INFO = (
    "how a query was executed is not recorded; `QueryResult.failure_message` says what went wrong"
)
_SKIP_CACHE = (
    "the record cache and the transaction are one map; "
    f"`isolation_level=IsolationLevel.READ_COMMITTED` {_ASKING} reads past it"
)

MISSING: dict[str, str] = {
    "Window.overlap": "",
    "TaskId.topologyName": "an application has one topology",
    "ProcessorContext.metrics": "metrics of your own go to a registry of your own",
    "Stores.persistentSessionStoreWithHeaders": _HEADERS,
    "Stores.persistentTimestampedKeyValueStoreWithHeaders": _HEADERS,
    "Stores.persistentTimestampedWindowStoreWithHeaders": _HEADERS,
    "Stores.sessionStoreWithHeadersBuilder": _HEADERS,
    "Stores.timestampedKeyValueStoreWithHeadersBuilder": _HEADERS,
    "Stores.timestampedWindowStoreWithHeadersBuilder": _HEADERS,
    "TopologyTestDriver.getSessionStoreWithHeaders": _HEADERS,
    "TopologyTestDriver.getTimestampedKeyValueStoreWithHeaders": _HEADERS,
    "TopologyTestDriver.getTimestampedWindowStoreWithHeaders": _HEADERS,
    "KafkaStreams.addStreamThread": "restart with another `num.stream.threads`",
    "KafkaStreams.removeStreamThread": "restart with another `num.stream.threads`",
    "KafkaStreams.clientInstanceIds": "",
    "KafkaStreams.setStandbyUpdateListener": "",
    "StateQueryRequest.enableExecutionInfo": _EXECUTION_INFO,
    "StateQueryRequest.executionInfoEnabled": _EXECUTION_INFO,
    "QueryConfig": _EXECUTION_INFO,
    "QueryResult.addExecutionInfo": _EXECUTION_INFO,
    "QueryResult.getExecutionInfo": _EXECUTION_INFO,
    "KeyQuery.isSkipCache": _SKIP_CACHE,
    "KeyQuery.skipCache": _SKIP_CACHE,
    "TimestampedKeyQuery.isSkipCache": _SKIP_CACHE,
    "TimestampedKeyQuery.skipCache": _SKIP_CACHE,
}
"""Classes and methods that are not there, and what to do instead, if there is something."""

OURS_ALONE: dict[str, set[str]] = {
    "Topology": {
        # What the DSL builds with.
        "add_copartition_group",
        "add_global_operator",
        "add_operator",
        "add_repartition_topic",
        "add_user_processor",
        "declare_for",
        "restore_from_source",
        # What is in it.
        "call_of",
        "call_of_store",
        "global_stores",
        "source_changelogs",
        "children",
        "copartition_groups",
        "nodes",
        "repartition_topics",
        "stores",
    },
    "KStream": {"distinct", "map_values_async", "map_values_batch"},
    "JoinWindows": {"after_ms", "before_ms", "retention_ms"},
    "Suppressed": {"buffer_config", "name", "time_to_wait_ms"},
    "ProcessorContext": {"headers"},
    "Stores": {"custom_key_value_store", "in_memory_versioned_key_value_store", "store_builder"},
    "StoreBuilder": {
        "changelog_defaults",
        "engine",
        "metrics_scope",
        "over",
        "spec",
        "store_kind",
    },
    "BufferConfig of Suppressed": {
        "byte_limit",
        "log_config",
        "logging",
        "record_limit",
        "store_type",
        "when_full",
    },
    "Windowed": {"count", "index"},
    "Window": {"count", "index"},
    "StateStore": {
        "approximate_num_uncommitted_bytes",
        "cached_bytes",
        "changelog_records",
        "destroy",
        "estimated_entries",
        "flush",
        "flush_cache",
        "holds_data",
        "manages_offsets",
        "max_uncommitted_bytes",
        "metered_methods",
        "needs_flush",
        "read_only",
        "restore",
        "rollback",
        "transactional",
    },
    "ReadOnlyWindowStore": {"backward_fetch_range", "fetch_range"},
    "ReadOnlySessionStore": {
        "backward_fetch_range",
        "backward_find_sessions_range",
        "fetch_range",
        "find_sessions_by_end",
        "find_sessions_range",
    },
    "KeyValueStore": {"read_only", "set_flush_listener"},
    # Ranges of keys and of ends have names of their own, where Java overloads.
    "WindowStore": {"backward_fetch_range", "fetch_range", "read_only", "set_flush_listener"},
    "SessionStore": {
        "backward_fetch_range",
        "backward_find_sessions_range",
        "fetch_range",
        "find_sessions_by_end",
        "find_sessions_range",
        "read_only",
        "set_flush_listener",
    },
    "VersionedKeyValueStore": {"get_range", "read_only"},
    "KafkaStreams": {
        "config",
        "error",
        "num_partitions_of_store",
        "key_partitioner",
        "key_reader",
        "known_owner_of",
        "owner_of",
        "partition_of_key",
        "statistics",
        "topology",
        "dead_letters",
        "troubles",
        "group_processes",
        "measure_nodes",
        "unfinished_threads",
        "wait",
    },
    "StateQueryResult": {"values"},
    "Position": {"beyond", "deserialize", "dominates", "of_partition", "serialize"},
    "PositionBound": {"missing"},
    "TopologyTestDriver": {"pipe_raw", "produced_raw", "restore_stores"},
    "Joined": {"idle_timeout_ms"},
    "StreamJoined": {"transactional", "check_suppliers", "idle_timeout_ms"},
    "TimeWindows": {"advance_ms"},
    "SlidingWindows": {"size_ms"},
    "UnlimitedWindows": {"start_ms"},
    "EmitStrategy": {"ON_WINDOW_CLOSE", "ON_WINDOW_UPDATE"},
    "Materialized": {
        "history_retention_ms",
        "segment_interval_ms",
        "store_name",
        "supplier",
        "ttl_ms",
        "transactional",
    },
    "RecordMetadata": {"count", "index"},
    "VersionedRecord": {"count", "index"},
    "TaskId": {"logged", "told"},
}
"""Public names that no method of Kafka Streams leads to."""
