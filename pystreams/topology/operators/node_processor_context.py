"""What a user's object at a node is made by and given: its supplier, and its `ProcessorContext`."""

# ruff: noqa: D102 - `ProcessorContext` says what the methods do.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pystreams.errors import ProcessingError, TopologyError
from pystreams.exception_texts import named_exception
from pystreams.ids import TaskId
from pystreams.record import MAX_TIME, Headers, Record, RecordMetadata
from pystreams.serdes import Serde
from pystreams.stores.contracts.read_only_store import ReadOnlyStore
from pystreams.topology.contracts.numbers import check_number
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.contracts.processor import Cancellable, PunctuationType, Punctuator
from pystreams.topology.contracts.record_parts import checked_headers, checked_time
from pystreams.topology.contracts.user_functions import checked_callback

Made = TypeVar("Made")


def supplied(supplier: Callable[[], Made], node: NodeContext) -> Made:
    """Return what a user's supplier makes for a task.

    Raises:
        ProcessingError: The supplier raised.
    """
    try:
        return supplier()
    except Exception as error:
        task_id, name = node.task.task_id, node.name
        message = (
            f"{task_id.told}: the supplier of processor {name!r} raised {named_exception(error)}"
        )
        raise ProcessingError(message, task_id=task_id, node=name) from error


class NodeProcessorContext:
    """The `ProcessorContext` of one processor node in one task.

    Args:
        fixed_key: Refuse to forward a record whose key is not the input's.

    Attributes:
        input_key: Key of the record that the processor is given.
    """

    __slots__ = ("_children", "_fixed_key", "_forward", "_node", "_record", "_task", "input_key")

    def __init__(self, node: NodeContext, *, fixed_key: bool) -> None:
        self._node = node
        self._task = node.task
        self._record = node.task.record
        self._forward = node.forward
        self._children = node.children
        self._fixed_key = fixed_key
        self.input_key: Any = None

    @property
    def application_id(self) -> str:
        return self._task.application_id

    @property
    def task_id(self) -> TaskId:
        return self._task.task_id

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        step = self._forward if child is None else self._child(child)
        try:
            timestamp, headers = record.timestamp, record.headers
        except AttributeError:
            raise self._no_record(record) from None
        if self._fixed_key and record.key is not self.input_key and record.key != self.input_key:
            message = (
                f"processor {self._node.name!r} forwarded key {record.key!r} for input key "
                f"{self.input_key!r}: process_values must keep the key; use process instead"
            )
            raise TopologyError(message)
        context = self._record
        own_timestamp, own_headers, input_key = context.timestamp, context.headers, self.input_key
        # What is the input's was looked at before; there is none yet in `init`.
        if timestamp is not own_timestamp or own_timestamp < 0:
            timestamp = self._checked_timestamp(timestamp)
        if headers is not own_headers and headers != ():
            where = f"processor {self._node.name!r}: the headers of a record it forwards"
            headers = checked_headers(where, headers)
        step(record.key, record.value, timestamp, headers)
        # Children may have moved the context on; the processor still handles its own record.
        context.timestamp, context.headers, self.input_key = own_timestamp, own_headers, input_key

    def commit(self) -> None:
        self._task.request_commit()

    @property
    def key_serde(self) -> Serde[Any]:
        return self._task.key_serde(None, self._node.name)

    @property
    def value_serde(self) -> Serde[Any]:
        return self._task.value_serde(None, self._node.name)

    @property
    def state_dir(self) -> Path:
        directory = self._task.state_directory
        if not directory.is_dir():
            raise TopologyError(
                f"processor {self._node.name!r} asks for its state_dir, and task "
                f"{self._task.task_id} has none: make the TopologyTestDriver with state_directory="
            )
        return directory

    def app_configs(self) -> dict[str, Any]:
        return dict(self._task.app_configs)

    def app_configs_with_prefix(self, prefix: str) -> dict[str, Any]:
        return {
            key.removeprefix(prefix): value
            for key, value in self._task.app_configs.items()
            if key.startswith(prefix)
        }

    def schedule(
        self,
        interval_ms: int,
        punctuation_type: PunctuationType,
        punctuator: Punctuator,
        *,
        start_time_ms: int | None = None,
    ) -> Cancellable:
        where = f"processor {self._node.name!r}"
        _check_schedule(where, interval_ms, punctuation_type, start_time_ms)
        checked_callback(punctuator, f"{where}: punctuator", ("timestamp",))
        return self._task.schedule(
            self._node.name, interval_ms, punctuation_type, punctuator, start_time_ms
        )

    def get_state_store(self, name: str) -> Any:
        if name not in self._node.stores:
            if (shared := self._task.global_store(name, self._node.name)) is not None:
                return shared
            message = (
                f"processor {self._node.name!r} asks for state store {name!r}, which is not "
                f"connected to it (connected: {sorted(self._node.stores)}): name it in "
                "process(..., stores=[...]) or in connect_processor_and_state_stores(...)"
            )
            raise TopologyError(message)
        store, topic = self._task.store(name), self._node.restored_from.get(name)
        return store if topic is None else ReadOnlyStore(store, self._no_write(topic))

    def headers(self) -> Headers:
        return self._record.headers

    def record_metadata(self) -> RecordMetadata | None:
        return self._record.metadata()

    def current_stream_time_ms(self) -> int:
        return self._task.time.stream_time

    def current_system_time_ms(self) -> int:
        return self._task.time.now_ms

    def _no_write(self, topic: str) -> str:
        return (
            f"it is restored from topic {topic!r}, and only what fills it from there may write "
            f"into it, not processor {self._node.name!r}, whose writes would be gone after a "
            "restore: send the record to that topic"
        )

    def _no_record(self, given: object) -> TypeError:
        return TypeError(
            f"processor {self._node.name!r}: forward takes a Record, as in record.with_value(...) "
            f"or Record(key, value, timestamp), not {given!r}"
        )

    def _checked_timestamp(self, timestamp: Any) -> int:
        if type(timestamp) is int and 0 <= timestamp <= MAX_TIME:
            return timestamp
        where = f"processor {self._node.name!r}"
        time = checked_time(f"{where}: the timestamp of a record it forwards", timestamp)
        if time < 0:
            raise ValueError(
                f"{where} forwarded a record with timestamp {time}: a timestamp is 0 ms or more"
            )
        return time

    def _child(self, name: str) -> Step:
        step = self._children.get(name)
        if step is None:
            message = (
                f"processor {self._node.name!r} forwards to {name!r}, which is none of its "
                f"children {sorted(self._children)}"
            )
            raise TopologyError(message)
        return step


def _check_schedule(where: str, interval_ms: int, kind: object, start_time_ms: int | None) -> None:
    """Refuse what can't be when to call a punctuator."""
    check_number(where, "interval_ms", interval_ms, None)
    if interval_ms < 1:
        raise ValueError(f"{where}: schedule every 1 ms or more, not {interval_ms}")
    if not isinstance(kind, PunctuationType):
        raise TopologyError(
            f"{where}: punctuation_type is PunctuationType.STREAM_TIME or .WALL_CLOCK_TIME, "
            f"not {kind!r}"
        )
    if start_time_ms is None:
        return
    check_number(where, "start_time_ms", start_time_ms, None)
    if start_time_ms < 0:
        raise ValueError(f"{where}: a schedule starts at 0 ms or later, not at {start_time_ms}")
