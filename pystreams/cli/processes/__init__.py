"""Processes and signals: one client in this process, children of `--processes`, a backfill first.

Only commands import from here, and `main` what it needs of standard output.
"""
