"""Stores of the user's own that say nothing of their kind."""
