"""Stores whose records go by time, a segment at once: windows and sessions, in part versions.

May import `typed_stores` and what lies below it.
"""
