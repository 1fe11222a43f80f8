"""Records that wait in a task: decoded a batch at a time, taken in the order of their times.

Knows nothing of what is done with them.
"""
