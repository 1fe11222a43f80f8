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
        SerializationError,
        StateDirectoryError,
        StateStoreCorruptedError,
        StateStoreError,
        StoreNotAvailableError,
        StreamsError,
        TopologyError,
    )
    from pystreams.ids import TaskId, TopicPartition
    from pystreams.metrics import MetricName
    from pystreams.record import Headers, Record, RecordMetadata
    from pystreams.runtime.client import KafkaStreams
    from pystreams.runtime.client_state import State
    from pystreams.runtime.core.error_handlers import (
        ErrorContext,
        ErrorResponse,
        log_and_continue,
        log_and_fail,
    )
    from pystreams.runtime.query.results import FailureReason, QueryResult, StateQueryResult
    from pystreams.serdes import Serde, serde_of
    from pystreams.stores.api import (
        KeyValueStore,
        ReadOnlyKeyValueStore,
        TimestampedKeyValueStore,
        ValueAndTimestamp,
    )
    from pystreams.stores.contract import StateStore, StateStoreContext
    from pystreams.stores.factories import Stores
    from pystreams.stores.position import Position, PositionBound
    from pystreams.stores.queries import (
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
    from pystreams.stores.session_api import ReadOnlySessionStore, SessionStore
    from pystreams.stores.spec import StoreEngine, StoreKind
    from pystreams.stores.store_builder import StoreBuilder
    from pystreams.stores.versioned_api import (
        PUT_RETURN_CODE_NOT_PUT,
        PUT_RETURN_CODE_VALID_TO_UNDEFINED,
        ReadOnlyVersionedKeyValueStore,
        VersionedKeyValueStore,
        VersionedRecord,
    )
    from pystreams.stores.windowed_api import (
        ReadOnlyWindowStore,
        TimestampedWindowStore,
        Window,
        Windowed,
        WindowStore,
    )
    from pystreams.topology.branched import BranchedKStream
    from pystreams.topology.builder import StreamsBuilder
    from pystreams.topology.extractors import (
        ConsumerRecord,
        fail_on_invalid_timestamp,
        log_and_skip_on_invalid_timestamp,
        use_partition_time_on_invalid_timestamp,
        wallclock_timestamp,
    )
    from pystreams.topology.grouped import KGroupedStream
    from pystreams.topology.grouped_table import KGroupedTable
    from pystreams.topology.join_windows import JoinWindows
    from pystreams.topology.kstream import KStream
    from pystreams.topology.ktable import KTable
    from pystreams.topology.options import (
        Consumed,
        Grouped,
        Joined,
        Materialized,
        Produced,
        Repartitioned,
    )
    from pystreams.topology.processor import (
        FixedKeyProcessor,
        Processor,
        ProcessorContext,
        PunctuationType,
    )
    from pystreams.topology.stream_joined import StreamJoined
    from pystreams.topology.topology import Topology

_HOME_OF = {
    "AuthenticationError": "errors",
    "BranchedKStream": "topology.branched",
    "BrokerNotAvailableError": "errors",
    "ChangelogLossError": "errors",
    "ConfigError": "errors",
    "Consumed": "topology.options",
    "ConsumerRecord": "topology.extractors",
    "ErrorContext": "runtime.core.error_handlers",
    "ErrorResponse": "runtime.core.error_handlers",
    "FailureReason": "runtime.query.results",
    "FatalStreamsError": "errors",
    "FixedKeyProcessor": "topology.processor",
    "Grouped": "topology.options",
    "Headers": "record",
    "IsolationLevel": "config",
    "JoinWindows": "topology.join_windows",
    "Joined": "topology.options",
    "KGroupedStream": "topology.grouped",
    "KGroupedTable": "topology.grouped_table",
    "KStream": "topology.kstream",
    "KTable": "topology.ktable",
    "KafkaStreams": "runtime.client",
    "KeyQuery": "stores.queries",
    "KeyValueStore": "stores.api",
    "Materialized": "topology.options",
    "MetricName": "metrics",
    "MissingSourceTopicError": "errors",
    "MultiVersionedKeyQuery": "stores.queries",
    "PUT_RETURN_CODE_NOT_PUT": "stores.versioned_api",
    "PUT_RETURN_CODE_VALID_TO_UNDEFINED": "stores.versioned_api",
    "Position": "stores.position",
    "PositionBound": "stores.position",
    "ProcessingError": "errors",
    "ProcessingGuarantee": "config",
    "Processor": "topology.processor",
    "ProcessorContext": "topology.processor",
    "Produced": "topology.options",
    "ProductionError": "errors",
    "PunctuationType": "topology.processor",
    "Query": "stores.queries",
    "QueryFailedError": "errors",
    "QueryResult": "runtime.query.results",
    "RangeQuery": "stores.queries",
    "ReadOnlyKeyValueStore": "stores.api",
    "ReadOnlySessionStore": "stores.session_api",
    "ReadOnlyVersionedKeyValueStore": "stores.versioned_api",
    "ReadOnlyWindowStore": "stores.windowed_api",
    "Record": "record",
    "RecordMetadata": "record",
    "Repartitioned": "topology.options",
    "Serde": "serdes",
    "SerializationError": "errors",
    "SessionStore": "stores.session_api",
    "State": "runtime.client_state",
    "StateDirectoryError": "errors",
    "StateQueryResult": "runtime.query.results",
    "StateStore": "stores.contract",
    "StateStoreContext": "stores.contract",
    "StateStoreCorruptedError": "errors",
    "StateStoreError": "errors",
    "StoreBuilder": "stores.store_builder",
    "StoreEngine": "stores.spec",
    "StoreKind": "stores.spec",
    "StoreNotAvailableError": "errors",
    "Stores": "stores.factories",
    "StreamJoined": "topology.stream_joined",
    "StreamsBuilder": "topology.builder",
    "StreamsConfig": "config",
    "StreamsError": "errors",
    "TaskId": "ids",
    "TimestampedKeyQuery": "stores.queries",
    "TimestampedKeyValueStore": "stores.api",
    "TimestampedRangeQuery": "stores.queries",
    "TimestampedWindowStore": "stores.windowed_api",
    "TopicPartition": "ids",
    "Topology": "topology.topology",
    "TopologyError": "errors",
    "ValueAndTimestamp": "stores.api",
    "VersionedKeyQuery": "stores.queries",
    "VersionedKeyValueStore": "stores.versioned_api",
    "VersionedRecord": "stores.versioned_api",
    "Window": "stores.windowed_api",
    "WindowKeyQuery": "stores.queries",
    "WindowRangeQuery": "stores.queries",
    "WindowStore": "stores.windowed_api",
    "Windowed": "stores.windowed_api",
    "fail_on_invalid_timestamp": "topology.extractors",
    "log_and_continue": "runtime.core.error_handlers",
    "log_and_fail": "runtime.core.error_handlers",
    "log_and_skip_on_invalid_timestamp": "topology.extractors",
    "serde_of": "serdes",
    "use_partition_time_on_invalid_timestamp": "topology.extractors",
    "wallclock_timestamp": "topology.extractors",
}

__all__ = [  # noqa: RUF022 - constants are sorted among the other names
    "AuthenticationError",
    "BranchedKStream",
    "BrokerNotAvailableError",
    "ChangelogLossError",
    "ConfigError",
    "Consumed",
    "ConsumerRecord",
    "ErrorContext",
    "ErrorResponse",
    "FailureReason",
    "FatalStreamsError",
    "FixedKeyProcessor",
    "Grouped",
    "Headers",
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
    "Serde",
    "SerializationError",
    "SessionStore",
    "State",
    "StateDirectoryError",
    "StateQueryResult",
    "StateStore",
    "StateStoreContext",
    "StateStoreCorruptedError",
    "StateStoreError",
    "StoreBuilder",
    "StoreEngine",
    "StoreKind",
    "StoreNotAvailableError",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "StreamsConfig",
    "StreamsError",
    "TaskId",
    "TimestampedKeyQuery",
    "TimestampedKeyValueStore",
    "TimestampedRangeQuery",
    "TimestampedWindowStore",
    "TopicPartition",
    "Topology",
    "TopologyError",
    "ValueAndTimestamp",
    "VersionedKeyQuery",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "Window",
    "WindowKeyQuery",
    "WindowRangeQuery",
    "WindowStore",
    "Windowed",
    "fail_on_invalid_timestamp",
    "log_and_continue",
    "log_and_fail",
    "log_and_skip_on_invalid_timestamp",
    "serde_of",
    "serdes",
    "use_partition_time_on_invalid_timestamp",
    "wallclock_timestamp",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module, once."""
    if name == "serdes":
        return importlib.import_module("pystreams.serdes")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'pystreams' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"pystreams.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
