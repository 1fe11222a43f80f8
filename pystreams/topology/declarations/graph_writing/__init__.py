"""A declared graph written down: decisions about tables, rewrites, repartitions, nodes of joins.

Declared streams, tables and joins add their nodes to the `StreamsGraph` here.
"""
