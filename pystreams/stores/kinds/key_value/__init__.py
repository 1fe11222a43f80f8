"""Key-value stores: the last value of each key, with or without its timestamp."""
