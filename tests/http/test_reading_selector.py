"""What a connection's reader has read is nothing for the event loop; all else is."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest

from pystreams.http.reading_selector import Reader, ReadingSelector
from tests.broker.waiting import DEADLINE_S

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def readers() -> dict[int, Reader]:
    return {}


@pytest.fixture
def selector(readers: dict[int, Reader]) -> Iterator[ReadingSelector]:
    with ReadingSelector(readers) as made:
        yield made


@pytest.fixture
def pair() -> Iterator[Pair]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def test_what_a_reader_reads_is_not_told(
    selector: ReadingSelector, readers: dict[int, Reader], pair: Pair
) -> None:
    here, there = pair
    read: list[bytes] = []

    def reader() -> bool:
        read.append(here.recv(10))
        return True

    readers[here.fileno()] = reader
    selector.register(here, selectors.EVENT_READ)
    there.send(b"one")
    assert selector.select(DEADLINE_S) == []
    assert read == [b"one"]
    del readers[here.fileno()]
    there.send(b"two")
    ((key, events),) = selector.select(DEADLINE_S)
    assert (key.fileobj, events) == (here, selectors.EVENT_READ)
    assert read == [b"one"]


def test_what_a_reader_leaves_is_told(
    selector: ReadingSelector, readers: dict[int, Reader], pair: Pair
) -> None:
    here, there = pair
    readers[here.fileno()] = lambda: False
    selector.register(here, selectors.EVENT_READ)
    there.send(b"one")
    assert [key.fileobj for key, _ in selector.select(DEADLINE_S)] == [here]
    assert here.recv(10) == b"one"


def test_room_to_write_is_told_with_what_there_is_to_read(
    selector: ReadingSelector, readers: dict[int, Reader], pair: Pair
) -> None:
    here, there = pair
    readers[here.fileno()] = lambda: False
    selector.register(here, selectors.EVENT_READ | selectors.EVENT_WRITE)
    there.send(b"one")
    told = 0
    for key, events in selector.select(DEADLINE_S):  # One or two, as the system tells it.
        assert key.fileobj == here
        told |= events
    assert told == selectors.EVENT_READ | selectors.EVENT_WRITE


def test_with_nothing_ready_it_ends_in_time(selector: ReadingSelector, pair: Pair) -> None:
    selector.register(pair[0], selectors.EVENT_READ)
    assert selector.select(0.01) == []
    assert selector.select(0) == []
