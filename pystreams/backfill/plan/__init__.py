"""What a backfill is of and what it runs: topology, partitions, stages, rows.

No input or output, no Spark; numbers and texts only. Every room of `backfill` may import it, and it
imports none of them.
"""
