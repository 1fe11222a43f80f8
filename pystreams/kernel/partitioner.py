"""Kafka's default partitioner: which partition a key's bytes belong to.

murmur2 over the key, seed 0x9747b28c, without the sign bit, modulo the number of partitions.
Example: the key "a" of a topic with 10 partitions belongs to partition 4.

The Kafka client does this for what it sends. Here it serves what goes another way: history in
Spark, and the lookup of the partition that holds a key.
Spec: Kafka BuiltInPartitioner.partitionForKey, Utils.murmur2.
"""

from __future__ import annotations

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash of some bytes, unsigned."""
    length = len(data)
    hashed = SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * MULTIPLIER & _MASK
        word ^= word >> 24
        word = word * MULTIPLIER & _MASK
        hashed = (hashed * MULTIPLIER & _MASK) ^ word
    if whole < length:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * MULTIPLIER & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * MULTIPLIER & _MASK
    return hashed ^ (hashed >> 15)


def partition_of(key: bytes, num_partitions: int) -> int:
    """Return the partition of a key."""
    return (murmur2(key) & 0x7FFFFFFF) % num_partitions
