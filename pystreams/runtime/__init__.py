"""The runtime: one loop a thread does the I/O, everything it decides with is plain and synchronous.

Read `record_queue`, `partition_group`, `task` and `state_manager`, then `ports` (what is needed of
Kafka), the stream thread (the loop), and `KafkaStreams`.
"""
