"""`Suppressed` and `BufferConfig`: when a table's changes go on, and how much may wait meanwhile.

Source: Kafka Streams' `Suppressed`, `SuppressedInternal`, `FinalResultsSuppressionBuilder`,
`StrictBufferConfigImpl`, `EagerBufferConfigImpl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Generic

from pystreams.errors import TopologyError
from pystreams.stores.contracts.spec import StoreEngine
from pystreams.stores.contracts.window import Windowed
from pystreams.topology.contracts.numbers import check_number
from pystreams.topology.options.given_options import CheckedOptions
from pystreams.topology.options.type_variables import K


class BufferFullStrategy(Enum):
    """What a suppression does when it holds back more than it may."""

    EMIT = "emit early"
    SHUT_DOWN = "shut down"


@dataclass(frozen=True)
class BufferConfig(CheckedOptions):
    """How much a suppression may hold back, what it does then, and where it holds it.

    Made by `unbounded`, `max_records` or `max_bytes`; the other methods return a changed one. The
    bounds hold for each task, which is for each partition.

    Attributes:
        record_limit: How many keys may wait; None for any number.
        byte_limit: How many bytes of keys, values and headers may wait; None for any number.
        when_full: What happens beyond that.
        logging: Whether the buffer has a changelog topic, from which a lost one is restored.
        log_config: Topic configuration of the changelog, over the defaults.
        store_type: RocksDB or memory; RocksDB when None. Not in Kafka, which knows memory alone.
    """

    record_limit: int | None = None
    byte_limit: int | None = None
    when_full: BufferFullStrategy = BufferFullStrategy.SHUT_DOWN
    logging: bool = True
    log_config: Mapping[str, str] = field(default_factory=dict)
    store_type: StoreEngine | None = None

    def __post_init__(self) -> None:
        """Refuse options of a wrong type, and bounds below 0."""
        super().__post_init__()
        for name, limit in (("max_records", self.record_limit), ("max_bytes", self.byte_limit)):
            if limit is not None:
                check_number("BufferConfig", name, limit, 0, "")

    @classmethod
    def unbounded(cls, *, store_type: StoreEngine | None = None) -> BufferConfig:
        """Hold back whatever comes."""
        return cls(store_type=store_type)

    @classmethod
    def max_records(
        cls, record_limit: int, *, store_type: StoreEngine | None = None
    ) -> BufferConfig:
        """Hold back up to so many keys, and let the earliest go early beyond that."""
        return cls(record_limit, None, BufferFullStrategy.EMIT, store_type=store_type)

    @classmethod
    def max_bytes(cls, byte_limit: int, *, store_type: StoreEngine | None = None) -> BufferConfig:
        """Hold back up to so many bytes, and let the earliest go early beyond that."""
        return cls(None, byte_limit, BufferFullStrategy.EMIT, store_type=store_type)

    def with_max_records(self, record_limit: int) -> BufferConfig:
        """Return this configuration with another bound on keys."""
        return replace(self, record_limit=record_limit)

    def with_max_bytes(self, byte_limit: int) -> BufferConfig:
        """Return this configuration with another bound on bytes."""
        return replace(self, byte_limit=byte_limit)

    def with_no_bound(self) -> BufferConfig:
        """Return this configuration without bounds."""
        return replace(
            self, record_limit=None, byte_limit=None, when_full=BufferFullStrategy.SHUT_DOWN
        )

    def shut_down_when_full(self) -> BufferConfig:
        """Return this configuration, to stop the application when a bound is passed.

        What waits never leaves early then.
        """
        return replace(self, when_full=BufferFullStrategy.SHUT_DOWN)

    def emit_early_when_full(self) -> BufferConfig:
        """Return this configuration, to let the earliest go early when a bound is passed."""
        return replace(self, when_full=BufferFullStrategy.EMIT)

    def with_logging_enabled(self, config: Mapping[str, str] | None = None) -> BufferConfig:
        """Return this configuration with a changelog topic (the default).

        Args:
            config: Topic settings for it, such as `{"segment.bytes": "104857600"}`; None for none.
        """
        return replace(self, logging=True, log_config=dict(config or {}))

    def with_logging_disabled(self) -> BufferConfig:
        """Return this configuration without a changelog: what waits may be lost with its disk."""
        return replace(self, logging=False, log_config={})


@dataclass(frozen=True)
class Suppressed(CheckedOptions, Generic[K]):
    """When the changes of a table go on; made by `until_window_closes` or `until_time_limit`.

    Attributes:
        buffer_config: How much may wait.
        time_to_wait_ms: How long each key waits, in stream time; None until its window closes.
        name: The node's name; its store's begins with it. None generates both.
    """

    buffer_config: BufferConfig
    time_to_wait_ms: int | None
    name: str | None = None

    def __post_init__(self) -> None:
        """Refuse options of a wrong type, and what could not be kept."""
        super().__post_init__()
        if not isinstance(self.buffer_config, BufferConfig):
            raise TopologyError(
                "Suppressed: buffer_config must be a BufferConfig, such as "
                f"BufferConfig.unbounded(), not {self.buffer_config!r}"
            )

    @classmethod
    def until_window_closes(cls, buffer_config: BufferConfig) -> Suppressed[Windowed[Any]]:
        """Send on one result a window: the last one, when its grace period has passed.

        For windowed tables. A window that holds nothing at its end is not sent on.

        Args:
            buffer_config: One that never lets go early: unbounded, or `shut_down_when_full`.

        Raises:
            TopologyError: It lets go early, so that results would not be final.
        """
        suppressed: Suppressed[Windowed[Any]] = Suppressed(buffer_config, None)
        if buffer_config.when_full is BufferFullStrategy.EMIT:
            raise TopologyError(
                "Suppressed.until_window_closes: a buffer that lets windows go early can't give "
                "final results: add .shut_down_when_full() to its configuration, or use "
                "BufferConfig.unbounded()"
            )
        return suppressed

    @classmethod
    def until_time_limit(cls, time_to_wait_ms: int, buffer_config: BufferConfig) -> Suppressed[Any]:
        """Send on one change a key for each such time: the last one there was.

        Args:
            time_to_wait_ms: How long after the key's first change, in stream time (ms); 0 sends
                each change on at once.
            buffer_config: How much may wait.

        Raises:
            TopologyError: The time is below 0.
        """
        check_number("Suppressed.until_time_limit", "time_to_wait_ms", time_to_wait_ms, 0)
        return Suppressed(buffer_config, time_to_wait_ms)

    def with_name(self, name: str) -> Suppressed[K]:
        """Return this with a name for the node; its store is called `<name>-store`."""
        return replace(self, name=name)
