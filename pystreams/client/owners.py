"""Who has which keys, as answers have told it: a client that knows asks that process itself.

The partition of a key follows from its bytes, by Kafka's default partitioner. A client does not
know which bytes the store's serde makes of a key, nor whether the topic is partitioned by that
rule at all: it guesses, and answers say whether that was right. A wrong guess costs time and is
never a wrong answer, as any process answers for any key.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pystreams.client.keys import UNDECODED
from pystreams.kernel.partitioner import partition_of

_BELIEVED_S = 30.0
"""As long as a process believes what the group said last of who has what."""
_PROVEN_S = 60.0
"""As long as a comparison of a process with the URL counts."""
_ENOUGH = 3
"""Answers that a way to write keys must have been right for; as many must have been passed on."""
_SILENT_S = 300.0
_LONGEST_SILENT_S = 3600.0
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


class _Silence(NamedTuple):
    """How long a process is not to be asked.

    Attributes:
        until_s: Until when (s).
        next_s: How long it is to be the next time, if nothing is heard of it before (s).
    """

    until_s: float
    next_s: float


class _Proof:
    """That a process was compared with the URL; each is one of its own.

    Attributes:
        until_s: As long as it counts (s).
    """

    __slots__ = ("until_s",)

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s


class KnownOwners:
    """What is known of an application's processes. Safe to use from any thread.

    There is no lock: each change is one step, and a change that is lost is made again by the next
    answer. What was learned stays here when a client is pickled.

    Args:
        may_ask: Whether a process may be asked at all, at `host:port`.
        monotonic_s: The clock (s).
    """

    def __init__(
        self, may_ask: Callable[[str], bool], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._may_ask = may_ask
        self._monotonic_s = monotonic_s
        self._stores: dict[str, _Store] = {}
        self._silent: dict[str, _Silence] = {}
        self._proven: dict[str, _Proof] = {}
        self._comparing: dict[int, object] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownOwners, (self._may_ask,)

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

    def proof_of(self, place: str) -> object | None:
        """Return what stands for the comparison of a process with the URL; None: there is none.

        It counts for a minute, as another application may have the address by then, and until a
        question that was asked with it fails.
        """
        proof = self._proven.get(place)
        return proof if proof is not None and self._monotonic_s() < proof.until_s else None

    def begin_comparing(self, place: str) -> object | None:
        """Begin to compare a process, one at a time.

        Returns:
            What stands for it until its end; None if there is nothing to compare now.
        """
        comparison = object()
        # The thread that does it is not there in a forked process.
        if self._comparing.setdefault(os.getpid(), comparison) is not comparison:
            return None
        if self.proof_of(place) is not None or not self._is_to_be_asked(place):
            self.end_comparing(comparison)
            return None
        return comparison

    def is_comparing(self, comparison: object) -> bool:
        """Return whether a comparison still counts."""
        return self._comparing.get(os.getpid()) is comparison

    def end_comparing(self, comparison: object) -> None:
        """Let another process be compared."""
        if self.is_comparing(comparison):
            self._comparing.pop(os.getpid(), None)

    def give_up_comparing(self) -> None:
        """Learn nothing from what is compared now."""
        self._comparing.clear()

    def prove(self, place: str) -> None:
        """Believe that a process is the one whose address was told."""
        self._silent.pop(place, None)
        self._proven[place] = _Proof(self._monotonic_s() + _PROVEN_S)

    def is_to_be_counted(
        self, store: str, answer: dict[str, Any], passed_on_to: str | None
    ) -> bool:
        """Return whether who has this answer is to count the store's partitions now.

        Not before some were passed on: who asks for a few keys pays for these alone.
        """
        # A global store is in each process.
        if passed_on_to is None or type(answer.get("partition")) is not int:
            return False
        if not self._is_to_be_asked(passed_on_to):
            return False
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
        if passed_on_to is not None and self._is_to_be_asked(passed_on_to):
            # Who was guessed at may be of another application by now: what it says is not believed
            # for longer than it would have been itself.
            since_s = owner.since_s if owner else self._monotonic_s()
            known.owners[number] = Owner(passed_on_to, since_s)

    def forget(self, place: str) -> None:
        """Forget what a process is said to have."""
        for known in list(self._stores.values()):
            for number, owner in list(known.owners.items()):
                if owner.place == place:
                    known.owners.pop(number, None)

    def refute(self, place: str, proof: object) -> None:
        """Leave a process alone for a short while, and compare it again: it starts again, perhaps.

        Many questions may meet one failure, some of them late: it counts once.

        Args:
            proof: With which it was asked.
        """
        if self._proven.get(place) is proof:
            self.leave_alone(place)

    def leave_alone(self, place: str, *, briefly: bool = False) -> None:
        """Don't ask a process for a while, whoever names it.

        One that has answered before starts again perhaps; one that never has can't be reached from
        here, which each time is believed for twice as long.

        Args:
            briefly: It is one of an application.
        """
        self.forget(place)
        now_s = self._monotonic_s()
        before = self._silent.get(place)
        next_s = _SILENT_S if before is None else before.next_s
        if briefly or place in self._proven:
            self._silent[place] = _Silence(now_s + _BELIEVED_S, next_s)
        else:
            self._silent[place] = _Silence(now_s + next_s, min(2 * next_s, _LONGEST_SILENT_S))
        self._proven.pop(place, None)
        for other, silence in list(self._silent.items()):
            if silence.until_s + _LONGEST_SILENT_S <= now_s:
                self._silent.pop(other, None)

    def _is_to_be_asked(self, place: str) -> bool:
        silence = self._silent.get(place)
        is_silent = silence is not None and self._monotonic_s() < silence.until_s
        return not is_silent and _is_place(place) and self._may_ask(place)


class _Store:
    """What is known of a store.

    Attributes:
        count: How many partitions it has; 0: not known yet.
        owners: Who has which.
    """

    def __init__(self) -> None:
        self.count = 0
        self.owners: dict[int, Owner] = {}
        self._passed_on = 0
        self._next_count_s = float("-inf")
        self._right: dict[str, int] = {}
        self._refuted: set[str] = set()

    def is_to_be_counted(self, now_s: float) -> bool:
        """Return whether nobody has counted, nor has begun to just now, and it is worth it."""
        self._passed_on += 1
        if self.count or self._passed_on < _ENOUGH or now_s < self._next_count_s:
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
