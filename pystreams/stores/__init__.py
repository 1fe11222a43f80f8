"""State stores: key-value stores that buffer until the commit and remember their offsets.

Read `api` (the contracts), `spec` (what a user asks for), `buffered` (the dirty map: record cache
and transaction in one), `key_value` and `timestamped` (serdes on top of it), `views` (reads of
other threads), `engines` (RocksDB, memory), then `build` (the only place where the layers are put
together) and `factories` (what users call).
"""
