"""Declared operations as frozen nodes, and what they read from while a topology is made of them.

All other declarations import it; it knows none of them.
"""
