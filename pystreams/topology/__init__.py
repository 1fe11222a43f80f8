"""Topologies: what a user writes, and the plan the runtime executes.

Read `processor` (what a user implements), `operator` (how a node becomes a function), `topology`
(the graph), `plan` (sub-topologies, internal topics), `compiled` (one task's functions), then the
DSL: `builder`, `streams_and_tables`, and below it what these declare: `streams_graph`, `declared_stream`.
"""
