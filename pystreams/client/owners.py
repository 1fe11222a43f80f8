"""Who has which keys, as answers have told it: a client that knows asks that process itself.

The partition of a key follows from its bytes, by Kafka's default partitioner. A client does not
know which bytes the store's serde makes of a key, nor whether the topic is partitioned by that
rule at all: it guesses, and answers say whether that was right. A wrong guess costs time and is
never a wrong answer, as any process answers for any key.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pystreams.client.keys import UNDECODED
from pystreams.kernel.partitioner import partition_of

_BELIEVED_S = 30.0
"""As long as a process believes what the group said last of who has what."""
_ENOUGH = 3
"""Answers that a way to write keys must have been right for."""
_LONGEST_NUMBER = len(str(-(2**63)))


class Owner(NamedTuple):
    """A process that is said to have a partition.

    Attributes:
        place: Where it answers: `host:port`.
        since_s: When the process at the client's own URL said so (or another one, asked then).
    """

    place: str
    since_s: float


class Asked(NamedTuple):
    """A question for a key.

    Attributes:
        text: The key, as it is sent; None: its partition was asked for, or nothing can be guessed.
        partition: Which one is asked for; None: the one that the key belongs to.
    """

    store: str
    text: str | None
    partition: int | None


def asked_for(store: str, key: Any, text: str, partition: Any) -> Asked:
    """Return a question, as far as answers can be learned from.

    Args:
        key: As the client was given it: only texts, bytes and integers can be guessed of.
        text: As it is sent.
        partition: The one that is asked for, or None.
    """
    if partition is not None:
        return Asked(store, None, partition if type(partition) is int else None)
    is_guessed = type(key) in (str, int) or _bytes_of(text) == key
    return Asked(store, text if is_guessed else None, None)


class KnownOwners:
    """What is known of an application's processes. Safe to use from any thread.

    There is no lock: each change is one step, and a change that is lost is made again by the next
    answer. What was learned stays here when a client is pickled.

    Args:
        monotonic_s: The clock (s).
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._stores: dict[str, _Store] = {}
        self._left_alone: dict[str, float] = {}  # Until when (s).

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownOwners, ()

    def of(self, asked: Asked) -> Owner | None:
        """Return who has what is asked for; None: the URL is to be asked."""
        known = self._stores.get(asked.store)
        if known is None:
            return None
        number = asked.partition
        if number is None and asked.text is not None:
            number = known.partition_of(asked.text)
        owner = None if number is None else known.owners.get(number)
        is_believed = owner is not None and self._monotonic_s() - owner.since_s < _BELIEVED_S
        return owner if is_believed else None

    def is_to_be_counted(self, store: str, answer: dict[str, Any]) -> bool:
        """Return whether who has this answer is to count the store's partitions now."""
        if type(answer.get("partition")) is not int:
            return False  # A global store is in each process.
        known = self._stores.setdefault(store, _Store())
        return known.is_to_be_counted(self._monotonic_s())

    def counted(self, store: str, answer: dict[str, Any]) -> None:
        """Learn from the answer to a range, which names all partitions of a store."""
        here, elsewhere = answer.get("partitions"), answer.get("elsewhere")
        if not isinstance(here, list) or not isinstance(elsewhere, list):
            return
        numbers = [page.get("partition") for page in here if isinstance(page, dict)] + elsewhere
        if all(number in numbers for number in range(len(numbers))):
            self._stores.setdefault(store, _Store()).count = len(numbers)

    def learn(
        self, asked: Asked, answer: dict[str, Any], owner: Owner | None, passed_on_to: str | None
    ) -> None:
        """Learn from an answer that has a value.

        Args:
            owner: Who was asked; None: the URL.
            passed_on_to: Whom that one has asked, as it says.
        """
        known, number = self._stores.get(asked.store), answer.get("partition")
        if known is None or type(number) is not int or not 0 <= number < known.count:
            return
        if asked.text is not None:
            known.compare(asked.text, number)
        now_s = self._monotonic_s()
        if passed_on_to is None or not _is_place(passed_on_to):
            return
        if self._left_alone.get(passed_on_to, now_s) <= now_s:
            # Who was guessed at may be of another application by now: what it says is not believed
            # for longer than it would have been itself.
            known.owners[number] = Owner(passed_on_to, owner.since_s if owner else now_s)

    def forget(self, place: str, *, left_alone: bool) -> None:
        """Forget what a process is said to have.

        Args:
            left_alone: Don't ask it again for a while, whoever names it: it does not answer, or
                not as a process of an application does.
        """
        for known in list(self._stores.values()):
            for number, owner in list(known.owners.items()):
                if owner.place == place:
                    known.owners.pop(number, None)
        if left_alone:
            now_s = self._monotonic_s()
            for other, until_s in list(self._left_alone.items()):
                if until_s <= now_s:
                    self._left_alone.pop(other, None)
            self._left_alone[place] = now_s + _BELIEVED_S


class _Store:
    """What is known of a store.

    Attributes:
        count: How many partitions it has; 0: not known yet.
        owners: Who has which.
    """

    def __init__(self) -> None:
        self.count = 0
        self.owners: dict[int, Owner] = {}
        self._next_count_s = float("-inf")
        self._right: dict[str, int] = {}
        self._refuted: set[str] = set()

    def is_to_be_counted(self, now_s: float) -> bool:
        """Return whether nobody has counted, nor has begun to just now."""
        if self.count or now_s < self._next_count_s:
            return False
        self._next_count_s = now_s + _BELIEVED_S
        return True

    def partition_of(self, text: str) -> int | None:
        """Return the partition of a key; None if no way to write keys is known to be right."""
        for way, bytes_of in _WAYS.items():
            if way in self._refuted or self._right.get(way, 0) < _ENOUGH:
                continue
            data = bytes_of(text)
            if data is not None and self.count:
                return partition_of(data, self.count)
        return None

    def compare(self, text: str, number: int) -> None:
        """Learn from where a key is: one that is elsewhere refutes a way to write keys for good."""
        for way, bytes_of in _WAYS.items():
            data = None if way in self._refuted else bytes_of(text)
            if data is None:
                continue
            if partition_of(data, self.count) == number:
                self._right[way] = min(self._right.get(way, 0) + 1, _ENOUGH)
            else:
                self._refuted.add(way)


def _as_number(text: str, size_bytes: int) -> bytes | None:
    """Return a number's bytes; None of what is none, not written as one is, or too large."""
    if len(text) > _LONGEST_NUMBER:
        return None
    try:
        number = int(text)
        return number.to_bytes(size_bytes, "big", signed=True) if str(number) == text else None
    except (ValueError, OverflowError):
        return None


def _bytes_of(text: str) -> bytes:
    return text.encode(errors=UNDECODED)


_WAYS: Final[dict[str, Callable[[str], bytes | None]]] = {
    "text": _bytes_of,
    "long": lambda text: _as_number(text, 8),
    "int": lambda text: _as_number(text, 4),
}
"""What a serde may make of a key."""


def _is_place(told: str) -> bool:
    """Return whether that is `host:port`, and nothing else."""
    try:
        parts = urlsplit(f"http://{told}")
        is_whole = parts.netloc == told and "@" not in told and bool(parts.hostname and parts.port)
    except ValueError:
        return False
    return is_whole and told.isprintable() and " " not in told
