"""The exit codes of `pystreams`, for scripts and supervisors.

0 done; 1 a failure of the machine, the brokers or the user's program, told in one message; 2 wrong
use: of the command line (click's own code), of a configuration key, or of the DSL; 3 no broker runs
or answers, or no application that is asked for its stores; 4 a store has no such key; 70 a bug in
pystreams, with its traceback; 130 stopped by Ctrl-C; 141 nobody reads standard output any more, as
of programs that SIGPIPE ends.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a sub-command's process ends with."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_RUNNING = 3
    NO_SUCH_KEY = 4
    INTERNAL_ERROR = 70
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141
