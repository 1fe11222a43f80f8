"""The call, `run`, and what it does: stage by stage on Spark, told as it goes.

It may import every room but `exports` and `rescaling`; nobody but the package's face and the
command imports it.
"""
