"""Options of the DSL's operations: plain values, each field also a keyword of the methods.

`stream("orders", key_serde=STRING)` and `stream("orders", consumed=Consumed(key_serde=STRING))`
say the same. Keywords are the way to write it; an object is for options that several operations
share. The `...Options` dictionaries type the keywords and repeat the fields of their class. The
classes have no slots: before Python 3.13 one that is frozen, generic and has them can't be called
with its types, as in `Materialized[str, int](name="counts")`.

Source: Kafka Streams' `Consumed`, `Produced`, `Grouped`, `Repartitioned`, `Joined`,
`Materialized`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, Protocol, TypedDict, TypeVar

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.stores.contracts.spec import StoreEngine, StoreSupplier
from pystreams.stores.retentions import versioned_retention
from pystreams.topology.contracts.extractors import TimestampExtractor
from pystreams.topology.graph.declaration_checks import check_values
from pystreams.topology.graph.nodes import StreamPartitioner
from pystreams.topology.options.type_variables import K, V, VOther

OffsetReset = Literal["earliest", "latest", "none"]


class _Options(Protocol):
    """Any class of options: a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


AnyOptions = TypeVar("AnyOptions", bound=_Options)


@dataclass(frozen=True)
class Consumed(Generic[K, V]):
    """How topics are read.

    Attributes:
        key_serde: How keys are read; the configured default when None.
        value_serde: How values are read; the configured default when None.
        timestamp_extractor: Where event time comes from; the configured one when None.
        offset_reset: Where a group without offsets begins; `auto.offset.reset` when None.
        name: Name of the node; a table's source adds `-source`.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: OffsetReset | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Refuse options of a wrong type."""
        check_options(self)


class ConsumedOptions(TypedDict, Generic[K, V], total=False):
    """Keywords for `Consumed`."""

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    timestamp_extractor: TimestampExtractor | None
    offset_reset: OffsetReset | None
    name: str | None


@dataclass(frozen=True)
class Produced(Generic[K, V]):
    """How a topic is written.

    Attributes:
        key_serde: How keys are written; the stream's own when None, then the configured default.
        value_serde: How values are written; likewise.
        partitioner: Chooses the partition; Kafka's murmur2 of the key when None.
        name: Name of the sink.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    partitioner: StreamPartitioner | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Refuse options of a wrong type."""
        check_options(self)


class ProducedOptions(TypedDict, Generic[K, V], total=False):
    """Keywords for `Produced`."""

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    partitioner: StreamPartitioner | None
    name: str | None


@dataclass(frozen=True)
class Grouped(Generic[K, V]):
    """How records travel to their group, if they must.

    Attributes:
        key_serde: How keys are written to the repartition topic.
        value_serde: How values are written to it.
        name: Name of the repartition topic (`<application id>-<name>-repartition`) and of the
            node that selects the new key.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Refuse options of a wrong type."""
        check_options(self)


class GroupedOptions(TypedDict, Generic[K, V], total=False):
    """Keywords for `Grouped`."""

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    name: str | None


@dataclass(frozen=True)
class Repartitioned(Generic[K, V]):
    """How a stream is spread anew.

    Attributes:
        key_serde: How keys are written; the stream's own when None, then the configured default.
        value_serde: How values are written; likewise.
        partitioner: Chooses the partition; Kafka's murmur2 of the key when None.
        num_partitions: Partitions of the topic; as many as upstream has when None.
        name: Name of the topic (`<application id>-<name>-repartition`).
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    partitioner: StreamPartitioner | None = None
    num_partitions: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Refuse options of a wrong type."""
        check_options(self)
        if self.num_partitions is not None and self.num_partitions < 1:
            message = f"num_partitions must be 1 or more, not {self.num_partitions}"
            raise TopologyError(message)


class RepartitionedOptions(TypedDict, Generic[K, V], total=False):
    """Keywords for `Repartitioned`."""

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    partitioner: StreamPartitioner | None
    num_partitions: int | None
    name: str | None


@dataclass(frozen=True)
class Joined(Generic[K, V, VOther]):
    """How a stream is brought to the table it is joined with.

    Attributes:
        key_serde: How keys are written to the repartition topic; also the result's.
        value_serde: How the stream's values are written to it.
        other_value_serde: How the table's values are written; no stream-table join needs it.
        name: Name of the node and of the repartition topic.
        grace_period_ms: How long records of the stream wait, in stream time, for late updates of
            the table; only a versioned table can be joined so. None joins at once.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[VOther] | None = None
    name: str | None = None
    grace_period_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse options of a wrong type."""
        check_options(self)
        grace = self.grace_period_ms
        if grace is not None and grace < 0:
            raise TopologyError(f"Joined: grace_period_ms must be 0 or more ms, not {grace!r}")


class JoinedOptions(TypedDict, Generic[K, V, VOther], total=False):
    """Keywords for `Joined`."""

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    other_value_serde: Serde[VOther] | None
    name: str | None
    grace_period_ms: int | None


