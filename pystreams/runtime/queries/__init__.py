"""Reads of local stores by other threads: interactive queries and read-only stores.

Which local task's store answers, and what comes back. May import the core; only the client imports
it. Spec: KIP-796 (Interactive Query v2), KIP-892 "Interactive Queries".
"""
