"""With what a `TopologyTestDriver` runs its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pystreams.config import StreamsConfig
from pystreams.config.resolution import Source
from pystreams.runtime.adapters.event_loop import EventLoop
from pystreams.runtime.core.global_stores import GlobalStores
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.settings import build_as_asked, task_settings
from pystreams.stores.contracts.key_value import StateStore
from pystreams.stores.contracts.spec import StoreEngine
from pystreams.stores.store_builder import StoreBuilder
from pystreams.testing.told_damage import DAMAGE_CURE
from pystreams.topology.contracts.operator import TraceStep


def driver_config(config: StreamsConfig | Mapping[str, Any] | None) -> StreamsConfig:
    """Return the configuration, with the driver's own defaults where a mapping is given."""
    if isinstance(config, StreamsConfig):
        return config
    defaults = {
        "application.id": "test-driver",
        "bootstrap.servers": "localhost:9092",
        "outer.join.emit.interval.ms": 0,
        "window.emit.interval.ms": 0,
    }
    return StreamsConfig.from_sources([Source("", config or {}), Source("", defaults)])


def driver_task_settings(
    config: StreamsConfig,
    *,
    in_memory: bool,
    event_loop: EventLoop,
    global_stores: GlobalStores,
    trace: TraceStep | None,
) -> TaskSettings:
    """Return what all tasks of a driver share.

    Args:
        in_memory: Whether stores keep their bytes in memory whatever engine they name.
        trace: Put around the step of each node.
    """
    settings = task_settings(
        config,
        num_partitions=lambda _: 1,
        async_calls=event_loop.calls,
        build=_build_in_memory if in_memory else build_as_asked,
        global_stores=global_stores,
    )
    stores = replace(settings.stores, damage_cure=DAMAGE_CURE)
    return replace(settings, stores=stores, trace=trace)


def _build_in_memory(builder: StoreBuilder) -> StateStore:
    """Make a store; its bytes are in memory, unless it keeps them in a way of its own."""
    return (builder if builder.engine is None else builder.over(StoreEngine.IN_MEMORY)).build()
