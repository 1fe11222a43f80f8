"""The stores of one task with their changelogs, offsets and checkpoint files; no I/O with Kafka.

May import `cluster`; `core` and what is above it use it through `ProcessorStateManager`.
"""
