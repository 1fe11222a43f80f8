"""Options of the DSL's operations, as plain values: `Consumed`, `Materialized`, `JoinWindows`, ...

Users import them; `declarations` read them.
"""
