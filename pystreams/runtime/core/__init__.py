"""The core: tasks, queues, state, punctuation, growth, offsets; no I/O, no clock, no thread."""
