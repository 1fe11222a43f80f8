"""Stores whose methods are timed: what processors are given at `metrics.recording.level` DEBUG.

A kind of store declares which of its methods are metered, and as which operation, in a class
attribute; nothing else in it knows of metrics:

    metered_methods: ClassVar[Mapping[str, str]] = {
        "get": "get", "get_with_timestamp": "get", "put": "put", "range": "range", ...
    }

The operations are those of `stream-state-metrics` (`pystreams.metrics.definitions.OPERATIONS`). A
method that returns an iterator is timed up to the iterator's end, since only then its work is done.

At INFO nobody makes such a store, so that a call costs nothing more. Methods that a store calls on
itself are not metered: `put_all` is one put-all and no put, as in Kafka.

Source: Kafka's `MeteredKeyValueStore` and its siblings. Differs from Kafka: queries from other
threads are not metered, they don't pass through here; and an iterator that is dropped before its
end counts as closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pystreams.errors import TopologyError
from pystreams.metrics import Recording, SampledValues
from pystreams.metrics.definitions import OPERATIONS


class StoreMeters:
    """What is measured on one store: its commits always, the rest at DEBUG.

    Threads: the owner records, any thread may read.

    Args:
        store_type: What stands before `-state-id` in the tag that names the store.

    Attributes:
        store_type: What stands before `-state-id` in the tag that names the store.
        monotonic_ms: The timer (ms).
        commits: Latencies of commits (ms).
        uncommitted_bytes: What the store said it holds uncommitted when its owner last asked, after
            a run of records, a commit or a rollback.
        cached_bytes: What it said it holds back in its record cache, likewise.
        operations: Latencies of calls (ms), by operation; empty at INFO.
        samples: What else was sampled, by the name of its metrics; empty at INFO.
        open_iterators: Iterators that are neither exhausted nor closed; 0 at INFO.
        debug: Whether operations are measured.
        restored_records: Changelog records applied to it.
    """

    __slots__ = (
        "_recording",
        "cached_bytes",
        "commits",
        "debug",
        "monotonic_ms",
        "open_iterators",
        "operations",
        "restored_records",
        "samples",
        "store_type",
        "uncommitted_bytes",
    )

    def __init__(self, store_type: str, recording: Recording) -> None:
        self.store_type = store_type
        self.monotonic_ms = recording.monotonic_ms
        self.commits = recording.sampled()
        self.uncommitted_bytes = 0
        self.cached_bytes = 0
        self.operations: dict[str, SampledValues] = {}
        self.samples: dict[str, SampledValues] = {}
        self.open_iterators = 0
        self.restored_records = 0
        self.debug = recording.debug
        self._recording = recording

    def operation(self, name: str) -> SampledValues:
        """Return what records the latencies of an operation."""
        found = self.operations.get(name)
        if found is None:
            found = self.operations[name] = self._recording.sampled()
        return found

    def sample(self, values: Mapping[str, float]) -> None:
        """Record values by the names of their metrics, as they are now."""
        now_ms = self.monotonic_ms()
        for name, value in values.items():
            found = self.samples.get(name)
            if found is None:
                found = self.samples[name] = self._recording.sampled()
            found.record(value, now_ms)

    def timed(self, action: Callable[[], None], latencies: SampledValues) -> None:
        """Run an action and record how long it took; nothing is recorded when it raises."""
        started_ms = self.monotonic_ms()
        action()
        ended_ms = self.monotonic_ms()
        latencies.record(ended_ms - started_ms, ended_ms)


class MeteredStore:
    """A store whose declared methods are timed; all else is the store's own.

    Args:
        methods: Operation by name of method.
    """

    def __init__(self, store: Any, meters: StoreMeters, methods: Mapping[str, str]) -> None:
        self._store = store
        for method, operation in methods.items():
            timed = _timed(getattr(store, method), meters, meters.operation(operation))
            # Found before `__getattr__` is asked: one call in between, no look-up.
            setattr(self, method, timed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def as_processors_see_it(store: Any, meters: StoreMeters) -> Any:
    """Return what processors are given of a store: itself, or at DEBUG a `MeteredStore` of it.

    Raises:
        TopologyError: The store's class declares an operation that there is none of.
    """
    methods: Mapping[str, str] = store.metered_methods
    if not meters.debug or not methods:
        return store
    unknown = sorted(set(methods.values()) - set(OPERATIONS))
    if unknown:
        raise TopologyError(
            f"{type(store).__name__}.metered_methods names {unknown}, which are no operations of "
            f"stores: {', '.join(OPERATIONS)}"
        )
    return MeteredStore(store, meters, methods)


class _MeteredIterator:
    """An iterator whose end is the end of the call that opened it."""

    __slots__ = ("_entries", "_latencies", "_meters", "_open", "_started_ms")

    def __init__(
        self, entries: Iterator[Any], meters: StoreMeters, latencies: SampledValues, began_ms: float
    ) -> None:
        self._entries = entries
        self._meters = meters
        self._latencies = latencies
        self._started_ms = began_ms
        self._open = True
        meters.open_iterators += 1

    def __iter__(self) -> _MeteredIterator:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._entries)
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """Close the iterator; safe to call twice."""
        close = getattr(self._entries, "close", None)
        if close is not None:
            close()
        self._end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entries, name)

    def __del__(self) -> None:
        self._end()

    def _end(self) -> None:
        if self._open:
            self._open = False
            meters = self._meters
            meters.open_iterators -= 1
            now_ms = meters.monotonic_ms()
            self._latencies.record(now_ms - self._started_ms, now_ms)


def _timed(
    method: Callable[..., Any], meters: StoreMeters, latencies: SampledValues
) -> Callable[..., Any]:
    monotonic_ms = meters.monotonic_ms

    def timed(*arguments: Any, **keywords: Any) -> Any:
        started_ms = monotonic_ms()
        result = method(*arguments, **keywords)
        if hasattr(result, "__next__"):
            return _MeteredIterator(result, meters, latencies, started_ms)
        ended_ms = monotonic_ms()
        latencies.record(ended_ms - started_ms, ended_ms)
        return result

    return timed
