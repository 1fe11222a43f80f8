"""What a stream thread tells of itself: numbers, metrics, lines of the log, for other threads.

Reads what the loop has done; changes nothing.
"""
