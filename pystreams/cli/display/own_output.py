"""Standard output of commands whose lines are data: what the user's code prints is none of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO


@contextmanager
def own_output() -> Iterator[TextIO]:
    """Let all that is printed meanwhile go to standard error; give the standard output there was.

    What a command runs of the user's in this block may print: a module that is loaded, a serde, a
    stream with `print()`. What the command itself has to say in it is written to what this gives.
    """
    output = sys.stdout
    with redirect_stdout(sys.stderr):
        yield output
