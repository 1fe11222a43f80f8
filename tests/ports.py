"""Ports of the loopback address for servers that a test starts a while later, or more than once.

The system gives outgoing connections, and servers that ask for any port, those of a range of its
own: what was free there a moment ago may be somebody's before the test's process has begun.
"""

from __future__ import annotations

import random
from pathlib import Path

from pystreams.broker.network import is_port_free

_LOWEST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL = 32_768
_draw = random.SystemRandom()


def ports_in_a_row(count: int) -> list[int]:
    """Return ports that follow each other, are free now, and are given to nobody who asks for any.

    Process N of `--processes` serves on the port that is given, and N - 1.
    """
    below = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else _USUAL
    while True:
        first = _draw.randrange(_LOWEST, below - count)
        ports = [first + number for number in range(count)]
        if all(map(is_port_free, ports)):
            return ports
