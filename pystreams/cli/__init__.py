"""The `pystreams` command: a module for each sub-command, loaded when it is called for."""
