"""librdkafka's clients: where they are imported, what their errors mean, why brokers refuse.

May import `cluster`; all adapters may import it.
"""
