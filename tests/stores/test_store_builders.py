"""What `Stores` and its builders describe, and what is built from it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import (
    StateStoreError,
    StoreEngine,
    StoreKind,
    Stores,
    TopologyError,
    ValueAndTimestamp,
    serdes,
)
from pystreams.stores.contracts.spec import Retention, StoreSpec, StoreSupplier
from pystreams.stores.engines.memory import MemoryEngine
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.kinds.versioned.kind import VERSIONED
from pystreams.stores.kinds.window.kind import WINDOW
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.stores.support import CHANGELOG, Home

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_builders_are_changed_by_copy() -> None:
    first = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("s"), serdes.STRING, serdes.LONG
    )
    second = first.with_caching_enabled().with_logging_enabled({"segment.bytes": "1"})
    assert first.spec == StoreSpec("s", KEY_VALUE, key_serde=serdes.STRING, value_serde=serdes.LONG)
    assert (second.spec.caching, second.logging, second.changelog_config) == (
        True,
        True,
        {"segment.bytes": "1"},
    )
    third = second.with_logging_disabled().with_caching_disabled()
    assert (third.name, third.spec.caching, third.logging, third.changelog_config) == (
        "s",
        False,
        False,
        {},
    )


@pytest.mark.parametrize(
    ("supplier", "engine", "engine_timestamped"),
    [
        (Stores.persistent_timestamped_key_value_store("s"), StoreEngine.ROCKSDB, True),
        (Stores.persistent_key_value_store("s"), StoreEngine.ROCKSDB, False),
        (Stores.in_memory_key_value_store("s"), StoreEngine.IN_MEMORY, True),
        (Stores.custom_key_value_store("s", MemoryEngine), StoreEngine.ROCKSDB, False),
        (Stores.custom_key_value_store("s", MemoryEngine, timestamped=True), None, True),
    ],
)
def test_a_timestamped_store_keeps_timestamps_where_the_supplier_can(
    supplier: StoreSupplier, engine: StoreEngine | None, *, engine_timestamped: bool
) -> None:
    """Spec: Kafka TimestampedKeyValueStoreBuilder."""
    spec = Stores.timestamped_key_value_store_builder(supplier).spec
    assert spec.timestamped
    assert spec.engine_timestamped is engine_timestamped
    if engine is not None:
        assert spec.engine is engine


@pytest.mark.parametrize(
    "builder",
    [
        Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("s"), serdes.STRING, serdes.JSON
        ),
        Stores.timestamped_key_value_store_builder(
            Stores.in_memory_key_value_store("s"), serdes.STRING, serdes.JSON
        ),
        Stores.timestamped_key_value_store_builder(
            Stores.custom_key_value_store("s", MemoryEngine, timestamped=True),
            serdes.STRING,
            serdes.JSON,
        ),
    ],
)
def test_what_a_builder_builds_works(builder: StoreSpecBuilder, tmp_path: Path) -> None:
    store: Any = builder.build()
    assert (store.name, store.is_open) == ("s", False)
    store.init(Home(tmp_path).context())
    store.put("a", ValueAndTimestamp([1], 5))
    assert store.get("a") == ([1], 5)
    assert builder.build() is not store
    store.close()


def test_a_plain_store_over_a_timestamped_supplier_is_refused() -> None:
    with pytest.raises(TopologyError, match="use timestamped_key_value_store_builder"):
        Stores.key_value_store_builder(Stores.persistent_timestamped_key_value_store("s"))


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "x" * 250])
def test_names_that_cannot_be_topics_are_refused(name: str) -> None:
    with pytest.raises(TopologyError, match="is not valid"):
        Stores.in_memory_key_value_store(name)


@pytest.mark.parametrize(
    ("retention_ms", "interval_ms"), [(0, 60_000), (120_000, 60_000), (500_001, 250_000)]
)
def test_a_session_store_drops_by_half_its_retention_but_by_a_minute_at_least(
    retention_ms: int, interval_ms: int
) -> None:
    on_disk = Stores.persistent_session_store("s", retention_ms)
    assert on_disk.retention == Retention(retention_ms, interval_ms)
    in_memory = Stores.in_memory_session_store("s", retention_ms)
    assert in_memory == replace(on_disk, engine=StoreEngine.IN_MEMORY)
    spec = Stores.session_store_builder(on_disk, serdes.STRING, serdes.LONG).spec
    assert (spec.kind, spec.retention) == (SESSION, on_disk.retention)


def test_the_changelog_of_a_session_store_is_kept_for_the_retention_and_some_time() -> None:
    builder = Stores.session_store_builder(Stores.persistent_session_store("s", 1000))
    assert builder.changelog_defaults(500) == {
        "cleanup.policy": "compact,delete",
        "retention.ms": "1500",
    }


def test_a_session_store_with_a_negative_retention_is_refused() -> None:
    with pytest.raises(TopologyError, match="retention_ms must be 0 or more, not -1"):
        Stores.in_memory_session_store("s", -1)


SUPPLIERS = {
    KEY_VALUE: Stores.persistent_key_value_store("s"),
    WINDOW: Stores.persistent_window_store("s", 10, 10),
    SESSION: Stores.persistent_session_store("s", 10),
    VERSIONED: Stores.persistent_versioned_key_value_store("s", 10),
}
BUILDERS: dict[StoreKind, Any] = {
    KEY_VALUE: Stores.key_value_store_builder,
    WINDOW: Stores.window_store_builder,
    SESSION: Stores.session_store_builder,
    VERSIONED: Stores.versioned_key_value_store_builder,
}


@pytest.mark.parametrize("kind", BUILDERS)
def test_builders_refuse_suppliers_of_other_kinds(kind: StoreKind) -> None:
    assert BUILDERS[kind](SUPPLIERS[kind]).spec.kind is kind
    for other, supplier in SUPPLIERS.items():
        if other is not kind:
            refusal = rf"a {kind.name} store needs a supplier of one.*a {other.name} store"
            with pytest.raises(TopologyError, match=refusal):
                BUILDERS[kind](supplier)


def test_a_window_store_has_kafkas_segments_and_changelog_settings() -> None:
    supplier = Stores.persistent_window_store("s", 600_000, 60_000)
    spec = Stores.window_store_builder(supplier).spec
    assert spec.retention == Retention(600_000, 300_000, window_size_ms=60_000)
    assert Stores.in_memory_window_store("s", 5, 5).retention == Retention(5, 60_000, 5)
    assert spec.changelog_defaults(86_400_000) == {
        "cleanup.policy": "compact,delete",
        "retention.ms": "87000000",
    }


def test_what_is_kept_for_ever_has_settings_that_kafka_can_read() -> None:
    longest_ms = (1 << 63) - 1
    windows = Stores.persistent_window_store("s", longest_ms, 5)
    history = Stores.persistent_versioned_key_value_store("s", longest_ms)
    builder = Stores.versioned_key_value_store_builder(history, serdes.STRING, serdes.STRING)

    kept = Stores.window_store_builder(windows).changelog_defaults(86_400_000)["retention.ms"]
    assert int(kept) == longest_ms
    assert int(builder.changelog_defaults(86_400_000)["min.compaction.lag.ms"]) == longest_ms


@pytest.mark.parametrize(
    ("retention_ms", "window_size_ms", "message"),
    [
        (-1, 0, "retention_ms must be 0 or more, not -1"),
        (5, -1, "window_size_ms must be 0 or more, not -1"),
        (5, 6, "retention_ms 5 is less than window_size_ms 6"),
    ],
)
def test_times_of_a_window_store_that_make_no_sense_are_refused(
    retention_ms: int, window_size_ms: int, message: str
) -> None:
    for make in (Stores.persistent_window_store, Stores.in_memory_window_store):
        with pytest.raises(TopologyError, match=message):
            make("s", retention_ms, window_size_ms)


def test_window_builders_refuse_suppliers_of_another_kind() -> None:
    key_value = Stores.persistent_key_value_store("s")
    for build in (Stores.window_store_builder, Stores.timestamped_window_store_builder):
        with pytest.raises(TopologyError, match="supplier"):
            build(key_value)
    timestamped = Stores.persistent_timestamped_window_store("s", 10, 5)
    with pytest.raises(TopologyError, match="can't be built over a timestamped supplier"):
        Stores.window_store_builder(timestamped)


SEGMENTED: dict[str, Callable[..., StoreSupplier]] = {
    "persistent_window_store": partial(Stores.persistent_window_store, "s", 600_000, 60_000),
    "persistent_timestamped_window_store": partial(
        Stores.persistent_timestamped_window_store, "s", 600_000, 60_000
    ),
    "in_memory_window_store": partial(Stores.in_memory_window_store, "s", 600_000, 60_000),
    "persistent_session_store": partial(Stores.persistent_session_store, "s", 600_000),
    "in_memory_session_store": partial(Stores.in_memory_session_store, "s", 600_000),
    "persistent_versioned_key_value_store": partial(
        Stores.persistent_versioned_key_value_store, "s", 600_000
    ),
}


@pytest.mark.parametrize("name", SEGMENTED)
def test_a_segment_covers_what_it_is_told_to(name: str) -> None:
    retention = SEGMENTED[name](segment_interval_ms=1_000).retention
    assert retention is not None
    assert (retention.retention_ms, retention.segment_interval_ms) == (600_000, 1_000)


@pytest.mark.parametrize("name", SEGMENTED)
def test_a_segment_that_covers_nothing_is_refused(name: str) -> None:
    with pytest.raises(TopologyError, match="'s': segment_interval_ms must be 1 or more, not 0"):
        SEGMENTED[name](segment_interval_ms=0)


@pytest.mark.parametrize(
    ("factory", "numbers", "message"),
    [
        ("persistent_window_store", (600_000.5, 10), "retention_ms .* 600000.5"),
        ("in_memory_window_store", (10, 1.0), "window_size_ms .* not 1.0"),
        ("persistent_session_store", (True,), "retention_ms .* not True"),
        ("in_memory_session_store", ("1",), "retention_ms .* not '1'"),
        ("persistent_versioned_key_value_store", (None,), "history_retention_ms .* not None"),
        ("lru_map", (1.5,), "max_entries .* not 1.5"),
    ],
)
def test_times_and_numbers_that_are_not_whole_are_refused(
    factory: str, numbers: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(TopologyError, match=f"'s': {message}"):
        getattr(Stores, factory)("s", *numbers)


@pytest.mark.parametrize("name", [None, 7, "", "a b"])
def test_a_name_that_can_be_no_topic_s_is_refused(name: Any) -> None:
    for make in (Stores.persistent_key_value_store, Stores.in_memory_key_value_store):
        with pytest.raises(TopologyError, match=f"store name {name!r} is not valid"):
            make(name)


def test_another_retention_keeps_the_data_of_a_store_that_keeps_its_segments(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)

    def opened(retention_ms: int, segment_interval_ms: int | None) -> Any:
        supplier = Stores.persistent_window_store(
            "s", retention_ms, 1_000, segment_interval_ms=segment_interval_ms
        )
        builder = Stores.window_store_builder(supplier, serdes.STRING, serdes.LONG)
        return home.open_builder(builder)

    store = opened(600_000, None)
    store.put("a", 1, 5_000)
    store.commit({CHANGELOG: 0})
    store.close()

    with pytest.raises(StateStoreError, match=r"segments of 300000 ms.*interval_ms=300000"):
        opened(7_200_000, None)
    store = opened(7_200_000, 300_000)
    found = store.fetch("a", 5_000)
    store.close()
    assert found == 1


BUILDERS_OF: dict[str, tuple[Callable[..., StoreSpecBuilder], StoreSupplier]] = {
    "key_value": (Stores.key_value_store_builder, Stores.in_memory_key_value_store("s")),
    "timestamped": (
        Stores.timestamped_key_value_store_builder,
        Stores.persistent_timestamped_key_value_store("s"),
    ),
    "versioned": (
        Stores.versioned_key_value_store_builder,
        Stores.persistent_versioned_key_value_store("s", 60_000),
    ),
    "window": (Stores.window_store_builder, Stores.persistent_window_store("s", 60_000, 10_000)),
    "session": (Stores.session_store_builder, Stores.persistent_session_store("s", 60_000)),
}


@pytest.mark.parametrize("kind", BUILDERS_OF)
def test_a_builder_refuses_what_is_no_supplier_and_no_serde(kind: str) -> None:
    build, supplier = BUILDERS_OF[kind]
    with pytest.raises(TopologyError, match=r"takes a supplier, not 's': make one with Stores\."):
        build("s", serdes.STRING, serdes.STRING)
    for wrong in (str, "string", type(serdes.STRING)):
        with pytest.raises(TopologyError, match="store 's': value_serde must be a serde"):
            build(supplier, serdes.STRING, wrong)
        with pytest.raises(TopologyError, match="store 's': key_serde must be a serde"):
            build(supplier, wrong)


def test_settings_of_a_changelog_that_are_no_mapping_are_refused() -> None:
    builder = Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"))
    wrong: Any = ["segment.bytes"]
    with pytest.raises(TopologyError, match="store 's': config must be topic settings"):
        builder.with_logging_enabled(wrong)
