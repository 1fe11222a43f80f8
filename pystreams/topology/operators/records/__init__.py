"""Operators on one record at a time, or on a few that are together: maps, batches, calls, prints.

They keep no table and no window; their neighbours are `joins`, `tables` and `windows`.
"""
