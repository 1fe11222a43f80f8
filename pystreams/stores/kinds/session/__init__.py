"""Session stores: an aggregate for each key and session, kept for a while."""
