"""An iterator over RocksDB that gives its database back when it ends or the engine closes.

A native iterator keeps its database, and the LOCK on the directory, open; it ends without an
error at a block it can't read, unless its status is asked for; and it points at the upper bound in
its `ReadOptions` without owning it: once those are freed, it ends wherever the memory says by then
(rocksdict 0.3.29). None of this may reach a reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from rocksdict import Rdict, RdictIter, ReadOptions

from pystreams.errors import StoreNotAvailableError

_FEW = 8
"""So many entries are read at once, because an iterator with a life of its own costs more."""


class IteratedEngine(Protocol):
    """What the iterator asks of its engine: the errors to raise."""

    def closed_error(self) -> StoreNotAvailableError:
        """Return what readers of a closed store get."""

    def read_error(self, error: Exception) -> Exception:
        """Return what a failed read raises."""


class RocksDBIterator:
    """A native iterator that gives its database back when it ends or the engine closes."""

    __slots__ = ("__weakref__", "_ended", "_engine", "_lowest", "_native", "_options", "_step")

    def __init__(
        self,
        engine: IteratedEngine,
        native: RdictIter,
        options: object,
        start: bytes | None,
        *,
        reverse: bool,
    ) -> None:
        self._engine = engine
        self._options = options  # For as long as `native` may be used, see above.
        self._lowest = (start or b"") if reverse else b""
        self._native: RdictIter | None = native
        self._step: Any = native.prev if reverse else native.next
        self._ended = False

    def __iter__(self) -> RocksDBIterator:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        native = self._native
        try:
            if native is not None:
                key = native.key()
                if key is None:
                    native.status()  # Raises if it stopped at an unreadable block, not at the end.
                elif key >= self._lowest:
                    entry = (key, native.value())
                    self._step()
                    return entry
            elif not self._ended:
                raise self._engine.closed_error()
        except StoreNotAvailableError:
            raise
        except Exception as error:
            native = None  # The error's traceback must not keep the database open.
            self.close()
            raise self._engine.read_error(error) from error
        self.close()
        raise StopIteration

    def close(self) -> None:
        """Stop: the reader is done."""
        self._ended = True
        self.release()

    def release(self) -> None:
        """Let go of the database, because the engine closes; reading on is an error."""
        self._native = None
        self._step = None


def read_if_few(family: Rdict, start: bytes, end: bytes) -> list[tuple[bytes, bytes]] | None:
    """Return what is from `start` (inclusive) to `end` (exclusive); None if that is not little."""
    options = ReadOptions()
    options.set_iterate_upper_bound(end)
    native: RdictIter = family.iter(options)
    entries: list[tuple[bytes, bytes]] = []
    try:
        native.seek(start)
        while (key := native.key()) is not None:
            if len(entries) == _FEW:
                return None
            entries.append((key, native.value()))
            native.next()
        native.status()
    finally:
        del native, family  # The traceback of an error must not keep the database open.
    return entries


class ReadEntries:
    """An iterator over what was read at once."""

    __slots__ = ("_entries",)

    def __init__(self, entries: list[tuple[bytes, bytes]]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._entries

    def __next__(self) -> tuple[bytes, bytes]:
        return next(self._entries)

    def close(self) -> None:
        """Stop: the reader is done."""
        self._entries = iter(())
