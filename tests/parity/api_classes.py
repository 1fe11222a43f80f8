"""Which of Kafka Streams' classes have a table on the page of names, and what the others are.

A class without a table is a function or a plain value here, is said with an argument, or is not
there: one sentence says it for all of its methods. Each public class is in one of the two.
"""

from __future__ import annotations

TABLES = (
    *("StreamsBuilder", "KStream", "BranchedKStream", "KGroupedStream", "KTable", "KGroupedTable"),
    *("GlobalKTable", "CogroupedKStream", "TimeWindowedKStream", "SessionWindowedKStream"),
    *("TimeWindowedCogroupedKStream", "SessionWindowedCogroupedKStream"),
    *("TimeWindows", "SlidingWindows", "SessionWindows", "JoinWindows", "UnlimitedWindows"),
    *("EmitStrategy", "Suppressed", "BufferConfig of Suppressed", "Windowed", "Window"),
    *("Consumed", "Produced", "Grouped", "Repartitioned", "Joined", "StreamJoined"),
    *("TableJoined", "Materialized", "Branched", "Named", "Printed"),
    *("Topology", "Processor", "FixedKeyProcessor", "ValueTransformerWithKey"),
    *("ProcessorWrapper", "ProcessorContext", "Record", "FixedKeyRecord", "RecordMetadata"),
    *("PunctuationType", "Cancellable", "TaskId"),
    *("Stores", "StoreBuilder", "StateStore", "KeyValueStore", "WindowStore", "SessionStore"),
    *("ReadOnlyKeyValueStore", "ReadOnlyWindowStore", "ReadOnlySessionStore"),
    *("VersionedKeyValueStore", "VersionedRecord"),
    *("KafkaStreams", "State of KafkaStreams", "StateRestoreListener"),
    "StreamThreadExceptionResponse of StreamsUncaughtExceptionHandler",
    *("StateQueryRequest", "InStore of StateQueryRequest", "StateQueryResult", "QueryResult"),
    *("FailureReason", "Position", "PositionBound", "KeyQuery", "RangeQuery"),
    *("TimestampedKeyQuery", "TimestampedRangeQuery", "WindowKeyQuery", "WindowRangeQuery"),
    *("VersionedKeyQuery", "MultiVersionedKeyQuery", "ResultOrder", "QueryConfig"),
    *("TopologyTestDriver", "TestInputTopic", "TestOutputTopic"),
)
"""Classes whose methods are told one by one, in the order of the page."""

_FUNCTION = "a function, or anything else that can be called"
_SUPPLIER = "a callable without parameters, a class itself above all; with a method `stores()`, too"
_CONTEXT = "`ProcessorContext`, of each kind of processor"
_CONFIG = "the [configuration](configuration.md): a dict, or a file, with Kafka's keys"
_FORMAT = "not needed: how bytes are laid out is the stores' own affair"
_HEADERS = "not there; stores with headers (`dsl.store.format=HEADERS`) are not supported"
_STORE_SUPPLIER = "what the methods of `Stores` return; a store of your own is a `StoreKind`"
_STORE_TYPE = "`store_type=` of `Materialized` and `StreamJoined`, a `StoreEngine`"
_READ = "not needed: `KafkaStreams.store` returns a reader of the store's own kind"
_ITERATOR = "a plain iterator, which closes itself at its end; `close()` ends it before"
_DESCRIPTION = "`Topology.describe`, a text; `pystreams describe --json` prints its parts"
_HANDLER = "a function (`ErrorContext`, error), or `log_and_fail` and `log_and_continue`"
_RESPONSE = "`ErrorHandlerResponse`"
_WINDOWED_SERDE = "`time_windowed_serde` and `session_windowed_serde`"
_ASSIGNOR = "not there; librdkafka has no assignors of one's own"
_METADATA = "a value of the same name and fields in snake case, returned by `KafkaStreams.{}`"
_THREADS = (
    "a value of the same name, with fields of its own, returned by "
    "`KafkaStreams.metadata_for_local_threads`"
)
_MOCK = "not there; `TopologyTestDriver` runs a processor with a real context"


def _same(said: str, *classes: str) -> dict[str, str]:
    return dict.fromkeys(classes, said)


