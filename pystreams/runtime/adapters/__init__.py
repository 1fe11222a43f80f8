"""Adapters: the real Kafka client, the real file system."""
