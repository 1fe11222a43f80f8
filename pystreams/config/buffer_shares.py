"""How the memory of records that are on their way is shared out.

`input.buffer.max.bytes` goes in equal parts to the stream threads. What a thread has is, at most:

    queue of the client     q    the client looks before it fetches:
    fetch under way         q    ... so one may come on top
    held back of paused   2 q    what one poll brings, beyond the first q; see `paused_partitions`
    waiting in tasks        w    partitions are paused above it

An eighth of the part is q, and the rest w. `output.buffer.max.bytes` goes in equal parts to the
producers, of which there may be one for each task.
"""

from __future__ import annotations

from typing import NamedTuple

MEBIBYTE = 1 << 20

_CLIENT_PART = 8
_CLIENT_MAX_BYTES = 64 * MEBIBYTE
"""A Python process gets through less than this before the client has fetched more."""


class InputShare(NamedTuple):
    """What one thread may hold of its input.

    Attributes:
        waiting_bytes: Records in tasks, w; beyond it partitions are paused.
        client_bytes: The client's queue, q; also the largest fetch.
    """

    waiting_bytes: int
    client_bytes: int


def input_share(total_bytes: int, threads: int) -> InputShare:
    """Return a thread's part of `input.buffer.max.bytes`."""
    share = total_bytes // threads
    client = max(min(share // _CLIENT_PART, _CLIENT_MAX_BYTES), MEBIBYTE)
    return InputShare(max(share - 4 * client, share // 2), client)


def output_share(total_bytes: int, producers: int, largest_record_bytes: int) -> int:
    """Return a producer's part of `output.buffer.max.bytes`: two of the largest records fit."""
    return max(total_bytes // producers, 2 * largest_record_bytes)
