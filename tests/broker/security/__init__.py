"""A package of pytest's: its broker ends with the last of its tests, not with all tests."""
