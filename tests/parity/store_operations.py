"""The random operations of the store oracle, draw by draw those of `java/.../parity/stores`.

A script makes the operations on one store: `next(number)` one after the other, and `last()`, which
makes the store clean up what has expired. The golden files hold a hash of the operations, so that
a difference between the two languages shows as that.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

LONG_MAX = 2**63 - 1
_MASK = 2**64 - 1
_REMEMBERED = 16
_JUMP_AT = 3_000
_JUMP_MS = 1_700_000_000_000
KEYS = (
    b"a",
    b"ab",
    b"a\x00",
    b"a\xff",
    b"a\x00\x00",
    b"a\xff\xff",
    b"\x00",
    b"\x00\x00",
    b"\xff",
    b"\xff\xff",
    b"\x80",
    b"\x7f",
    b"k1",
    b"k2",
    b"k12",
    b"\x00a",
)
"""Prefixes of one another, and made of the lowest and the highest bytes as well."""

Argument = bytes | int | None


class Operation(NamedTuple):
    """One call of a store's method."""

    name: str
    arguments: tuple[Argument, ...]

    def line(self) -> str:
        """Return the operation as one line."""
        return " ".join(
            (self.name, *(str(a) if isinstance(a, int) else hex_of(a) for a in self.arguments))
        )


class Script(Protocol):
    """Operations on one store."""

    def next(self, number: int) -> Operation:
        """Return the next random operation."""

    def last(self) -> list[Operation]:
        """Return what is done last."""


def hex_of(data: bytes | None) -> str:
    """Return "x" and the bytes in hexadecimal digits; "-" for None."""
    return "-" if data is None else "x" + data.hex()


