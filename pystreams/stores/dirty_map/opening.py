"""What an engine goes through before its store trusts it.

    open -> take in `<store>.position` -> check the entries of `offsets` -> check `status`

Java applications before Kafka 4.3 kept the position of a store in a file beside it, in the format
of checkpoint files. It becomes the entry `position` of the store's metadata (the bytes of
`Position`), once. An empty store takes none in: what the file tells of lies elsewhere, or is gone.
A crash between any two steps loses nothing: the file goes only after the engine was closed, which
is what makes an entry durable; and what was taken in is not taken in again.

Spec: KIP-1035 "Interactive Query .position Offsets"; Kafka RocksDBStore.openDB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.errors import StateStoreCorruptedError
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.stores.contracts.position import Position
from pystreams.stores.files.checkpoint_file import CheckpointFileError, read_checkpoint
from pystreams.stores.files.metadata import OPEN, POSITION, STATUS, pack_long, tells_of_data

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pystreams.stores.contracts.key_value import (
        KeyValueEngine,
        KeyValueIterator,
        StateStoreContext,
    )
    from pystreams.stores.files.metadata import StoreMetadata

_log = get_logger("pystreams.stores")


def open_engine(
    engine: KeyValueEngine,
    metadata: StoreMetadata,
    store: str,
    directory: Path,
    context: StateStoreContext,
) -> None:
    """Open a store's engine and load its metadata.

    Args:
        engine: Closed.
        metadata: Loaded as well, where it can be, of an engine that can't be trusted.

    Raises:
        StateStoreError: The engine can't be opened; says why and what to do.
        StateStoreCorruptedError: Its metadata is damaged; or it was written through to and not
            closed, which can't be trusted under exactly-once.
    """
    engine.open(directory, context.environment.rocksdb_config_setter)
    try:
        if engine.persistent:
            _take_in_position(engine, store, directory, context)
        content = engine.metadata()
        _check_entries(store, content)
        metadata.load(content, context)
        # Without a changelog there is nothing to rebuild it from: what it holds is the best left.
        is_checked = context.environment.exactly_once and context.changelog is not None
        if is_checked and was_left_open(content):
            raise left_open(store, holds_nothing=not _may_hold_data(engine, content))
    except StateStoreCorruptedError:
        engine.close()
        raise


def first_entry(entries: KeyValueIterator[bytes, bytes]) -> tuple[bytes, bytes] | None:
    """Return the first that an iterator gives, None if it gives nothing, and close it."""
    found = next(entries, None)
    entries.close()
    return found


def _take_in_position(
    engine: KeyValueEngine, store: str, directory: Path, context: StateStoreContext
) -> None:
    file = context.task_directory / f"{store}.position"
    if not file.exists():
        return
    position = _position_in(file)
    known = POSITION in engine.metadata()
    taken = bool(position) and not known and first_entry(engine.range(None, None)) is not None
    if taken:
        engine.write({}, {POSITION: position.serialize()})
        engine.close()
        engine.open(directory, context.environment.rocksdb_config_setter)
    file.unlink()
    event = "position file taken into the store" if taken else "position file dropped"
    _log.info(event, store=store, position=str(position))


def _position_in(file: Path) -> Position:
    """Return the position in a file; an empty one, which claims nothing, if it can't be read."""
    try:
        offsets = read_checkpoint(file) or {}
    except CheckpointFileError as error:
        _log.warning("position file can't be read and is dropped", reason=str(error))
        return Position()
    return Position(
        {
            TopicPartition(topic, partition): offset
            for (topic, partition), offset in offsets.items()
            if offset is not None
        }
    )


def _check_entries(store: str, metadata: dict[bytes, bytes]) -> None:
    for name, value in metadata.items():
        if len(value) != 8 and name != POSITION:
            raise StateStoreCorruptedError(
                store,
                f"its entry {name.decode(errors='replace')!r} in the column family 'offsets' has "
                f"{len(value)} bytes instead of 8",
            )


def _may_hold_data(engine: KeyValueEngine, metadata: Mapping[bytes, bytes]) -> bool:
    return tells_of_data(metadata) or first_entry(engine.range(None, None)) is not None


def was_left_open(metadata: Mapping[bytes, bytes]) -> bool:
    """Return whether a store writes through and was not closed after its last use."""
    return metadata.get(STATUS) == pack_long(OPEN)


def left_open(store: str, *, holds_nothing: bool) -> StateStoreCorruptedError:
    """Return what is told of such a store under exactly-once."""
    error = StateStoreCorruptedError(
        store,
        "it is not transactional and was not closed after its last use, so that it may hold what "
        "was never committed",
    )
    error.holds_nothing = holds_nothing
    return error
