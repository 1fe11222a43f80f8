"""Staged results published to Kafka, exactly once, and the group handed over.

Needs no Spark. It may import `staging`, `sources` and `plan`, not `tasks`.
"""
