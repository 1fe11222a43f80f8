"""The real Kafka client, the real file system: what implements the ports.

The client factory makes Kafka's part; nothing above the runtime's client and a backfill needs more.
"""
