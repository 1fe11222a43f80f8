"""The DSL's face: `StreamsBuilder`, `KStream`, `KTable`, their groups and branches.

Nothing in the topology imports it.
"""
