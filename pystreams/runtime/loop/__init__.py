"""The stream thread: the one loop that does I/O, what it does in turn, and its part in the group.

May import `tasks` and all below it; only `application` (and the simulation) imports it.
"""
