"""The `pystreams` command: one module a sub-command, loaded when it is called for."""
