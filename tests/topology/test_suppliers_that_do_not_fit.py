"""A supplier of a store that can't do what an operation asks is refused where it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pystreams import JoinWindows, Materialized, Stores, StreamsBuilder, TopologyError, serdes
from pystreams.stores.contracts.spec import StoreSupplier
from pystreams.stores.kinds.buffer.kind import BUFFER
from pystreams.stores.kinds.list.kind import LIST

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}

NO_TABLES: Mapping[str, StoreSupplier] = {
    "window": Stores.in_memory_window_store("kept", 10, 10),
    "session": Stores.persistent_session_store("kept", 10),
    "list-value": StoreSupplier("kept", LIST),
    "buffer": StoreSupplier("kept", BUFFER),
}
NO_JOINED_STREAMS: Mapping[str, StoreSupplier] = {
    "key-value": Stores.in_memory_key_value_store("kept"),
    "session": NO_TABLES["session"],
    "versioned": Stores.persistent_versioned_key_value_store("kept", 10),
    "list-value": NO_TABLES["list-value"],
    "buffer": NO_TABLES["buffer"],
}


def stream() -> Any:
    return StreamsBuilder().stream("in", **TEXT)


def table() -> Any:
    return StreamsBuilder().table("in", **TEXT)


def regrouped() -> Any:
    return table().group_by(lambda key, value: (value, key))


def one(*_: Any) -> int:
    return 1


def kept(_key: str, _value: str) -> bool:
    return True


OPERATIONS: Mapping[str, Callable[[Materialized[Any, Any]], object]] = {
    "table": lambda store: StreamsBuilder().table("in", materialized=store, **TEXT),
    "to_table": lambda store: stream().to_table(materialized=store),
    "count": lambda store: stream().group_by_key().count(materialized=store),
    "reduce": lambda store: stream().group_by_key().reduce(max, materialized=store),
    "aggregate": lambda store: stream().group_by_key().aggregate(int, one, materialized=store),
    "count of a table": lambda store: regrouped().count(materialized=store),
    "reduce of a table": lambda store: regrouped().reduce(max, min, materialized=store),
    "aggregate of a table": lambda store: regrouped().aggregate(int, one, one, materialized=store),
    "filter": lambda store: table().filter(kept, materialized=store),
    "filter_not": lambda store: table().filter_not(kept, materialized=store),
    "map_values": lambda store: table().map_values(str, materialized=store),
}


@pytest.mark.parametrize("kind", NO_TABLES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_table_is_not_kept_in_a_store_of_another_kind(operation: str, kind: str) -> None:
    with pytest.raises(TopologyError) as refused:
        OPERATIONS[operation](Materialized(supplier=NO_TABLES[kind]))

    assert str(refused.value) == (
        f"{operation.partition(' ')[0]}: store 'kept' is a {kind} store, which can't hold a table: "
        "make its supplier with Stores.persistent_timestamped_key_value_store, "
        "in_memory_key_value_store or persistent_versioned_key_value_store"
    )


@pytest.mark.parametrize(
    "supplier",
    [
        Stores.in_memory_key_value_store("kept"),
        Stores.lru_map("kept", 3),
        NO_JOINED_STREAMS["versioned"],
    ],
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_it_is_kept_in_what_the_message_names(operation: str, supplier: StoreSupplier) -> None:
    OPERATIONS[operation](Materialized(supplier=supplier))


@pytest.mark.parametrize("kind", NO_JOINED_STREAMS)
@pytest.mark.parametrize("side", ["this_store_supplier", "other_store_supplier"])
@pytest.mark.parametrize("operation", ["join", "left_join", "outer_join"])
def test_a_join_of_two_streams_keeps_its_records_in_window_stores_only(
    operation: str, side: str, kind: str
) -> None:
    builder = StreamsBuilder()
    left, right = builder.stream("left", **TEXT), builder.stream("right", **TEXT)
    windows = JoinWindows.of_time_difference_and_grace(5, 5)
    supplier: Any = {side: NO_JOINED_STREAMS[kind]}

    with pytest.raises(TopologyError) as refused:
        getattr(left, operation)(right, one, windows, **supplier)

    assert str(refused.value) == (
        f"StreamJoined: {side}: store 'kept' is a {kind} store, in which a join finds no windows: "
        "its supplier must be made with Stores.persistent_window_store or in_memory_window_store"
    )
