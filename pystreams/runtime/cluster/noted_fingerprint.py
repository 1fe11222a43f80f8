"""What a topology keeps, noted with the offsets of a group, so that it outlives disks.

The first task of each sub-topology notes it with one of its offsets: the topology's fingerprint
(`deploy.shared_fingerprint`), compressed. It is of the topology that the same text notes
(`topology_note`), and is believed where that is the one that was started last.

Format: an entry of processor metadata (`committed_offsets`), of which Kafka Streams has no use; the
fingerprint as JSON, by zlib and in base 85:

    pystreams-fingerprint 1 <fingerprint>

Brokers take so much metadata with an offset and no more (`offset.metadata.max.bytes`), or they
refuse the commit. So nothing is noted before all of them have told how much that is. Where it does
not fit beside all else that is committed there, stores of earlier versions are left out, the oldest
first; where it still does not, it is left out itself, and what it would take is told:

    pystreams-fingerprint too-large <characters> <of how many>
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from pystreams.deploy.fingerprint import Fingerprint
from pystreams.deploy.fingerprint_shape import is_fingerprint
from pystreams.deploy.operator_facts import Facts
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.committed_offsets import (
    encode_partition_time,
    entries_of,
    with_key,
)

_log = get_logger("pystreams.topics")

LIMIT_SETTING = "offset.metadata.max.bytes"
_WORD = "pystreams-fingerprint"
_FORM = "1"
_TOO_LARGE = "too-large"
_SPARE_CHARACTERS = 64
_CHARACTERS_MAX = 16_384
"""However much brokers take: it is sent with each commit of a task."""
_DECODED_MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FingerprintNote:
    """A fingerprint to be noted.

    Attributes:
        fingerprint: The shared one.
        room_characters: How long the text of an offset with it may be; 0 where nobody knows.
        entries: Keys of the entry, of which the first that fits is noted: with all stores of
            earlier versions, with fewer, the oldest left out, and at last with none.
    """

    fingerprint: Fingerprint
    room_characters: int
    entries: tuple[str, ...]

    @classmethod
    def of(cls, fingerprint: Fingerprint, limits: Callable[[str], list[str | None]]) -> Self:
        """Return the note of a shared fingerprint.

        Args:
            limits: Returns a setting of each broker; None for one that does not tell.
        """
        told = limits(LIMIT_SETTING)
        known = [int(limit) for limit in told if limit is not None and limit.isdecimal()]
        if not known or len(known) < len(told):
            _log.info(
                "the group does not note what the topology keeps until the next start",
                reason=f"{len(known)} of {len(told)} brokers have told their {LIMIT_SETTING}",
                meaning="`pystreams check NEW --group` goes by the digest, and asks for OLD where "
                "that is another one",
                cure="grant DESCRIBE_CONFIGS on the cluster, or start again when all brokers are "
                "there",
            )
            return cls(fingerprint, 0, ())
        room = max(min(_CHARACTERS_MAX, *known) - _SPARE_CHARACTERS, 0)
        return cls(fingerprint, room, _entries_of(fingerprint, room))

    def after(self, before: Sequence[Fingerprint], since: Sequence[Fingerprint] = ()) -> Self:
        """Return it with the stores that topologies before have left, as the group tells.

        What was known last of a store counts. A state directory that is new knows of none.

        Args:
            before: Those that the state directory has known of, the oldest first.
            since: Those that ran while it was away, likewise.
        """
        if not before and not since:
            return self
        own = self.fingerprint["former_stores"]
        left: dict[str, Facts] = {}
        for stores in (*map(_all_stores, before), own, *map(_all_stores, since)):
            for name in stores:
                left.pop(name, None)
            left.update(stores)
        left = {name: left[name] for name in left if name not in self.fingerprint["stores"]}
        fingerprint = {**self.fingerprint, "former_stores": left}
        entries = _entries_of(fingerprint, self.room_characters)
        return replace(self, fingerprint=fingerprint, entries=entries)

    def added(self, entries: bytes, numbers: Mapping[str, int]) -> bytes:
        """Return the entries of an offset with this one, if all of it fits.

        Args:
            numbers: What is committed with the offset beside the entries.
        """
        length = 0
        for entry in self.entries:
            whole = with_key(entries, entry)
            if (length := len(encode_partition_time(0, whole, numbers))) <= self.room_characters:
                return whole
        why = with_key(entries, f"{_WORD} {_TOO_LARGE} {length} {self.room_characters}")
        fits = len(encode_partition_time(0, why, numbers)) <= self.room_characters
        return why if fits else entries


class FoundFingerprint(NamedTuple):
    """What a group's offsets tell of what a topology keeps.

    Attributes:
        fingerprint: The shared one; None where they don't tell it.
        why_not: Why they don't, as a sentence without an end.
    """

    fingerprint: Fingerprint | None
    why_not: str = ""


def found_fingerprint(first_tasks: Sequence[tuple[int, str]]) -> FoundFingerprint:
    """Return the fingerprint that offsets of one topology tell; that of the last start, of several.

    Args:
        first_tasks: When a process was started (ms), and the metadata that it has committed with a
            partition 0.
    """
    entries = [
        entry
        for _, metadata in sorted(first_tasks, reverse=True)
        for entry in entries_of(metadata, f"{_WORD} ")
    ]
    found = next(filter(None, map(_decoded, entries)), None)
    if found is not None:
        return FoundFingerprint(found)
    return FoundFingerprint(None, _why_not(entries, committed=bool(first_tasks)))


def _why_not(entries: Sequence[str], *, committed: bool) -> str:
    if not committed:
        return (
            "none of its tasks 0_0, 1_0, ..., which note that, has committed since it was started: "
            "they have had no records, or a tool has set their offsets"
        )
    for entry in entries:
        word, *numbers = entry.split(" ")
        if word == _TOO_LARGE and len(numbers) == 2 and all(map(str.isdecimal, numbers)):
            return (
                f"to note that takes {numbers[0]} characters of an offset, and there is room for "
                f"{numbers[1]} (the brokers' {LIMIT_SETTING} says how many)"
            )
    if entries:
        return "another version of pystreams has noted that in another form"
    return (
        f"an earlier pystreams has committed, or not all brokers have told it their {LIMIT_SETTING}"
        " (its user may ask with DESCRIBE_CONFIGS on the cluster)"
    )


def _all_stores(fingerprint: Fingerprint) -> dict[str, Facts]:
    return {**fingerprint["former_stores"], **fingerprint["stores"]}


def _entries_of(fingerprint: Fingerprint, room_characters: int) -> tuple[str, ...]:
    """Return keys of an entry, each with half as many stores of earlier versions as the one before.

    What has no room even alone is left out, but for the shortest.
    """
    former = list(fingerprint["former_stores"].items())
    found = [_encoded(fingerprint)] if room_characters else []
    while former and room_characters:
        former = former[(len(former) + 1) // 2 :]  # The oldest stand first.
        found.append(_encoded({**fingerprint, "former_stores": dict(former)}))
    return tuple(entry for entry in found if len(entry) <= room_characters or entry is found[-1])


def _encoded(fingerprint: Fingerprint) -> str:
    text = json.dumps(fingerprint, separators=(",", ":"))  # The order of parts says something.
    packed = base64.b85encode(zlib.compress(text.encode(), 9)).decode()
    return f"{_WORD} {_FORM} {packed}"


def _decoded(entry: str) -> Fingerprint | None:
    form, _, packed = entry.partition(" ")
    if form != _FORM:
        return None
    try:
        data = base64.b85decode(packed)
        found: Any = json.loads(zlib.decompressobj().decompress(data, _DECODED_MAX_BYTES))
        json.dumps(found, ensure_ascii=False).encode()  # Whether its texts can be told at all.
        # Whoever may commit for the group may have written it.
        return found if is_fingerprint(found) else None
    except (ValueError, RecursionError, zlib.error):
        return None
