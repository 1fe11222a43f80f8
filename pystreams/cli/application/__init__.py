"""The user's application: its topology, its configuration, and the broker that `--dev` means.

Imports options; knows nothing of commands and processes.
"""
