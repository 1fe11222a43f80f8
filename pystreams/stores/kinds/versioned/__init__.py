"""Versioned stores: the history of each key, kept for a while."""
