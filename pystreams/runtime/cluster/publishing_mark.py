"""The marks of a group whose state is being, or was, published by somebody else than its tasks.

A backfill fills an application's changelogs and hands its group over at the end. Until then every
partition of the group has a committed offset with this text as its metadata, so that

- whoever publishes knows, after any crash, how much of a task is published;
- a live application that is started too early sees that its state is not complete, and stops.

Format, words separated by a blank:

    pystreams-publishing 1 <publication> <rows> <"outputs" | "state">

    pystreams-publishing 1 9f86d081884c7d65 20000 state

A blank is not in base64's alphabet: to a reader of partition times (`offsets`, Kafka Streams) the
text holds none, and is ignored. It stays far below Kafka's `offset.metadata.max.bytes` (4096).

At the end, what the application would have committed itself takes its place (`offsets`): the
partition time, one entry that says what was published, and those of its source topics
(`topic_ids`). The application's first own commit leaves the first out.

    time 1000, publication "ab" -> key "pystreams-published ab"
    02 00000000000003e8 00000001 00000016 7079...6162 0000000000000000
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pystreams.runtime.cluster.committed_offsets import (
    encode_entries,
    encode_partition_time,
    entries_of,
    with_numbers,
)

_WORD = "pystreams-publishing"
_VERSION = "1"
_PUBLISHED = "pystreams-published "
_OUTPUTS = {True: "outputs", False: "state"}


class PublishingMark(NamedTuple):
    """How far a task is published.

    Attributes:
        publication: Identifies what is published; no blanks in it.
        rows: How many rows of the task are published, counted as they are read.
        with_outputs: Whether output records are published too, or the state alone.
    """

    publication: str
    rows: int
    with_outputs: bool

    def encode(self) -> str:
        """Return the metadata text."""
        outputs = _OUTPUTS[self.with_outputs]
        return f"{_WORD} {_VERSION} {self.publication} {self.rows} {outputs}"

    @classmethod
    def decode(cls, metadata: str) -> PublishingMark | None:
        """Return the mark in a metadata text, or None when it is none.

        Raises:
            ValueError: It is a mark of another version, or a damaged one.
        """
        words = metadata.split(" ")
        if words[0] != _WORD:
            return None
        if len(words) != 5 or words[1] != _VERSION or words[4] not in _OUTPUTS.values():
            raise ValueError(f"not a publishing mark of version {_VERSION}: {metadata!r}")
        return cls(words[2], int(words[3]), words[4] == _OUTPUTS[True])


def is_being_published(metadata: str) -> bool:
    """Return whether a committed offset's metadata is such a mark, of whatever version."""
    return metadata.startswith(f"{_WORD} ")


def encode_published(
    partition_time: int,
    publication: str,
    keys: Collection[str] = (),
    numbers: Mapping[str, int] = MappingProxyType({}),
) -> str:
    """Return the metadata text of a partition that was handed over.

    Args:
        partition_time: The highest timestamp of its history (ms), -1 if unknown.
        keys: Those of further entries.
        numbers: What operators commit with the offset.
    """
    entries = encode_entries([_PUBLISHED + publication, *keys])
    return encode_partition_time(partition_time, with_numbers(entries, numbers))


def published_by(metadata: str) -> str | None:
    """Return what was published when a partition was handed over; None for any other text."""
    return next(iter(entries_of(metadata, _PUBLISHED)), None)
