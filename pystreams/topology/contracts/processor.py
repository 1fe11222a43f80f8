"""The Processor API: what a user implements and what it is given.

A `Processor` receives records one at a time and may forward any number of them, keep state in
stores connected to it, and schedule punctuations. One object is made a task, by the supplier;
it is used by that task's thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from pystreams.ids import TaskId
from pystreams.record import Headers, Record, RecordMetadata
from pystreams.serdes import Serde

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")


class PunctuationType(Enum):
    """Which clock drives a punctuation."""

    STREAM_TIME = "stream time"
    """The highest timestamp the task has seen; stands still without records."""
    WALL_CLOCK_TIME = "wall-clock time"
    """The machine's clock; fires at most once a loop iteration, late ones are skipped."""


Punctuator = Callable[[int], None]
"""Called with the time (ms) of the clock that drives it."""


class Cancellable(Protocol):
    """A scheduled punctuation."""

    def cancel(self) -> None:
        """Stop it; safe to call twice, and from within the punctuator."""


class ProcessorContext(Protocol[KOut, VOut]):
    """What a processor may ask of its task. Valid from `init` to `close`, on the task's thread."""

    @property
    def application_id(self) -> str:
        """The application's id."""

    @property
    def task_id(self) -> TaskId:
        """The task this processor belongs to."""

    def forward(self, record: Record[KOut, VOut], child: str | None = None) -> None:
        """Send a record to all children, or to the child of that name.

        Raises:
            TopologyError: There is no child of that name.
        """

    def commit(self) -> None:
        """Ask for a commit of this task; it happens after the current record, not now."""

    @property
    def key_serde(self) -> Serde[Any]:
        """The configured `default.key.serde`; `ConfigError` if there is none."""

    @property
    def value_serde(self) -> Serde[Any]:
        """The configured `default.value.serde`; `ConfigError` if there is none."""

    @property
    def state_dir(self) -> Path:
        """The task's own directory, where its stores are; what else is put there stays its own.

        A `TopologyTestDriver` has one if it was made with a `state_directory`; else asking for it
        is a `TopologyError`.
        """

    def app_configs(self) -> dict[str, Any]:
        """Return the application's configuration by Kafka's names; may hold passwords."""

    def app_configs_with_prefix(self, prefix: str) -> dict[str, Any]:
        """Return what of the configuration begins with a prefix, without it."""

    def schedule(
        self,
        interval_ms: int,
        punctuation_type: PunctuationType,
        punctuator: Punctuator,
        *,
        start_time_ms: int | None = None,
    ) -> Cancellable:
        """Call `punctuator` every `interval_ms` milliseconds of the chosen clock.

        On stream time the first call follows the first record, on wall-clock time it comes one
        interval from now. Calls that were missed, where time has leapt, are not made up for.

        Args:
            interval_ms: How far apart calls are.
            punctuation_type: The clock.
            punctuator: Called with that clock's time (ms).
            start_time_ms: Time of the first call; later ones are whole intervals after it. If it
                has passed, the first call is at the next such time: with 0 and an interval of an
                hour, each full hour.

        Raises:
            ValueError: The interval is below one millisecond, or the start time below 0.
            TopologyError: One of them is no whole number, the type is none, or the punctuator is
                async or no function of a time.
        """

    def get_state_store(self, name: str) -> Any:
        """Return a store connected to this processor, or a global one, which it can only read.

        Raises:
            TopologyError: No such store is connected; says how to connect it.
        """

    def headers(self) -> Headers:
        """Return the headers of the record being processed; empty in a punctuation."""

    def record_metadata(self) -> RecordMetadata | None:
        """Return where the record being processed came from, None in a punctuation."""

    def current_stream_time_ms(self) -> int:
        """Return the task's stream time (ms), -1 before its first record."""

    def current_system_time_ms(self) -> int:
        """Return wall-clock time at the start of the loop iteration (ms)."""


class Processor(Generic[KIn, VIn, KOut, VOut]):
    """Base of the user's processors; override what is needed, `process` at least."""

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Keep the context, fetch stores, schedule punctuations."""

    def process(self, record: Record[KIn, VIn]) -> None:
        """Handle one record."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what `init` acquired; state stores are closed by the runtime."""


class FixedKeyProcessor(Generic[KIn, VIn, VOut]):
    """A processor that must not change the key, so that no repartitioning is needed after it."""

    def init(self, context: ProcessorContext[KIn, VOut]) -> None:
        """Keep the context, fetch stores, schedule punctuations."""

    def process(self, record: Record[KIn, VIn]) -> None:
        """Handle one record; forwarding it with another key raises `TopologyError`."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what `init` acquired."""


class ValueTransformerWithKey(Generic[KIn, VIn, VOut]):
    """What `KTable.transform_values` runs: makes a row's value, with state if it needs any."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        """Keep the context, fetch stores, schedule punctuations; it forwards nothing."""

    def transform(self, key: KIn, value: VIn | None) -> VOut | None:
        """Return the row's new value, None for no row.

        Args:
            key: The row's key.
            value: Its value; None when the row was deleted, or is not there when it is looked up.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release what `init` acquired."""


ProcessorSupplier = Callable[[], Processor[Any, Any, Any, Any]]
FixedKeyProcessorSupplier = Callable[[], FixedKeyProcessor[Any, Any, Any]]


class ProcessorWrapper:
    """Puts something around each processor of the user's, or in its place; override what is needed.

    Given to a `StreamsBuilder` or a `Topology`, and asked once for each processor that is added. If
    what it returns brings no stores, those that the given supplier brings are connected all the
    same.

    Differs from Kafka: operations of the DSL are no processors here and are not wrapped. And it is
    an argument, not the configuration's `processor.wrapper.class`: a topology is built without one.
    Spec: KIP-1112.
    """

    def wrap_processor_supplier(
        self, processor_name: str, processor_supplier: ProcessorSupplier
    ) -> ProcessorSupplier:
        """Return the supplier to use for a node of `process` or `Topology.add_processor`."""
        del processor_name
        return processor_supplier

    def wrap_fixed_key_processor_supplier(
        self, processor_name: str, processor_supplier: FixedKeyProcessorSupplier
    ) -> FixedKeyProcessorSupplier:
        """Return the supplier to use for a node that must keep the key, as of `process_values`."""
        del processor_name
        return processor_supplier


@runtime_checkable
class ConnectsStores(Protocol):
    """A supplier that brings its own stores: they are added and connected to its processor."""

    def stores(self) -> list[Any]:
        """Return the store builders: the same ones at each call, as a store is one builder."""
