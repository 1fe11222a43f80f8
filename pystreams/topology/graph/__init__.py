"""The Processor API's `Topology`: named nodes, stores and internal topics, and its description.

What a user builds by hand, and what the DSL is written into. `plan` and `declarations` build on it.
"""
