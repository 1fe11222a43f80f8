"""The state of one task: stores, changelogs, offsets, positions, checkpoint files; no Kafka I/O.

May import `cluster`; `core` and what is above it use it through `ProcessorStateManager`.
"""
