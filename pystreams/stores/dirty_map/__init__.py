"""The bytes-level store under every kind: record cache, transaction, changelog, restore.

Read `buffered` first. May import `files`, `contracts` and `accounting`; knows no engine, no kind.
"""