@dataclass(frozen=True)
class Materialized(Generic[K, V]):
    """How a table is kept.

    Attributes:
        name: Name of the state store, and with it of its changelog topic
            (`<application id>-<name>-changelog`); only a named store can be queried.
        key_serde: How keys are stored.
        value_serde: How values are stored.
        caching: Whether only the last update of a key is logged and forwarded at each commit.
        logging: Whether changes go to a changelog topic, from which a lost store is restored.
        log_config: Topic configuration of the changelog, over the defaults.
        store_type: RocksDB or memory; RocksDB when None.
        transactional: Whether writes wait for the commit. False writes them through at once;
            under exactly-once the store is then wiped and restored after each aborted
            transaction and each end that is not a clean one. Spec: KIP-844.
        history_retention_ms: Makes the store a versioned one, which must be named: how far back,
            in stream time, old versions can be read and late ones are taken. Changing it changes
            the segments, unless `segment_interval_ms` says what they were; a store on disk with
            other segments is refused until its directory is deleted. Its changelog topic keeps
            the `min.compaction.lag.ms` it was made with: raise that first.
        segment_interval_ms: Portions in which old versions go away; None chooses by the retention.
        supplier: Where the store's bytes live, made with `Stores`, in place of `name`,
            `store_type` and `history_retention_ms`.
    """

    name: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    caching: bool = True
    logging: bool = True
    log_config: Mapping[str, str] = field(default_factory=dict)
    store_type: StoreEngine | None = None
    transactional: bool = True
    history_retention_ms: int | None = None
    segment_interval_ms: int | None = None
    supplier: StoreSupplier | None = None

    def __post_init__(self) -> None:
        """Refuse options of a wrong type, and such that contradict each other."""
        check_options(self)
        if self.supplier is not None:
            _check_supplier(self, self.supplier)
        elif self.history_retention_ms is not None:
            if self.name is None:
                raise TopologyError(
                    "Materialized: a table with history_retention_ms keeps its history in a store "
                    "of its own: give it a name=..."
                )
            versioned_retention(self.name, self.history_retention_ms, self.segment_interval_ms)
        elif self.segment_interval_ms is not None:
            raise TopologyError(
                "Materialized: segment_interval_ms goes with history_retention_ms: give that too"
            )

    @property
    def store_name(self) -> str | None:
        """Name of the store, given as such or by the supplier; None when there is none."""
        return self.name if self.supplier is None else self.supplier.name


class MaterializedOptions(TypedDict, Generic[K, V], total=False):
    """Keywords for `Materialized`."""

    name: str | None
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    caching: bool
    logging: bool
    log_config: Mapping[str, str]
    store_type: StoreEngine | None
    transactional: bool
    history_retention_ms: int | None
    segment_interval_ms: int | None
    supplier: StoreSupplier | None


def options_of(
    kind: type[AnyOptions], given: AnyOptions | None, keywords: Mapping[str, Any], where: str
) -> AnyOptions:
    """Return the options object given, or make one of the keywords.

    Args:
        kind: The class of the options.
        given: The object the caller passed, if any.
        keywords: The keywords the caller passed.
        where: The operation, for error messages.

    Raises:
        TopologyError: Both were given, a keyword or the object is of the wrong kind, or the store
            asked for can't hold a table.
    """
    if given is not None:
        if not isinstance(given, kind):
            raise TopologyError(f"{where} takes {kind.__name__}(...), not {given!r}")
        if keywords:
            message = (
                f"{where}: give options either as keywords ({', '.join(keywords)}) or in "
                f"{kind.__name__}(...), not both"
            )
            raise TopologyError(message)
        return _fitting(given, where)
    known = [option.name for option in fields(kind)]
    for keyword in keywords:
        if keyword not in known:
            near = difflib.get_close_matches(keyword, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
            raise TopologyError(f"{where} has no option {keyword}: {hint}")
    return _fitting(kind(**keywords), where)


def _fitting(options: AnyOptions, where: str) -> AnyOptions:
    """Return options; refuse a store of a kind that can't hold the operation's table."""
    supplier = options.supplier if isinstance(options, Materialized) else None
    if supplier is not None and not supplier.kind.holds_tables:
        raise TopologyError(
            f"{where}: store {supplier.name!r} is a {supplier.kind.name} store, which can't hold a "
            "table: make its supplier with Stores.persistent_timestamped_key_value_store, "
            "in_memory_key_value_store or persistent_versioned_key_value_store"
        )
    return options


def optional_options(
    kind: type[AnyOptions], given: AnyOptions | None, keywords: Mapping[str, Any], where: str
) -> AnyOptions | None:
    """Do as `options_of`; return None when there are no options at all."""
    return options_of(kind, given, keywords, where) if given is not None or keywords else None


def check_options(options: Any) -> None:
    """Refuse values that would only fail when the first record arrives."""
    values = {option.name: getattr(options, option.name) for option in fields(options)}
    check_values(type(options).__name__, **values)


def _check_supplier(options: Materialized[Any, Any], supplier: StoreSupplier) -> None:
    if not isinstance(supplier, StoreSupplier):
        raise TopologyError(
            f"Materialized: supplier must be made with Stores.persistent_... or in_memory_..., not "
            f"{supplier!r}"
        )
    for option in ("name", "store_type", "history_retention_ms", "segment_interval_ms"):
        if getattr(options, option) is not None:
            raise TopologyError(
                f"Materialized: the supplier of {supplier.name!r} says what {option}= would say: "
                "leave one of them out"
            )
