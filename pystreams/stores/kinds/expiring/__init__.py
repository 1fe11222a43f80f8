"""Key-value stores whose rows expire: by a time to live, in stream time."""
