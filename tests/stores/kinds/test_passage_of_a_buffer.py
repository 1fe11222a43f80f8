"""The short way through a buffer gives what the long way gives, whatever comes between."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from pystreams.record import Headers, PresentRecord, StaticMessage
from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
from pystreams.stores.engines.memory import MemoryEngine
from pystreams.stores.kinds.buffer.passage import Passage
from pystreams.stores.kinds.buffer.store import TimeOrderedBuffer
from pystreams.stores.kinds.buffer.waiting_record import (
    HEADERS,
    TIMESTAMP,
    InBytes,
    Waiting,
    WaitingMessage,
    origin_of,
    restored_records,
)
from tests.stores.support import CHANGELOG, Home
from tests.stores.waiting import HELD_BYTES, TEXT

GRACE_MS = 10


class Joined:
    """A join that only notes what it is given; it goes the long way alone, if told so."""

    def __init__(
        self, directory: Path, kept_bytes: int, *, long_way: bool, text: bool = True
    ) -> None:
        self.home = Home(directory)
        self.buffer = TimeOrderedBuffer(
            BufferedKeyValueStore(
                "s",
                MemoryEngine("s"),
                value_prefix_bytes=0,
                caching=False,
                restored=restored_records,
            ),
            kept_bytes,
        )
        self.buffer.init(self.home.context())
        self.in_bytes = self.buffer.in_bytes = TEXT if text else InBytes()
        self.record = PresentRecord()
        self.waited = WaitingMessage(self.in_bytes)
        self.went_the_long_way = 0
        self.left: list[tuple[Any, ...]] = []
        kept_type = str if text else None
        passage = Passage(
            record=self.record,
            waited=self.waited,
            grace_period_ms=0 if long_way else GRACE_MS,
            serialize_key=str.encode,
            serialize_value=str.encode,
            key_type=kept_type,
            value_type=kept_type,
            let_go=self.let_go,
            let_go_read=self.let_go_read,
            otherwise=self.exchange,
        )
        self.step = self.buffer.passage(passage)
        self.buffer.begin(GRACE_MS)

    def come(self, number: int, key: str, timestamp: int, value: str, headers: Headers) -> None:
        self.record.message = StaticMessage("t", 0, number, b"k", bytes(len(value)), timestamp)
        if timestamp >= self.buffer.left_until:
            self.step(key, value, timestamp, headers)
        assert self.record.message.offset() == number

    def exchange(self, key: str, value: str, timestamp: int, headers: Headers) -> None:
        self.went_the_long_way += 1
        raw_key, raw_value = key.encode(), value.encode()
        as_text = self.in_bytes is TEXT
        until = max(self.buffer.left_until, timestamp - GRACE_MS)
        message = self.record.message
        for waiting in self.buffer.exchange(
            key if as_text else raw_key,
            value if as_text else raw_value,
            timestamp,
            headers,
            message,
            len(raw_key) + len(raw_value),
            until,
        ):
            self.let_go_read(waiting)
        self.record.message = message

    def let_go(self, key: str, value: str, timestamp: int, headers: Headers) -> None:
        assert self.record.message is self.waited
        origin = origin_of(self.waited.waiting)
        self.left.append((key.encode(), value.encode(), timestamp, headers, origin))

    def let_go_read(self, waiting: Waiting) -> None:
        self.record.message, self.waited.waiting = self.waited, waiting
        self.let_go(
            self.in_bytes.key_of(waiting).decode(),
            self.in_bytes.value_of(waiting).decode(),
            waiting[TIMESTAMP],
            waiting[HEADERS],
        )

    def do(self, action: str, until: int) -> None:
        if action == "leave":
            for waiting in self.buffer.leave_until(until):
                self.let_go_read(waiting)
        elif action == "rollback":
            self.buffer.rollback()
            self.buffer.begin(GRACE_MS)
        else:
            self.buffer.flush_cache()
            if action == "commit":
                self.buffer.commit({CHANGELOG: 0})

    def seen(self) -> tuple[Any, ...]:
        return (
            self.left,
            self.buffer.approximate_num_uncommitted_bytes(),
            self.buffer.left_until,
            self.home.logged(),
        )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("text", [True, False], ids=["text", "bytes"])
@pytest.mark.parametrize("kept_records", [2, 1000])
def test_short_way_lets_go_counts_and_logs_what_the_long_way_does(
    kept_records: int, text: bool, seed: int, tmp_path: Path
) -> None:
    chooser = random.Random(seed)
    short, long = (
        Joined(tmp_path / name, kept_records * HELD_BYTES, long_way=name == "long", text=text)
        for name in ("short", "long")
    )
    now = 0
    for number in range(400):
        now += chooser.choice([0, 0, 1, 1, 1, 2, 15])
        timestamp = max(0, now - chooser.choice([0] * 8 + [3, 12]))
        key, value = chooser.choice(["a", "b", "ab", "é"]), "v" * chooser.choice([1, 1, 9])
        headers: Headers = chooser.choice([(), (), (("h", b"1"),)])
        action = chooser.choice([""] * 20 + ["leave", "commit", "flush", "rollback"])
        for joined in (short, long):
            joined.come(number, key, timestamp, value, headers)
            if action:
                joined.do(action, now - GRACE_MS + 2)
        assert short.seen() == long.seen(), (number, action)
    assert long.went_the_long_way > short.went_the_long_way > 0
    assert len(short.left) > 100


def test_value_that_does_not_fit_its_serde_goes_the_long_way(tmp_path: Path) -> None:
    """There it is told."""
    joined = Joined(tmp_path, HELD_BYTES, long_way=False)
    joined.come(0, "a", 10, "v", ())
    joined.come(1, "a", 11, "v", ())

    with pytest.raises(UnicodeEncodeError):
        joined.come(2, "a", 12, "\ud800", ())

    assert joined.went_the_long_way == 2


@pytest.mark.parametrize(("value_bytes", "kept"), [(10, True), (10_000, False)])
def test_message_is_kept_with_its_record_unless_it_is_much_larger(
    value_bytes: int, kept: bool, tmp_path: Path
) -> None:
    joined = Joined(tmp_path, HELD_BYTES, long_way=False)
    joined.come(0, "a", 10, "v", ())
    joined.record.message = message = StaticMessage("t", 0, 7, b"k", bytes(value_bytes), 11)
    before = sys.getrefcount(message)

    joined.step("a", "v", 11, ())

    assert joined.went_the_long_way == 1
    assert (sys.getrefcount(message) > before) == kept
    joined.do("leave", 11)
    assert [origin.offset for *_, origin in joined.left] == [0, 7]
