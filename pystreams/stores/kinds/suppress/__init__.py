"""Buffers of suppressions: the last change of each key, to be had in the order of their times."""
