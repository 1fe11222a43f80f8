"""What every layer uses and none owns: clock, loggers, pools, tracebacks, Java, the partitioner.

May be imported from anywhere; imports nothing of pystreams but `errors` and `ids`.
"""
