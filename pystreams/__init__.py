"""pystreams: Kafka Streams for Python.

    from pystreams import StreamsBuilder, serdes

    builder = StreamsBuilder()
    (
        builder.stream("orders", key_serde=serdes.STRING, value_serde=serdes.JSON)
        .group_by_key()
        .count(name="orders-per-customer")
        .to_stream()
        .to("order-counts", key_serde=serdes.STRING, value_serde=serdes.LONG)
    )
    topology = builder.build()

Run it with `pystreams run FILE`, or in a program with `KafkaStreams(topology, config).start()`;
test it with `pystreams.testing.TopologyTestDriver`. ARCHITECTURE.md has the reading order.

Names are loaded on first use, so that `import pystreams` costs nothing but its name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pystreams import serdes
    from pystreams.config import IsolationLevel, ProcessingGuarantee, StreamsConfig
    from pystreams.errors import (
        AuthenticationError,
        BrokerNotAvailableError,
        ChangelogLossError,
        ConfigError,
        FatalStreamsError,
        MissingSourceTopicError,
        ProcessingError,
        ProductionError,
        QueryFailedError,
        SchemaRegistryError,
        SerializationError,
        StateDirectoryError,
        StateStoreCorruptedError,
        StateStoreError,
        StoreNotAvailableError,
        StreamsError,
        SuppressionBufferFullError,
        TopologyError,
    )
    from pystreams.ids import TaskId, TopicPartition
    from pystreams.kernel.garbage_collection import collected_seldom
    from pystreams.metrics import MetricName
    from pystreams.record import Headers, Record, RecordMetadata
    from pystreams.runtime.application.client_state import State
    from pystreams.runtime.application.kafka_streams import KafkaStreams
    from pystreams.runtime.application.uncaught_errors import StreamThreadExceptionResponse
    from pystreams.runtime.core.failures.dead_letters import DeadLetterRecord, dead_letter_record
    from pystreams.runtime.core.failures.error_context import ErrorContext
    from pystreams.runtime.core.failures.error_handlers import (
        ErrorHandlerResponse,
        ErrorResponse,
        log_and_continue,
        log_and_fail,
    )
    from pystreams.runtime.queries.query_results import FailureReason, QueryResult, StateQueryResult
    from pystreams.runtime.tasks.restore_listener import StateRestoreListener
    from pystreams.serdes import HeadersSerde, Serde, serde_of
    from pystreams.stores.contracts.key_value import (
        KeyValueStore,
        ReadOnlyKeyValueStore,
        TimestampedKeyValueStore,
        ValueAndTimestamp,
    )
    from pystreams.stores.contracts.position import Position, PositionBound
    from pystreams.stores.contracts.queries import (
        KeyQuery,
        MultiVersionedKeyQuery,
        Query,
        RangeQuery,
        TimestampedKeyQuery,
        TimestampedRangeQuery,
        VersionedKeyQuery,
        WindowKeyQuery,
        WindowRangeQuery,
    )
    from pystreams.stores.contracts.session import ReadOnlySessionStore, SessionStore
    from pystreams.stores.contracts.spec import StoreEngine, StoreKind
    from pystreams.stores.contracts.state_store import (
        StateStore,
        StateStoreContext,
        StoreEnvironment,
    )
    from pystreams.stores.contracts.versioned import (
        PUT_RETURN_CODE_NOT_PUT,
        PUT_RETURN_CODE_VALID_TO_UNDEFINED,
        ReadOnlyVersionedKeyValueStore,
        VersionedKeyValueStore,
        VersionedRecord,
    )
    from pystreams.stores.contracts.window import (
        ReadOnlyWindowStore,
        TimestampedWindowStore,
        Window,
        Windowed,
        WindowStore,
    )
    from pystreams.stores.factories import Stores
    from pystreams.stores.store_builder import StoreBuilder
    from pystreams.topology import aggregations
    from pystreams.topology.contracts.extractors import (
        ConsumerRecord,
        fail_on_invalid_timestamp,
        log_and_skip_on_invalid_timestamp,
        use_partition_time_on_invalid_timestamp,
        wallclock_timestamp,
    )
    from pystreams.topology.contracts.processor import (
        FixedKeyProcessor,
        Processor,
        ProcessorContext,
        ProcessorWrapper,
        PunctuationType,
        ValueTransformerWithKey,
    )
    from pystreams.topology.contracts.retry import Retry
    from pystreams.topology.contracts.windowed_serdes import (
        session_windowed_serde,
        time_windowed_serde,
    )
    from pystreams.topology.contracts.windows import (
        EmitStrategy,
        SessionWindows,
        SlidingWindows,
        TimeWindows,
        UnlimitedWindows,
    )
    from pystreams.topology.dsl.builder import StreamsBuilder
    from pystreams.topology.dsl.streams_and_tables import (
        BranchedKStream,
        CogroupedKStream,
        GlobalKTable,
        KGroupedStream,
        KGroupedTable,
        KStream,
        KTable,
        SessionWindowedCogroupedKStream,
        SessionWindowedKStream,
        TimeWindowedCogroupedKStream,
        TimeWindowedKStream,
    )
    from pystreams.topology.graph.topology import Topology
    from pystreams.topology.options.join_windows import JoinWindows
    from pystreams.topology.options.materialized import Materialized
    from pystreams.topology.options.operation_options import (
        Consumed,
        Grouped,
        Joined,
        Produced,
        Repartitioned,
    )
    from pystreams.topology.options.stream_joined import StreamJoined
    from pystreams.topology.options.suppressed import BufferConfig, Suppressed
    from pystreams.topology.options.table_joined import TableJoined

_HOMES = {
    "pystreams.config": ("IsolationLevel", "ProcessingGuarantee", "StreamsConfig"),
    "pystreams.errors": (
        "AuthenticationError",
        "BrokerNotAvailableError",
        "ChangelogLossError",
        "ConfigError",
        "FatalStreamsError",
        "MissingSourceTopicError",
        "ProcessingError",
        "ProductionError",
        "QueryFailedError",
        "SchemaRegistryError",
        "SerializationError",
        "StateDirectoryError",
        "StateStoreCorruptedError",
        "StateStoreError",
        "StoreNotAvailableError",
        "StreamsError",
        "SuppressionBufferFullError",
        "TopologyError",
    ),
    "pystreams.ids": ("TaskId", "TopicPartition"),
    "pystreams.kernel.garbage_collection": ("collected_seldom",),
    "pystreams.metrics": ("MetricName",),
    "pystreams.record": ("Headers", "Record", "RecordMetadata"),
    "pystreams.runtime.application.kafka_streams": ("KafkaStreams",),
    "pystreams.runtime.application.uncaught_errors": ("StreamThreadExceptionResponse",),
    "pystreams.runtime.application.client_state": ("State",),
    "pystreams.runtime.core.failures.dead_letters": ("DeadLetterRecord", "dead_letter_record"),
    "pystreams.runtime.core.failures.error_context": ("ErrorContext",),
    "pystreams.runtime.core.failures.error_handlers": (
        "ErrorHandlerResponse",
        "ErrorResponse",
        "log_and_continue",
        "log_and_fail",
    ),
    "pystreams.runtime.queries.query_results": ("FailureReason", "QueryResult", "StateQueryResult"),
    "pystreams.runtime.tasks.restore_listener": ("StateRestoreListener",),
    "pystreams.serdes": ("HeadersSerde", "Serde", "serde_of"),
    "pystreams.stores.contracts.key_value": (
        "KeyValueStore",
        "ReadOnlyKeyValueStore",
        "TimestampedKeyValueStore",
        "ValueAndTimestamp",
    ),
    "pystreams.stores.contracts.state_store": (
        "StateStore",
        "StateStoreContext",
        "StoreEnvironment",
    ),
    "pystreams.stores.factories": ("Stores",),
    "pystreams.stores.contracts.position": ("Position", "PositionBound"),
    "pystreams.stores.contracts.queries": (
        "KeyQuery",
        "MultiVersionedKeyQuery",
        "Query",
        "RangeQuery",
        "TimestampedKeyQuery",
        "TimestampedRangeQuery",
        "VersionedKeyQuery",
        "WindowKeyQuery",
        "WindowRangeQuery",
    ),
    "pystreams.stores.contracts.session": ("ReadOnlySessionStore", "SessionStore"),
    "pystreams.stores.contracts.spec": ("StoreEngine", "StoreKind"),
    "pystreams.stores.store_builder": ("StoreBuilder",),
    "pystreams.stores.contracts.versioned": (
        "PUT_RETURN_CODE_NOT_PUT",
        "PUT_RETURN_CODE_VALID_TO_UNDEFINED",
        "ReadOnlyVersionedKeyValueStore",
        "VersionedKeyValueStore",
        "VersionedRecord",
    ),
    "pystreams.stores.contracts.window": (
        "ReadOnlyWindowStore",
        "TimestampedWindowStore",
        "Window",
        "WindowStore",
        "Windowed",
    ),
    "pystreams.topology.dsl.builder": ("StreamsBuilder",),
    "pystreams.topology.contracts.extractors": (
        "ConsumerRecord",
        "fail_on_invalid_timestamp",
        "log_and_skip_on_invalid_timestamp",
        "use_partition_time_on_invalid_timestamp",
        "wallclock_timestamp",
    ),
    "pystreams.topology.contracts.windowed_serdes": (
        "session_windowed_serde",
        "time_windowed_serde",
    ),
    "pystreams.topology.contracts.windows": (
        "EmitStrategy",
        "SessionWindows",
        "SlidingWindows",
        "TimeWindows",
        "UnlimitedWindows",
    ),
    "pystreams.topology.options.join_windows": ("JoinWindows",),
    "pystreams.topology.options.operation_options": (
        "Consumed",
        "Grouped",
        "Joined",
        "Produced",
        "Repartitioned",
    ),
    "pystreams.topology.options.materialized": ("Materialized",),
    "pystreams.topology.contracts.processor": (
        "FixedKeyProcessor",
        "Processor",
        "ProcessorContext",
        "ProcessorWrapper",
        "PunctuationType",
        "ValueTransformerWithKey",
    ),
    "pystreams.topology.options.stream_joined": ("StreamJoined",),
    "pystreams.topology.contracts.retry": ("Retry",),
    "pystreams.topology.options.suppressed": ("BufferConfig", "Suppressed"),
    "pystreams.topology.options.table_joined": ("TableJoined",),
    "pystreams.topology.dsl.streams_and_tables": (
        "BranchedKStream",
        "CogroupedKStream",
        "GlobalKTable",
        "KGroupedStream",
        "KGroupedTable",
        "KStream",
        "KTable",
        "SessionWindowedCogroupedKStream",
        "SessionWindowedKStream",
        "TimeWindowedCogroupedKStream",
        "TimeWindowedKStream",
    ),
    "pystreams.topology.graph.topology": ("Topology",),
}
"""Where each public name is defined."""

_MODULES = {"aggregations": "pystreams.topology.aggregations", "serdes": "pystreams.serdes"}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022 - constants are sorted among the other names
    "AuthenticationError",
    "BranchedKStream",
    "BrokerNotAvailableError",
    "BufferConfig",
    "ChangelogLossError",
    "CogroupedKStream",
    "ConfigError",
    "Consumed",
    "ConsumerRecord",
    "DeadLetterRecord",
    "EmitStrategy",
    "ErrorContext",
    "ErrorHandlerResponse",
    "ErrorResponse",
    "FailureReason",
    "FatalStreamsError",
    "FixedKeyProcessor",
    "GlobalKTable",
    "Grouped",
    "Headers",
    "HeadersSerde",
    "IsolationLevel",
    "JoinWindows",
    "Joined",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KafkaStreams",
    "KeyQuery",
    "KeyValueStore",
    "Materialized",
    "MetricName",
    "MissingSourceTopicError",
    "MultiVersionedKeyQuery",
    "PUT_RETURN_CODE_NOT_PUT",
    "PUT_RETURN_CODE_VALID_TO_UNDEFINED",
    "Position",
    "PositionBound",
    "ProcessingError",
    "ProcessingGuarantee",
    "Processor",
    "ProcessorContext",
    "ProcessorWrapper",
    "Produced",
    "ProductionError",
    "PunctuationType",
    "Query",
    "QueryFailedError",
    "QueryResult",
    "RangeQuery",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyVersionedKeyValueStore",
    "ReadOnlyWindowStore",
    "Record",
    "RecordMetadata",
    "Repartitioned",
    "Retry",
    "SchemaRegistryError",
    "Serde",
    "SerializationError",
    "SessionStore",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindows",
    "SlidingWindows",
    "State",
    "StateDirectoryError",
    "StateQueryResult",
    "StateRestoreListener",
    "StateStore",
    "StateStoreContext",
    "StateStoreCorruptedError",
    "StateStoreError",
    "StoreBuilder",
    "StoreEngine",
    "StoreEnvironment",
    "StoreKind",
    "StoreNotAvailableError",
    "Stores",
    "StreamJoined",
    "StreamThreadExceptionResponse",
    "StreamsBuilder",
    "StreamsConfig",
    "StreamsError",
    "Suppressed",
    "SuppressionBufferFullError",
    "TableJoined",
    "TaskId",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindows",
    "TimestampedKeyQuery",
    "TimestampedKeyValueStore",
    "TimestampedRangeQuery",
    "TimestampedWindowStore",
    "TopicPartition",
    "Topology",
    "TopologyError",
    "UnlimitedWindows",
    "ValueAndTimestamp",
    "ValueTransformerWithKey",
    "VersionedKeyQuery",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "Window",
    "WindowKeyQuery",
    "WindowRangeQuery",
    "WindowStore",
    "Windowed",
    "aggregations",
    "collected_seldom",
    "dead_letter_record",
    "fail_on_invalid_timestamp",
    "log_and_continue",
    "log_and_fail",
    "log_and_skip_on_invalid_timestamp",
    "serde_of",
    "serdes",
    "session_windowed_serde",
    "time_windowed_serde",
    "use_partition_time_on_invalid_timestamp",
    "wallclock_timestamp",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module, once."""
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'pystreams' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
