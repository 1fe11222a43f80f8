"""Producers, on librdkafka: batches, deliveries, transactions, and what is refused.

May import `connection`, `core` and `cluster`; only the client factory imports it.
"""
