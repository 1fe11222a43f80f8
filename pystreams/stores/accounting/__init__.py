"""What stores count: bytes that wait, bytes that read caches share, calls and how long they take.

Imports nothing of the other rooms.
"""
