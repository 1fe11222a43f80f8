"""What the typed stores have in common: reads through serdes, and the runtime's side of the life.

`TypedReader` turns bytes-level reads into typed ones, for an owner's store and for the views of
other threads alike. `TypedStore` adds what `StateStore` asks, by handing it to the buffer.
`key_value` and `timestamped` add `get` and `put`, where every nanosecond counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import structlog

from pystreams.errors import SerializationError, StoreNotAvailableError, TopologyError
from pystreams.record import ConsumedMessage, RecordContext
from pystreams.serdes import Serde, serialize_or_raise
from pystreams.stores.views import BytesReader, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from pystreams.config.guarantee import IsolationLevel
    from pystreams.ids import TopicPartition
    from pystreams.stores.api import KeyValueIterator, StateStoreContext
    from pystreams.stores.buffered import BufferedKeyValueStore

K = TypeVar("K")
R = TypeVar("R")

_log = structlog.get_logger(__name__)


class TypedReader(Generic[K, R]):
    """Typed reads over a bytes-level reader.

    Ranges are inclusive on both ends and in order of key bytes, which for built-in number serdes
    is the numbers' order only among non-negative ones.

    Args:
        name: The store's name, for error messages.
        topic: The topic the serdes were bound to.
        reader: Where the bytes come from.
        serialize_key: Turns a key into bytes.
        deserialize_key: Turns bytes into a key.
        decode: Turns stored bytes into what reads return.
    """

    __slots__ = ("_decode", "_deserialize_key", "_name", "_reader", "_serialize_key", "_topic")

    def __init__(
        self,
        name: str,
        topic: str,
        reader: BytesReader,
        *,
        serialize_key: Callable[[K], bytes],
        deserialize_key: Callable[[bytes], K],
        decode: Callable[[bytes], R],
    ) -> None:
        self._name = name
        self._topic = topic
        self._reader = reader
        self._serialize_key = serialize_key
        self._deserialize_key = deserialize_key
        self._decode = decode

    def get(self, key: K) -> R | None:
        """Return the value of a key, or None."""
        stored = self._reader.get(self._key_bytes(key))
        if stored is None:
            return None
        try:
            return self._decode(stored)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything
            self._raise_undecodable(error, stored)

    def range(self, start: K | None, end: K | None) -> KeyValueIterator[K, R]:
        """Iterate over keys from `start` to `end`, both inclusive; None leaves an end open."""
        return self._range(start, end, reverse=False)

    def reverse_range(self, start: K | None, end: K | None) -> KeyValueIterator[K, R]:
        """Iterate over the same keys as `range`, highest first."""
        return self._range(start, end, reverse=True)

    def all(self) -> KeyValueIterator[K, R]:
        """Iterate over all keys."""
        return self._entries(None, None, reverse=False)

    def reverse_all(self) -> KeyValueIterator[K, R]:
        """Iterate over all keys, highest first."""
        return self._entries(None, None, reverse=True)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator[K, R]:
        """Iterate over keys whose bytes start with `prefix`."""
        return self._entries(prefix, _after_prefix(prefix), reverse=False)

    def approximate_num_entries(self) -> int:
        """Return about how many keys there are; cheap, not exact."""
        return self._reader.approximate_num_entries()

    def _range(self, start: K | None, end: K | None, *, reverse: bool) -> KeyValueIterator[K, R]:
        low = None if start is None else self._key_bytes(start)
        high = None if end is None else self._key_bytes(end)
        if low is not None and high is not None and low > high:
            _log.warning(
                "store.empty_range",
                store=self._name,
                start=start,
                end=end,
                cure="start is above end in order of bytes; negative numbers sort last",
            )
            return self._nothing()
        return self._entries(low, None if high is None else high + b"\x00", reverse=reverse)

    def _entries(
        self, start: bytes | None, end: bytes | None, *, reverse: bool
    ) -> Generator[tuple[K, R], None, None]:
        deserialize_key = self._deserialize_key
        decode = self._decode
        for key, stored in self._reader.range(start, end, reverse=reverse):
            try:
                entry = deserialize_key(key), decode(stored)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                self._raise_undecodable(error, key)
            yield entry

    def _nothing(self) -> Generator[tuple[K, R], None, None]:
        yield from ()

    def _key_bytes(self, key: K) -> bytes:
        try:
            return self._serialize_key(key)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            return serialize_or_raise(self._serialize_key, key, self._topic, "key")

    def _raise_undecodable(self, error: Exception, data: bytes) -> NoReturn:
        raise SerializationError(
            f"state store {self._name!r} holds bytes that its serdes can't read ({error}): "
            f"{data[:80]!r}; give the store the serdes it was written with",
            topic=self._topic,
        ) from error


class TypedStore(TypedReader[K, R]):
    """A typed store as the runtime sees it; see `StateStore` for the contract.

    Args:
        buffer: The bytes-level store; owned by this object from now on.
        key_serde: None takes the default of the context.
        value_serde: None takes the default of the context.
    """

    __slots__ = (
        "_buffer",
        "_committed_get",
        "_dirty_get",
        "_key_serde",
        "_record",
        "_serialize_value",
        "_value_serde",
        "_write",
    )

    def __init__(
        self,
        buffer: BufferedKeyValueStore,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
    ) -> None:
        self._name = buffer.name
        self._topic = ""
        self._buffer = buffer
        self._reader = buffer
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._record = RecordContext()
        self._dirty_get: Callable[[bytes, Any], Any]
        self._committed_get: Callable[[bytes], bytes | None]
        self._write: Callable[[bytes, bytes | None, bytes | None, int], None]
        self._serialize_key = _unbound
        self._serialize_value: Callable[[Any], bytes] = _unbound
        self._shut()

    @property
    def name(self) -> str:
        """The store's name, unique in its topology."""
        return self._name

    @property
    def persistent(self) -> bool:
        """Whether committed data outlives the process."""
        return self._buffer.persistent

    @property
    def is_open(self) -> bool:
        """Whether the store is between `init` and `close`."""
        return self._buffer.is_open

    def init(self, context: StateStoreContext) -> None:
        """Open the store and bind its serdes to the changelog's name.

        Raises:
            StateStoreError: The engine can't be opened.
            TopologyError: A serde is neither in the spec nor a default.
        """
        key_serde = self._key_serde or context.default_key_serde
        value_serde = self._value_serde or context.default_value_serde
        if key_serde is None or value_serde is None:
            part = "key" if key_serde is None else "value"
            raise TopologyError(
                f"state store {self._name!r} has no {part} serde: give it {part}_serde=..., or "
                f"set default.{part}.serde"
            )
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._topic = context.changelog_topic
        self._bind_serdes(key_serde, value_serde, context.changelog_topic)
        buffer = self._buffer
        buffer.init(context)
        self._record = context.record
        self._dirty_get = buffer.dirty.get
        self._committed_get = buffer.committed_get
        self._write = buffer.write

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records and remember the last one's offset, atomically."""
        self._buffer.restore(messages)

    def flush_cache(self) -> None:
        """Log and forward what the record cache holds; a no-op without caching."""
        self._buffer.flush_cache()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything written since the last commit durable, with the offsets, atomically."""
        self._buffer.commit(changelog_offsets)

    def rollback(self) -> None:
        """Drop everything written since the last commit."""
        self._buffer.rollback()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the last changelog record in committed data, or None."""
        return self._buffer.committed_offset(partition)

    def manages_offsets(self) -> bool:
        """Return whether offsets given to `commit` survive `close`: those of RocksDB do."""
        return self._buffer.persistent

    def approximate_num_uncommitted_bytes(self) -> int:
        """Return the bytes of keys and values waiting for `commit`; each key counts once."""
        return self._buffer.uncommitted_bytes

    def max_uncommitted_bytes(self) -> int:
        """Return the highest number of uncommitted bytes there ever was since `init`."""
        return self._buffer.max_uncommitted_bytes

    def cached_bytes(self) -> int:
        """Return the bytes waiting for `flush_cache`; 0 without caching."""
        return self._buffer.cached_bytes

    def read_only(self, isolation_level: IsolationLevel) -> TypedReader[K, R]:
        """Return a view that other threads may read; its serde functions are its own.

        Raises:
            StoreNotAvailableError: The store is not open.
        """
        key_serde, value_serde = self._key_serde, self._value_serde
        if not self._buffer.is_open or key_serde is None or value_serde is None:
            raise self._unavailable()
        return TypedReader(
            self._name,
            self._topic,
            view_of(self._buffer, isolation_level),
            serialize_key=key_serde.serializer(self._topic),
            deserialize_key=key_serde.deserializer(self._topic),
            decode=self._decoder(value_serde.deserializer(self._topic)),
        )

    def close(self) -> None:
        """Close without committing; safe to call twice."""
        self._shut()
        self._buffer.close()

    def destroy(self) -> None:
        """Close, and delete all that was ever committed."""
        self._shut()
        self._buffer.destroy()

    def _bind_serdes(self, key_serde: Serde[Any], value_serde: Serde[Any], topic: str) -> None:
        """Ask the serdes for their functions, once."""
        self._serialize_key = key_serde.serializer(topic)
        self._deserialize_key = key_serde.deserializer(topic)
        self._serialize_value = value_serde.serializer(topic)
        self._decode = self._decoder(value_serde.deserializer(topic))

    def _decoder(self, deserialize: Callable[[bytes], Any]) -> Callable[[bytes], R]:
        """Return the function that turns stored bytes into what reads return."""
        raise NotImplementedError

    def _shut(self) -> None:
        """Make the fast paths refuse, so that an open store need not check."""

        def refuse(*_: object) -> Any:
            raise self._unavailable()

        self._dirty_get = refuse
        self._committed_get = refuse
        self._write = refuse

    def _unavailable(self) -> StoreNotAvailableError:
        return StoreNotAvailableError(
            f"state store {self._name!r} is not open here: its task is starting, restoring or "
            "gone; ask again"
        )


def _unbound(value: object) -> bytes:  # noqa: ARG001 - stands in for a serializer
    """Serialize nothing: before `init` the write or read that follows refuses anyway."""
    return b""


def _after_prefix(prefix: bytes) -> bytes | None:
    """Return the first bytes above all that start with `prefix`; None when there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None
