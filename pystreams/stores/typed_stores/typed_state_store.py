"""What stores of every kind have in common: serdes, and the runtime's side of their life.

`BufferedStateStore` is `StateStore` by way of a dirty map; `TypedStateStore` is one with serdes.
`TypedParts` is what reads need, in an owner's store and in the views of other threads alike: a kind
of store adds its reads as a class without slots over it, and takes both for its own store (`typed`,
`session`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from pystreams.errors import SerializationError, StoreNotAvailableError, TopologyError
from pystreams.exception_texts import exception_text
from pystreams.kernel.async_functions import deserializer_of
from pystreams.kernel.loggers import get_logger
from pystreams.record import (
    NO_RECORD,
    ConsumedMessage,
    Headers,
    PresentRecord,
    ProducedRecord,
    RecordMetadata,
)
from pystreams.serdes import Serde, filled, filled_value, readers_deserializer, serialize_or_raise
from pystreams.stores.contracts.key_value import StateStore
from pystreams.stores.contracts.state_store import no_stream_time
from pystreams.stores.dirty_map.dumping import dumped
from pystreams.stores.dirty_map.opening import first_entry
from pystreams.stores.typed_stores.given_bytes import bytes_serializer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from pystreams.ids import TopicPartition
    from pystreams.stores.contracts.key_value import FlushListener, StateStoreContext
    from pystreams.stores.contracts.position import Position
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore, BytesWrite

K = TypeVar("K")
R = TypeVar("R")

_log = get_logger("pystreams.stores")


class TypedParts(Generic[K, R]):
    """Bytes to objects and back, for whoever has the attributes below."""

    __slots__ = ()

    _name: str
    _topic: str
    _serialize_key: Callable[[K], bytes]
    _deserialize_key: Callable[[bytes], K]
    _decode: Callable[[bytes], R]

    def _key_bytes(self, key: K) -> bytes:
        if key is None:
            self._refuse_null_key()
        try:
            return self._serialize_key(key)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            return serialize_or_raise(self._serialize_key, key, self._topic, "key")

    def _refuse_null_key(self) -> NoReturn:
        """Refuse what some serdes, JSON for one, would turn into bytes like any other key."""
        raise SerializationError(
            f"state store {self._name!r} has no key None: drop records without a key, or give them "
            "one, before they come to the store",
            topic=self._topic,
        )

    def _raise_undecodable(self, error: Exception, data: bytes) -> NoReturn:
        raise SerializationError(
            f"state store {self._name!r} holds bytes that its serdes can't read "
            f"({exception_text(error)}): {data[:80]!r}; give the store the serdes it was "
            "written with",
            topic=self._topic,
        ) from error

    def _nothing_between(self, start: object, end: object) -> Generator[Any, None, None]:
        """Return an iterator over nothing, and warn of a range that ends before it starts."""
        _log.warning(
            "store.empty_range",
            store=self._name,
            start=start,
            end=end,
            cure="start is above end in order of bytes; negative numbers sort last",
        )
        return _nothing()


class TypedView(TypedParts[K, R]):
    """What the views of other threads have in common: serde functions of their own.

    Args:
        reader: Where the bytes come from; the kind of store says of what class it is.
        name: The store's name, for error messages.
        topic: The topic the serdes were bound to.
        serialize_key: Turns a key into bytes.
        deserialize_key: Turns bytes into a key.
        decode: Turns stored bytes into what reads return.
    """

    __slots__ = ("_decode", "_deserialize_key", "_name", "_reader", "_serialize_key", "_topic")

    def __init__(
        self,
        reader: Any,
        *,
        name: str,
        topic: str,
        serialize_key: Callable[[K], bytes],
        deserialize_key: Callable[[bytes], K],
        decode: Callable[[bytes], R],
    ) -> None:
        self._reader = reader
        self._name = name
        self._topic = topic
        self._serialize_key = serialize_key
        self._deserialize_key = deserialize_key
        self._decode = decode


class BufferedStateStore(StateStore):
    """The runtime's side of a store over a dirty map; see `StateStore` for the contract.

    Args:
        buffer: The bytes-level store; owned by this object from now on.
    """

    __slots__ = ("_buffer",)

    def __init__(self, buffer: BufferedKeyValueStore) -> None:
        self._buffer = buffer

    @property
    def name(self) -> str:
        """The store's name, unique in its topology."""
        return self._buffer.name

    @property
    def persistent(self) -> bool:
        """Whether committed data outlives the process."""
        return self._buffer.persistent

    @property
    def is_open(self) -> bool:
        """Whether the store is between `init` and `close`."""
        return self._buffer.is_open

    @property
    def transactional(self) -> bool:
        """Whether writes wait for `commit`, so that `rollback` and a crash undo them."""
        return self._buffer.transactional

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records and remember the last one's offset, atomically."""
        self._buffer.restore(messages)

    def flush_cache(self) -> None:
        """Log and forward what the record cache holds; a no-op without caching."""
        self._buffer.flush_cache()

    def needs_flush(self) -> bool:
        """Return whether the record cache holds something."""
        return self._buffer.needs_flush()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything written since the last commit durable, with the offsets, atomically."""
        self._buffer.commit(changelog_offsets)

    def rollback(self) -> None:
        """Drop everything written since the last commit."""
        self._buffer.rollback()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the last changelog record in committed data, or None."""
        return self._buffer.committed_offset(partition)

    @property
    def position(self) -> Position:
        """Which input committed data reflects at least, as the last commit that wrote had it."""
        return self._buffer.position()

    def estimated_entries(self) -> int | None:
        """Return about how many entries are committed; None while the store is not open."""
        try:
            return self._buffer.engine_num_entries()
        except Exception:  # noqa: BLE001 - its owner may close it at any moment
            return None

    def manages_offsets(self) -> bool:
        """Return whether offsets given to `commit` survive `close`: those of RocksDB do."""
        return self._buffer.persistent

    def holds_data(self) -> bool:
        """Return whether there is anything committed in the store; reads one entry."""
        return first_entry(self._buffer.engine_range(None, None)) is not None

    def approximate_num_uncommitted_bytes(self) -> int:
        """Return the bytes of keys and values waiting for `commit`; each key counts once."""
        return self._buffer.uncommitted_bytes

    def max_uncommitted_bytes(self) -> int:
        """Return the highest number of uncommitted bytes there ever was since `init`."""
        return self._buffer.max_uncommitted_bytes

    def cached_bytes(self) -> int:
        """Return the bytes waiting for `flush_cache`; 0 without caching."""
        return self._buffer.cached_bytes

    def close(self) -> None:
        """Close without committing; safe to call twice."""
        self._shut()
        self._buffer.close()

    def destroy(self) -> None:
        """Close, and delete all that was ever committed."""
        self._shut()
        self._buffer.destroy()

    def _shut(self) -> None:
        """Refuse what may only be asked of an open store, so that an open one need not check."""
        raise NotImplementedError


