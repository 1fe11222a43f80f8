"""State before its task runs: restored from changelogs, or kept warm for another process.

The task manager and the loop import it; it knows state managers, never a running task.
"""
