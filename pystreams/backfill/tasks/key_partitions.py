"""Kafka's partitions of many keys at a time: `partitioner` hashes one by one, this by numpy.

A key at a time costs as much as processing its record. Keys of one length are hashed together, a
word of all of them after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pystreams.kernel.partitioner import MULTIPLIER, SEED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

_MULTIPLIER = np.uint32(MULTIPLIER)
_13, _15, _24 = map(np.uint32, (13, 15, 24))


def partitions_of(keys: Sequence[bytes | None], num_partitions: int, without_key: int) -> list[int]:
    """Return the partition of each key.

    Args:
        without_key: The partition of records that have no key.
    """
    lengths = [-1 if key is None else len(key) for key in keys]
    found = np.full(len(keys), without_key, np.int64)
    at = np.array(lengths)
    for length in set(lengths) - {-1}:
        places = np.flatnonzero(at == length)
        same = b"".join(key for key in keys if key is not None and len(key) == length)
        hashed = _murmur2(same, len(places), length)
        found[places] = (hashed & np.uint32(0x7FFFFFFF)) % np.uint32(num_partitions)
    partitions: list[int] = found.tolist()
    return partitions


def _murmur2(data: bytes, count: int, length: int) -> Words:
    """Return the hashes of keys of one length, one behind the other in `data`."""
    own = np.frombuffer(data, np.uint8).reshape(count, length)
    hashed = np.full(count, SEED ^ length, np.uint32)
    whole = length & ~3
    words = np.ascontiguousarray(own[:, :whole]).view("<u4")
    for column in range(whole // 4):
        word = words[:, column] * _MULTIPLIER
        word = (word ^ (word >> _24)) * _MULTIPLIER
        hashed = (hashed * _MULTIPLIER) ^ word
    if whole < length:
        for place in range(whole, length):
            hashed ^= own[:, place].astype(np.uint32) << np.uint32(8 * (place - whole))
        hashed = hashed * _MULTIPLIER
    hashed = (hashed ^ (hashed >> _13)) * _MULTIPLIER
    return hashed ^ (hashed >> _15)
