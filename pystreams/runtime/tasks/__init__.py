"""The tasks of one thread: made, restored, committed and closed, with their producers.

Steps that the `loop` takes; nothing here loops. May import `topics` and all below it.
"""
