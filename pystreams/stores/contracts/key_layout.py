"""What a logged key is made of: the record's key, and what stands beside it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """Where the record's key stands in a logged key.

    Attributes:
        head_bytes: Bytes before it.
        tail_bytes: Bytes behind it. Where `StoreKind.segmented`, the first eight of them are the
            time (int64, ms) that says how old it is.
    """

    head_bytes: int = 0
    tail_bytes: int = 0


@dataclass(frozen=True, slots=True)
class KeyTime:
    """A time in a logged key (int64, ms): a column of its own in an export.

    Attributes:
        begins: Where it begins; negative where that is counted from the end of the key.
        plus_ms: What is to be added to it.
    """

    begins: int
    plus_ms: int = 0


@dataclass(frozen=True, slots=True)
class KeyFlag:
    """Something that is true or not in a logged key (a byte): a column of its own in an export.

    Attributes:
        begins: Where it is; negative where that is counted from the end of the key.
    """

    begins: int


@dataclass(frozen=True, slots=True)
class KeyNumber:
    """A number in a logged key (int32) that tells equal ones apart: a column of its own likewise.

    Attributes:
        begins: Where it begins; negative where that is counted from the end of the key.
    """

    begins: int


KeyPart = KeyTime | KeyFlag | KeyNumber
"""What stands in a logged key beside the record's key."""