class Choices:
    """The random choices that operations are made of.

    Event time starts at 0, and jumps to our days. Times repeat, come late, come too late, and lie
    on borders of segments.

    Args:
        seed: Where the sequence (SplitMix64) starts.
        retention_ms: How late a time may be without being too late.
        segment_interval_ms: What one segment covers.
        longest_step_ms: Event time moves on by less than this, in every second call of `time`.
    """

    def __init__(
        self, seed: int, retention_ms: int, segment_interval_ms: int, longest_step_ms: int
    ) -> None:
        self.now = 0
        self._state = seed
        self._retention_ms = retention_ms
        self._segment_interval_ms = segment_interval_ms
        self._longest_step_ms = longest_step_ms
        self._recent_times: list[int] = []

    def start_of(self, number: int) -> None:
        """To be called before each operation; one of them is in another age."""
        if number == _JUMP_AT:
            self.now += _JUMP_MS

    def below(self, bound: int) -> int:
        """Return a number from 0 to `bound` - 1."""
        self._state = mixed = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) >> 33) % bound

    def percent(self, chance: int) -> bool:
        """Return True in `chance` of 100 cases."""
        return self.below(100) < chance

    def key(self) -> bytes:
        """Return one of the keys."""
        return KEYS[self.below(len(KEYS))]

    def key_or_none(self) -> bytes | None:
        """Return one of the keys, or None in 1 of 5 cases."""
        return None if self.percent(20) else self.key()

    def value(self, number: int, none_percent: int) -> bytes | None:
        """Return the operation's number, at times no bytes, or None."""
        if self.percent(none_percent):
            return None
        return b"" if self.percent(5) else b"%d" % number

    def time(self) -> int:
        """Return a time to write at; it is remembered."""
        interval = self._segment_interval_ms
        choice = self.below(100)
        if choice < 50:
            self.now += self.below(self._longest_step_ms)
            time = self.now
        elif choice < 80:
            time = self.now - self.below(self._retention_ms)
        elif choice < 90:
            time = self.now - self.below(2 * self._retention_ms)
        elif choice < 93:
            time = self.now
        elif choice < 95:
            self.now = (self.now // interval + 1) * interval - self.below(2)
            time = self.now
        elif choice < 97:
            time = self.now - self._retention_ms + 1 - self.below(3)
        else:
            time = (self.now // interval - self.below(4)) * interval - self.below(2)
        time = max(0, time)
        self._remember(time)
        return time

    def _remember(self, time: int) -> None:
        recent = self._recent_times
        if len(recent) < _REMEMBERED:
            recent.append(time)
        else:
            recent[self.below(_REMEMBERED)] = time

    def read_time(self) -> int:
        """Return a time to read at: mostly one that was written at, or a moment from it."""
        recent = self._recent_times
        if not recent or self.percent(20):
            back = self.below(2 * self._retention_ms)
            return max(0, self.now - back + self.below(self._longest_step_ms))
        time = recent[self.below(len(recent))]
        return max(0, time + self.below(3) - 1)


class VersionedScript:
    """A versioned store whose segments expire all the time."""

    RETENTION_MS = 60_000
    SEGMENT_INTERVAL_MS = 10_000
    SHORT_RANGE_MS = 2_000

    def __init__(self) -> None:
        self._choices = Choices(1, self.RETENTION_MS, self.SEGMENT_INTERVAL_MS, 100)
        self._latest_times: dict[bytes, int] = {}

    def next(self, number: int) -> Operation:
        """Return the next random operation."""
        choices = self._choices
        choices.start_of(number)
        choice = choices.below(100)
        key = choices.key()
        if choice < 55:
            value = choices.value(number, 15)
            return Operation("put", (key, value, self._moved(key, value, choices.time())))
        if choice < 65:
            return Operation("delete", (key, self._moved(key, None, choices.time())))
        if choice < 75:
            return Operation("get", (key,))
        if choice < 95:
            return Operation("get_as_of", (key, choices.read_time()))
        name = "versions" if choices.percent(50) else "versions_ascending"
        start = choices.read_time()
        length = self.RETENTION_MS if choices.percent(50) else self.SHORT_RANGE_MS
        return Operation(name, (key, start, start + choices.below(length)))

    def _moved(self, key: bytes, value: bytes | None, time: int) -> int:
        """Return a put's time; a deletion's is never that of the key's latest value.

        Kafka Streams forgets such a deletion and takes a late put for the latest; ours does not.
        """
        latest = self._latest_times.get(key, -1)
        if value is None and time == latest:
            time += 1
        self._latest_times[key] = max(latest, time)
        return time

    def last(self) -> list[Operation]:
        """Return two puts: the second moves the first into a segment."""
        key, now = KEYS[0], self._choices.now
        return [Operation("put", (key, key, now)), Operation("put", (key, key, now + 1))]


class KeyValueScript:
    """A key-value store, plain or timestamped; a value and its timestamp are two arguments."""

    def __init__(self, *, timestamped: bool) -> None:
        self._choices = Choices(3 if timestamped else 2, 60_000, 10_000, 40)

    def _key(self) -> bytes:
        """Return one of the keys, none at all, or one of them with a last byte of its own."""
        stem = self._choices.key()
        suffix = self._choices.below(8)
        if suffix > 4:
            return b"" if suffix == 7 and self._choices.percent(10) else stem
        return stem + bytes((suffix * 63,))

    def _bound(self) -> bytes | None:
        return None if self._choices.percent(20) else self._key()

    def _entry(self, number: int, none_percent: int) -> tuple[Argument, ...]:
        return self._key(), self._choices.value(number, none_percent), self._choices.time()

    def next(self, number: int) -> Operation:
        """Return the next random operation."""
        self._choices.start_of(number)
        choice = self._choices.below(1000)
        if choice < 400:
            return Operation("put", self._entry(number, 10))
        if choice < 500:
            return Operation("put_if_absent", self._entry(number, 0))
        if choice < 600:
            return Operation("delete", (self._key(),))
        if choice < 800:
            return Operation("get", (self._key(),))
        if choice < 900:
            name = "range" if choice < 850 else "reverse_range"
            return Operation(name, (self._bound(), self._bound()))
        if choice < 960:
            return Operation("prefix_scan", (self._choices.key(),))
        if choice < 980:
            return Operation("all" if choice < 970 else "reverse_all", ())
        entries = [self._entry(number, 10) for _ in range(3)]
        return Operation("put_all", tuple(argument for entry in entries for argument in entry))

    def last(self) -> list[Operation]:
        """Return nothing: no key expires."""
        return []


class WindowScript:
    """A window store: plain, timestamped, or plain with duplicates."""

    RETENTION_MS = 120_000
    SEGMENT_INTERVAL_MS = 60_000
    WINDOW_MS = 10_000

    def __init__(self, *, seed: int, duplicates: bool) -> None:
        self._choices = Choices(seed, self.RETENTION_MS, self.SEGMENT_INTERVAL_MS, 1_000)
        self._duplicates = duplicates

    def _start(self, time: int) -> int:
        """Return the second the time is in, in most cases, so that many are written again."""
        return time // 1000 * 1000 if self._choices.percent(80) else time

    def next(self, number: int) -> Operation:
        """Return the next random operation."""
        choices = self._choices
        choices.start_of(number)
        choice = choices.below(1000)
        key: bytes | None = choices.key()
        if choice < 550:
            # A deletion is left out where it does nothing, see the README.
            value = choices.value(number, 0 if self._duplicates else 10)
            time = choices.time()
            return Operation("put", (key, value, self._start(time), time))
        start = self._start(choices.read_time())
        # With duplicates Java finds one value only right after it was put.
        if choice < 700 and not self._duplicates:
            return Operation("fetch", (key, start))
        to_the_end = choices.percent(3)
        end = LONG_MAX if to_the_end else max(0, start + choices.below(40_000) - 2_000)
        if choice < 900:
            name = "fetch" if choice < 800 else "backward_fetch"
            return Operation(name, (key, start, end))
        if choice < 970:
            name = "fetch_range" if choice < 935 else "backward_fetch_range"
            if choices.percent(20):
                key = None
            return Operation(name, (key, choices.key_or_none(), start, end))
        if choice < 990:
            name = "fetch_all" if choice < 980 else "backward_fetch_all"
            return Operation(name, (start, end))
        return Operation("all" if choice < 995 else "backward_all", ())

    def last(self) -> list[Operation]:
        """Return a put at the stream time."""
        key, now = KEYS[0], self._choices.now
        return [Operation("put", (key, key, now, now))]


class SessionScript:
    """A session store; a session is three arguments: key, start and end."""

    RETENTION_MS = 120_000
    SEGMENT_INTERVAL_MS = 60_000
    LONGEST_MS = 5_000

    def __init__(self) -> None:
        self._choices = Choices(7, self.RETENTION_MS, self.SEGMENT_INTERVAL_MS, 1_000)
        self._recent: list[tuple[Argument, ...]] = []

    def next(self, number: int) -> Operation:
        """Return the next random operation."""
        choices = self._choices
        choices.start_of(number)
        choice = choices.below(1000)
        if choice < 550 or not self._recent:
            return self._write(number, put=choice < 450)
        if choice < 650:
            return Operation("fetch_session", self._known())
        key: bytes | None = choices.key()
        if choice < 700:
            return Operation("fetch" if choice < 675 else "backward_fetch", (key,))
        if choice < 710:
            name = "fetch_range" if choice < 705 else "backward_fetch_range"
            if choices.percent(20):
                key = None
            return Operation(name, (key, choices.key_or_none()))
        earliest_end = choices.read_time()
        if choices.percent(3):
            latest_start = LONG_MAX
        else:
            latest_start = max(0, earliest_end + choices.below(20_000) - 4_000)
        if choice < 900:
            name = "find_sessions" if choice < 810 else "backward_find_sessions"
            return Operation(name, (key, earliest_end, latest_start))
        name = "find_sessions_range" if choice < 950 else "backward_find_sessions_range"
        if choices.percent(20):
            key = None
        return Operation(name, (key, choices.key_or_none(), earliest_end, latest_start))

    def _known(self) -> tuple[Argument, ...]:
        return self._recent[self._choices.below(len(self._recent))]

    def _write(self, number: int, *, put: bool) -> Operation:
        """Put or remove a session, at times a known one."""
        choices, recent = self._choices, self._recent
        if recent and choices.percent(20 if put else 80):
            session = self._known()
        else:
            key, end = choices.key(), choices.time()
            start = end if choices.percent(20) else max(0, end - choices.below(self.LONGEST_MS))
            session = (key, start, end)
            if len(recent) < _REMEMBERED:
                recent.append(session)
            else:
                recent[choices.below(_REMEMBERED)] = session
        if put:
            return Operation("put", (*session, choices.value(number, 5)))
        return Operation("remove", session)

    def last(self) -> list[Operation]:
        """Return a put at the stream time."""
        key, now = KEYS[0], self._choices.now
        return [Operation("put", (key, now, now, key))]
