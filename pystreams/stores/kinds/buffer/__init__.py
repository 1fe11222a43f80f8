"""Buffers: the records that wait in a join with grace, in the order of their times."""
