"""The files beside the stores of a task: their offsets and topics, and which losses are known."""
