"""What is done to an application's state beside its threads: reset, recovery, old directories.

May import adapters, `state` and `cluster`; never the loop.
"""