AS_A_WHOLE: dict[str, str] = {
    **_same(_FUNCTION, "Aggregator", "ForeachAction", "Initializer", "KeyValueMapper", "Merger"),
    **_same(_FUNCTION, "Predicate", "Punctuator", "Reducer", "ValueJoiner", "ValueMapper"),
    **_same(f"{_FUNCTION}, with `with_key=True`", "ValueJoinerWithKey", "ValueMapperWithKey"),
    "TopicNameExtractor": f"{_FUNCTION}, of key, value and record",
    "StreamPartitioner": f"{_FUNCTION}, of topic, key, value and number of partitions",
    "StateListener of KafkaStreams": f"{_FUNCTION}, of the new and the old `State`",
    "StreamsUncaughtExceptionHandler": f"{_FUNCTION}, which returns a "
    "`StreamThreadExceptionResponse`",
    **_same(_SUPPLIER, "ProcessorSupplier", "FixedKeyProcessorSupplier", "ConnectedStoreProvider"),
    **_same(_SUPPLIER, "ValueTransformerWithKeySupplier", "WrappedProcessorSupplier"),
    "WrappedFixedKeyProcessorSupplier": _SUPPLIER,
    **_same(_CONTEXT, "ProcessingContext", "FixedKeyProcessorContext"),
    "ContextualProcessor": "`Processor`; keep the context in `init`",
    "ContextualFixedKeyProcessor": "`FixedKeyProcessor`; keep the context in `init`",
    "RecordContext": "the third argument of a function that chooses the topic in `KStream.to`",
    "To": "`child=` of `ProcessorContext.forward`, and the timestamp of the `Record`",
    "InternalFixedKeyRecordFactory": "not needed: a fixed-key processor gets a plain `Record`",
    # Windows and options.
    "Windows": "`TimeWindows` and `UnlimitedWindows`",
    **_same(
        "`BufferConfig`", "EagerBufferConfig of Suppressed", "StrictBufferConfig of Suppressed"
    ),
    "StrategyType of EmitStrategy": "`EmitStrategy`, an enum",
    "StoreType of Materialized": "`StoreEngine`",
    **_same(_WINDOWED_SERDE, "WindowedSerdes", "TimeWindowedSerde of WindowedSerdes"),
    **_same(_WINDOWED_SERDE, "SessionWindowedSerde of WindowedSerdes", "TimeWindowedSerializer"),
    **_same(_WINDOWED_SERDE, "TimeWindowedDeserializer", "SessionWindowedSerializer"),
    "SessionWindowedDeserializer": _WINDOWED_SERDE,
    "AutoOffsetReset": "`offset_reset=`: `earliest`, `latest` or `none`; not there: by duration",
    "TimestampExtractor": f"{_FUNCTION}, of a `ConsumerRecord` and the highest timestamp so far",
    "FailOnInvalidTimestamp": "`fail_on_invalid_timestamp`",
    "LogAndSkipOnInvalidTimestamp": "`log_and_skip_on_invalid_timestamp`",
    "UsePartitionTimeOnInvalidTimestamp": "`use_partition_time_on_invalid_timestamp`",
    "WallclockTimestampExtractor": "`wallclock_timestamp`",
    "KeyValue": "a tuple (key, value)",
    # Stores.
    "ValueAndTimestamp": "`ValueAndTimestamp`, a tuple",
    "TimestampedKeyValueStore": "`TimestampedKeyValueStore`: `KeyValueStore`, of which "
    "`TimestampedKeyValueStore.get_with_timestamp` and "
    "`TimestampedKeyValueStore.put_with_timestamp` know timestamps",
    "TimestampedWindowStore": "`TimestampedWindowStore`: `WindowStore`, of which "
    "`TimestampedWindowStore.fetch_with_timestamp` and "
    "`TimestampedWindowStore.put_with_timestamp` know timestamps",
    "StateStoreContext": "`StateStoreContext`, for a [store of your own](../custom-stores.md)",
    **_same("`StateStore.restore`", "StateRestoreCallback", "BatchingStateRestoreCallback"),
    "CommitCallback": "`StateStore.commit`",
    **_same(_STORE_SUPPLIER, "StoreSupplier", "KeyValueBytesStoreSupplier"),
    **_same(_STORE_SUPPLIER, "WindowBytesStoreSupplier", "SessionBytesStoreSupplier"),
    "VersionedBytesStoreSupplier": _STORE_SUPPLIER,
    **_same(_STORE_TYPE, "DslStoreSuppliers", "BuiltInDslStoreSuppliers", "DslKeyValueParams"),
    **_same(_STORE_TYPE, "DslWindowParams", "DslSessionParams"),
    "InMemoryDslStoreSuppliers of BuiltInDslStoreSuppliers": "`StoreEngine.IN_MEMORY`",
    "RocksDBDslStoreSuppliers of BuiltInDslStoreSuppliers": "`StoreEngine.ROCKSDB`",
    **_same(_FORMAT, "TimestampedBytesStore", "VersionedBytesStore", "StateSerdes"),
    **_same(_ITERATOR, "KeyValueIterator", "WindowStoreIterator", "VersionedRecordIterator"),
    "RocksDBConfigSetter": "`rocksdb.config.setter`, a function of the store's name and options",
    **_same(_HEADERS, "AggregationWithHeaders", "DslStoreFormat", "HeadersBytesStore"),
    **_same(_HEADERS, "HeadersBytesStoreSupplier", "SessionStoreWithHeaders"),
    **_same(_HEADERS, "TimestampedKeyValueStoreWithHeaders", "TimestampedWindowStoreWithHeaders"),
    "ValueTimestampHeaders": _HEADERS,
    # The client.
    **_same(_CONFIG, "StreamsConfig", "InternalConfig of StreamsConfig", "TopologyConfig"),
    **_same(_CONFIG, "InternalConfig of TopologyConfig", "TaskConfig of TopologyConfig"),
    "GroupProtocol": "`group.protocol` in the [configuration](configuration.md)",
    "CloseOptions": "`leave_group=` and `timeout_s=` of `KafkaStreams.close`",
    "GroupMembershipOperation of CloseOptions": "`leave_group=` of `KafkaStreams.close`",
    "KafkaClientSupplier": "not there; clients are configured with Kafka's own keys",
    "ClientInstanceIds": "not there",
    "StreamsMetrics": "not there; metrics of your own go to a registry of your own",
    **_same("not there", "StandbyUpdateListener", "SuspendReason of StandbyUpdateListener"),
    "KeyQueryMetadata": _METADATA.format("query_metadata_for_key"),
    "HostInfo": "a value of the same name, with `host` and `port`, in those metadata",
    "StreamsMetadata": _METADATA.format("metadata_for_all_streams_clients"),
    **_same(_THREADS, "ThreadMetadata", "TaskMetadata"),
    "LagInfo": _METADATA.format("all_local_store_partition_lags"),
    **_same(_DESCRIPTION, "TopologyDescription", "GlobalStore of TopologyDescription"),
    **_same(_DESCRIPTION, "Node of TopologyDescription", "Processor of TopologyDescription"),
    **_same(_DESCRIPTION, "Sink of TopologyDescription", "Source of TopologyDescription"),
    "Subtopology of TopologyDescription": _DESCRIPTION,
    # Queries.
    "Query": "`Query`",
    "StoreQueryParameters": "`name=` and `isolation_level=` of `KafkaStreams.store`",
    "QueryableStoreType": _READ,
    "QueryableStoreTypes": _READ,
    **_same(
        _READ,
        *(
            f"{kind}Type of QueryableStoreTypes"
            for kind in (
                *("KeyValueStore", "SessionStore", "TimestampedKeyValueStore"),
                *("TimestampedWindowStore", "WindowStore"),
            )
        ),
    ),
    # What went wrong.
    "ErrorHandlerContext": "`ErrorContext`",
    **_same(_HANDLER, "DeserializationExceptionHandler", "ProcessingExceptionHandler"),
    **_same(_HANDLER, "ProductionExceptionHandler", "DefaultProductionExceptionHandler"),
    **_same("`log_and_continue`", "LogAndContinueExceptionHandler"),
    **_same("`log_and_continue`", "LogAndContinueProcessingExceptionHandler"),
    **_same("`log_and_fail`", "LogAndFailExceptionHandler", "LogAndFailProcessingExceptionHandler"),
    **{
        f"{kind} of {stage}ExceptionHandler": said
        for stage in ("Deserialization", "Processing", "Production")
        for kind, said in (("Response", _RESPONSE), ("Result", "`ErrorResponse`"))
    },
    "SerializationExceptionOrigin of ProductionExceptionHandler": "the text of the error says it",
    # Assignment.
    **_same(_ASSIGNOR, "ApplicationState", "AssignmentConfigs", "KafkaStreamsAssignment"),
    **_same(_ASSIGNOR, "AssignedTask of KafkaStreamsAssignment", "KafkaStreamsState", "ProcessId"),
    **_same(_ASSIGNOR, "Type of AssignedTask of KafkaStreamsAssignment", "StickyTaskAssignor"),
    **_same(_ASSIGNOR, "TaskAssignmentUtils", "MoveStandbyTaskPredicate of TaskAssignmentUtils"),
    **_same(_ASSIGNOR, "RackAwareOptimizationParams of TaskAssignmentUtils", "TaskAssignor"),
    **_same(_ASSIGNOR, "AssignmentError of TaskAssignor", "TaskAssignment of TaskAssignor"),
    **_same(_ASSIGNOR, "TaskInfo", "TaskTopicPartition"),
    # Tests.
    "TestRecord": "`Record`, and the arguments of `TestInputTopic.pipe_input`",
    **_same(_MOCK, "MockProcessorContext", "CapturedForward of MockProcessorContext"),
    "CapturedPunctuator of MockProcessorContext": _MOCK,
}
"""Classes that have one sentence for all of their methods; names in backticks are checked."""
