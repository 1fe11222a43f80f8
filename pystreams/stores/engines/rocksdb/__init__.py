"""The RocksDB engines: one database a store, in Kafka Streams' layout; only importer of rocksdict.

Column families (KIP-1035): `default` holds the data of a plain store; `keyValueWithTimestamp`
that of a timestamped one, whose `default` is then the legacy of a plain store and is moved over
at open (`plain_data`); a window or session store has a family a segment (`segments`). `offsets`
holds `<topic>-<partition>` -> int64 (big-endian) offset of the last changelog record in the data.
Any other column family is refused: it was written by something we can't read.

Crash safety. The write-ahead log is off and a commit forces no flush: the changelog is the log.
Atomic flush makes every memtable flush take all column families together, so that after a
SIGKILL data and offset are those of one and the same commit: that of the last flush. What is lost
is at most what the memtables held, and restoring it is the price of a crash. That decides the
write buffer's size, `WRITE_BUFFER_BYTES`: 4 MiB hold about 80,000 small records, a quarter of a
second of restoring, where RocksDB's 64 MiB (Kafka Streams: 16) would be seconds; measured, the
smaller buffer also writes faster, because it fits the processor's cache.
Never flush one column family by hand: a manual flush takes that one alone, atomic flush or not.
Closing is such a flush in rocksdict, so its order matters: data first, then offsets. A crash in
between leaves data newer than its offset, and replaying what is in it already changes nothing;
the other order would lose records.

What rocksdict does that one would not expect, and what is done about it here:
- A column family handle, a bound method of one or an iterator keeps the database, and its LOCK,
  open after `close`. So nothing native leaves this module: iterators are wrapped, and released
  by `close`.
- Closing or dropping the `Rdict` of a column family flushes that family alone. So none is kept
  for `offsets`: it is read once, at open, before there is anything to flush.
- `Rdict.items()` ends without an error at a corrupt block. `RdictIter` tells by `status()`.
- A `WriteBatch` is spent by a failed write as well; a retry builds a new one.
- A writer that RocksDB makes wait on a full disk waits for ever; so none waits: see `writing`.
- `create_column_family` and `drop_column_family` write the manifest (about 20 ms each) and flush
  nothing. A dropped family stays readable through its `Rdict` and iterators, which keep the
  database open like any other; closing that `Rdict` raises, letting go of it does not.
- `SstFileWriter` takes no family, and fails to finish a file without an entry. An ingested file is
  durable; one that overlaps with a memtable flushes that first.
- It writes `rocksdict-config.json` into the directory. RocksDB ignores it, and a directory
  without it (written by Java) opens: raw mode is what we ask for, whatever the file says.
- `ReadOptions.set_iterate_lower_bound` sets the upper bound; so lower bounds are our own affair.
- `WriteOptions.disable_wal` is a property, though the type stubs say it is a method.

Spec: KIP-892 "Atomic Checkpointing"; KIP-1035 "Proposed Changes"; Kafka RocksDBStore.openDB.
"""

from pystreams.stores.engines.rocksdb.bulk_load import BulkLoadEngine
from pystreams.stores.engines.rocksdb.engine import RocksDBEngine
from pystreams.stores.engines.rocksdb.memory import MEMORY
from pystreams.stores.engines.rocksdb.segments import RocksDBSegmentEngine

__all__ = ["MEMORY", "BulkLoadEngine", "RocksDBEngine", "RocksDBSegmentEngine"]
