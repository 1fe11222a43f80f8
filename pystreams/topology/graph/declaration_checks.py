"""Refuses what would fail only when the first record arrives: serdes, functions, store builders."""

from __future__ import annotations

from pystreams.errors import TopologyError
from pystreams.stores.builder_arguments import check_serde
from pystreams.stores.contracts.spec import StoreEngine
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.contracts.processor import ConnectsStores
from pystreams.topology.contracts.user_functions import checked, checked_callback
from pystreams.topology.graph.naming import check_name

_PARTITIONER = ("topic", "key", "value", "num_partitions")
_FUNCTIONS = {
    "timestamp_extractor": ("record", "partition_time"),
    "partitioner": _PARTITIONER,
    "other_partitioner": _PARTITIONER,
}
"""What options that are functions are called with."""
_OFFSET_RESETS = ("earliest", "latest", "none")


def check_values(operation: str, **values: object) -> None:
    """Refuse values of options, by their names; None is always right.

    Args:
        operation: The operation or the node they are for; begins the error's message.

    Raises:
        TopologyError: One is of a wrong type; says which, and what it should be.
    """
    for option, value in values.items():
        if value is None:
            continue
        where = f"{operation}: {option}"
        if option.endswith("serde"):
            check_serde(where, value)
        elif option in _FUNCTIONS:
            if not callable(value):
                raise TopologyError(f"{where} must be a function, not {value!r}")
            check = checked_callback if option == "timestamp_extractor" else checked
            check(value, where, _FUNCTIONS[option])
        elif option in {"name", "store_name"}:
            check_name(value, "a node or store")
        elif option == "offset_reset" and value not in _OFFSET_RESETS:
            raise TopologyError(f"{where} {value!r} is none of {', '.join(_OFFSET_RESETS)}")
        elif option == "store_type" and not isinstance(value, StoreEngine):
            raise TopologyError(f"{where} must be a StoreEngine, not {value!r}")


def check_store_builder(builder: object, operation: str) -> None:
    """Refuse what can't build a store.

    Args:
        operation: Where; begins the error's message.

    Raises:
        TopologyError: It is not a store builder.
    """
    if not callable(getattr(builder, "build", None)) or not hasattr(builder, "name"):
        raise TopologyError(
            f"{operation} takes a store builder, not {builder!r}: make one with "
            "Stores.key_value_store_builder(...)"
        )
    check_name(builder.name, "a state store")


def refuse_expiring(builder: StoreBuilder, topic: str) -> None:
    """Refuse rows that expire in a store that is restored from a topic which others write.

    Raises:
        TopologyError: The store has a time to live.
    """
    if builder.store_kind.expires_rows:
        raise TopologyError(
            f"store {builder.name!r} has a ttl_ms and is restored from topic {topic!r}, where rows "
            "that it has let expire still are, and would come back: leave ttl_ms out, or let a "
            "table(...) expire rows into a topic that this reads"
        )


def stores_brought_by(supplier: object, node: str) -> tuple[StoreBuilder, ...]:
    """Return the builders of the stores that a node's supplier brings.

    Raises:
        TopologyError: What its `stores()` returns are no store builders.
    """
    # A class that is its own supplier has `stores` as a method of its objects, if at all.
    if not isinstance(supplier, ConnectsStores) or isinstance(supplier, type):
        return ()
    builders = tuple(supplier.stores() or ())
    for builder in builders:
        check_store_builder(builder, f"stores() of the supplier of processor {node!r}")
    return builders