class TypedStateStore(TypedParts[K, R], BufferedStateStore):
    """A typed store as the runtime sees it; see `StateStore` for the contract.

    Args:
        key_serde: None takes the default of the context.
        value_serde: None takes the default of the context.
    """

    __slots__ = (
        "_decode",
        "_deserialize_key",
        "_deserialize_value",
        "_key_serde",
        "_name",
        "_record",
        "_serialize_key",
        "_serialize_value",
        "_stream_time",
        "_topic",
        "_value_serde",
        "_write",
    )

    def __init__(
        self,
        buffer: BufferedKeyValueStore,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
    ) -> None:
        super().__init__(buffer)
        self._name = buffer.name
        self._topic = ""
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._record: PresentRecord = NO_RECORD
        self._stream_time = no_stream_time
        self._serialize_key = _unbound
        self._serialize_value: Callable[[Any], bytes] = _unbound
        self._write: BytesWrite
        self._shut()

    def init(self, context: StateStoreContext) -> None:
        """Open the store and bind its serdes to the changelog's name.

        Raises:
            StateStoreError: The engine can't be opened.
            TopologyError: A serde is neither in the spec nor a default.
        """
        key_serde = filled(self._key_serde, context.environment.default_key_serde)
        value_serde = filled_value(
            self._value_serde,
            context.environment.default_value_serde,
            context.environment.default_key_serde,
        )
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
        self._buffer.init(context)
        self._record = context.record
        self._stream_time = context.stream_time
        self._bind_buffer()

    def changelog_records(self) -> Iterator[ProducedRecord]:
        """Return changelog records that restore what is committed.

        Values without a time of their own get the task's stream time.
        """
        stream_time = max(0, self._stream_time())
        return dumped(self._buffer, lambda _: stream_time)

    def set_flush_listener(
        self, listener: FlushListener[Any, Any], *, send_old_values: bool
    ) -> bool:
        """Say who hears of a cache flush; return whether the store caches. Values come plain."""
        typed_key, deserialize = self._logged_keys(), self._deserialize_value
        skipped = self._buffer.value_prefix_bytes

        def typed(
            key: bytes,
            new: bytes | None,
            old: bytes | None,
            timestamp: int,
            headers: Headers,
            source: RecordMetadata | None,
        ) -> None:
            try:
                own_key = typed_key(key)
                new_value = None if new is None else deserialize(new)
                old_value = None if old is None else deserialize(old[skipped:])
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                self._raise_undecodable(error, key)
            listener(own_key, new_value, old_value, timestamp, headers, source)

        return self._buffer.set_flush_listener(typed, send_old_values=send_old_values)

    def _value_bytes(self, value: Any) -> bytes:
        try:
            return self._serialize_value(value)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            return serialize_or_raise(self._serialize_value, value, self._topic, "value")

    def _logged_keys(self) -> Callable[[bytes], Any]:
        """Return the function that turns a stored key into what a flush listener is told."""
        return self._deserialize_key

    def _bind_serdes(self, key_serde: Serde[Any], value_serde: Serde[Any], topic: str) -> None:
        """Ask the serdes for their functions, once."""
        self._serialize_key = bytes_serializer(key_serde, topic)
        self._deserialize_key = deserializer_of(key_serde, topic)
        self._serialize_value = bytes_serializer(value_serde, topic)
        self._deserialize_value = deserializer_of(value_serde, topic)
        self._decode = self._decoder(self._deserialize_value)

    def _decoder(self, deserialize: Callable[[bytes], Any]) -> Callable[[bytes], R]:
        """Return the function that turns stored bytes into what reads return; plain, by default."""
        return deserialize

    def _bind_buffer(self) -> None:
        """Bind the functions of the open buffer that are called once a record."""
        self._write = self._buffer.write

    def _shut(self) -> None:
        """Make those functions refuse."""
        self._write = self._refuse

    def _refuse(self, *_: object) -> Any:
        """Stand in for a function of the buffer while the store is not open."""
        raise self._unavailable()

    def _view_parts(self) -> dict[str, Any]:
        """Return what a view's reads need, with serde functions of its own.

        Raises:
            StoreNotAvailableError: The store is not open.
        """
        key_serde, value_serde = self._key_serde, self._value_serde
        if not self._buffer.is_open or key_serde is None or value_serde is None:
            raise self._unavailable()
        return {
            "name": self._name,
            "topic": self._topic,
            "serialize_key": key_serde.serializer(self._topic),
            "deserialize_key": key_serde.deserializer(self._topic),
            "decode": self._decoder(readers_deserializer(value_serde, self._topic)),
        }

    def _unavailable(self) -> StoreNotAvailableError:
        return StoreNotAvailableError(
            f"state store {self._name!r} is not open here: its task is starting, restoring or "
            "gone; ask again"
        )


def _nothing() -> Generator[Any, None, None]:
    yield from ()


def _unbound(value: object) -> bytes:  # noqa: ARG001 - stands in for a serializer
    """Serialize nothing: before `init` the write or read that follows refuses anyway."""
    return b""
