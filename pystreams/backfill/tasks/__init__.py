"""What runs in Spark's workers: tasks over their whole history, which write their results.

It may import `sources` (a history's readers), `staging`, `spark` and `plan`; it never asks a broker
for more than records.
"""
