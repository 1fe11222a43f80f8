"""What the runtime executes: real names of topics, partition counts, the functions of one task.

Read-only, made of a `Topology` that is complete. The DSL and the plan do not know each other.
"""
