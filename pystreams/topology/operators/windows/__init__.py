"""Aggregations of windows: by time, sliding, sessions; what closes one, and what is sent then."""
