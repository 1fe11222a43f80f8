"""The runtime: one loop a thread does the I/O, everything it decides with is plain and synchronous.

Read `core.record_queue`, `core.partition_group`, `core.task`, `core.state_manager`, then `ports`
(what is needed of Kafka), `thread` (the loop), `client` (`KafkaStreams`).
"""
