"""Spark itself: its session and Java, its connector's jars, what goes to workers, its errors.

Nothing here knows of stages or results. It may import `plan`; `sources`, `tasks` and all above may
import it.
"""
