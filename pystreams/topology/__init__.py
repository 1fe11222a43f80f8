"""Topologies: what a user writes, and the plan the runtime executes.

Read `Processor` (what a user implements), `Operator` (how a node becomes a function), `Topology`
(the graph), `TopologyPlan` (sub-topologies, internal topics), `compile_subtopology` (one task's
functions); then the DSL: `StreamsBuilder`, `KStream`, below them `DeclaredStream`, `StreamsGraph`.
"""
