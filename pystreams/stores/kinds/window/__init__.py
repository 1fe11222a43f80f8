"""Window stores: a value for each key and window, kept for a while."""
