"""What typed stores of every kind are made of: serdes over a dirty map, and reads by other threads.

May import `dirty_map` and what lies below it; it knows no kind.
"""
