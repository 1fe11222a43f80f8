"""Consumers of the group and of changelogs, on librdkafka.

May import `connection`, the ports and `cluster`; the client factory makes what is here.
"""
