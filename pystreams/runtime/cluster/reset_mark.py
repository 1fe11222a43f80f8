"""The mark of a group that is being reset: its state is deleted in part.

The source partitions of the group have a committed offset with this text as its metadata, from
before the first topic is deleted until the offsets are gone or new. A live application that is
started meanwhile, or after a reset that was cut off, would go on behind records whose state is not
there any more: it stops instead.

A blank is not in base64's alphabet: to a reader of partition times (`offsets`, Kafka Streams) the
text holds none.
"""

from __future__ import annotations

RESETTING = "pystreams-resetting 1"


def is_being_reset(metadata: str) -> bool:
    """Return whether a committed offset's metadata is such a mark."""
    return metadata.startswith("pystreams-resetting ")
