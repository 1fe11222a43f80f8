"""Sockets that keep Python's lock: they read and write as others do, and let no thread in."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from pystreams.http.lock_keeping_socket import LockKeepingSocket
from tests.broker.waiting import DEADLINE_S

Pair = tuple[LockKeepingSocket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    here, there = socket.socketpair()
    with LockKeepingSocket(here.detach()) as keeping, there:
        there.settimeout(DEADLINE_S)
        yield keeping, there


def test_bytes_of_any_value_are_read_and_written(pair: Pair) -> None:
    keeping, other = pair
    data = bytes(range(256))
    other.sendall(data)
    assert keeping.recv(1000) == data
    for given in (data, bytearray(data), memoryview(data)):
        assert keeping.send(given) == 256
        assert other.recv(1000) == data


def test_no_more_is_read_than_was_asked_for(pair: Pair) -> None:
    keeping, other = pair
    other.sendall(b"abcdef")
    assert [keeping.recv(4), keeping.recv(4)] == [b"abcd", b"ef"]


def test_with_nothing_to_read_it_does_not_wait(pair: Pair) -> None:
    keeping, _ = pair
    keeping.setblocking(True)
    with pytest.raises(BlockingIOError):
        keeping.recv(1)


def test_with_no_room_to_write_it_does_not_wait(pair: Pair) -> None:
    keeping, other = pair
    sent = read = 0

    def send_until_it_is_full() -> None:
        nonlocal sent
        while True:
            sent += keeping.send(b"x" * 100_000)

    with pytest.raises(BlockingIOError):
        send_until_it_is_full()
    while read < sent:
        read += len(other.recv(1_000_000))
    assert keeping.send(b"again") == 5


def test_the_end_of_the_stream_is_no_bytes(pair: Pair) -> None:
    keeping, other = pair
    other.close()
    assert keeping.recv(10) == b""


def test_who_has_gone_is_told_by_an_error_and_no_signal(pair: Pair) -> None:
    keeping, other = pair
    other.close()
    with pytest.raises(BrokenPipeError):
        keeping.send(b"x")


def test_a_closed_one_is_told(pair: Pair) -> None:
    keeping, _ = pair
    keeping.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        keeping.recv(1)


def test_connections_of_a_listening_one_keep_the_lock_too() -> None:
    plain = socket.create_server(("127.0.0.1", 0))
    with (
        LockKeepingSocket(plain.detach()) as listening,
        socket.create_connection(listening.getsockname()) as asking,
    ):
        accepted, address = listening.accept()
        with accepted:
            assert isinstance(accepted, LockKeepingSocket)
            assert address == asking.getsockname()


def test_no_other_thread_runs_while_it_reads_and_writes(pair: Pair) -> None:
    keeping, other = pair
    turns, over = [0], threading.Event()

    def run_when_let_in() -> None:
        while not over.is_set():
            turns[0] += 1
            time.sleep(0)  # Lets go of the lock.

    thread = threading.Thread(target=run_when_let_in)
    interval_s = sys.getswitchinterval()
    thread.start()
    try:
        sys.setswitchinterval(1000)  # Nobody has to let go.
        other.sendall(b"x" * 100)
        before = turns[0]
        for _ in range(100):
            keeping.send(keeping.recv(1))
        after = turns[0]
    finally:
        sys.setswitchinterval(interval_s)
        over.set()
        thread.join()
    assert after == before
