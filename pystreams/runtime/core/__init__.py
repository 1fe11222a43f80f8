"""A task and what it is made of: queues, punctuations, steps, errors; no I/O, no clock, no thread.

Given records and the time, it leaves what must be sent in output buffers. Everything that runs
tasks may import it: the loop, a backfill's workers, the test driver. Rooms: `operators` (what a
task is for its operators), `queues`, `failures`.
"""
