"""State stores: they buffer until the commit and remember their offsets.

Read `api` and `contract` (what stores promise), `spec` (what a user asks for), `buffered` (the
dirty map: record cache and transaction in one), `typed_state_store`, `key_value` and `timestamped`
(serdes on top of it), `segments` and `segmented` (keys by segments of time), `window`, `session`
and `versioned` (what is kept that way), `views` (reads of other threads), `engines` (RocksDB,
memory), then `build` (the only place where the layers are put together) and `factories` (what
users call).
"""
