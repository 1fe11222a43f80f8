"""A child that a program makes by `os.fork` while an application runs has none of its threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEADLINE_S = 120

FORKING = r"""
import os, signal, sys, threading

from pystreams import KafkaStreams, StreamsBuilder, StreamsError, serdes
from pystreams.runtime.adapters.state_directory import StateDirectory

signal.alarm(100)
place = sys.argv[1]
asked, answered = threading.Event(), threading.Event()


class Clients:
    def admin(self, *_):
        asked.set()
        answered.wait()
        raise ConnectionError("no broker")


def tell(descriptor):
    os.write(descriptor, b"x")


def wait_for(descriptor):
    os.read(descriptor, 1)


builder = StreamsBuilder()
builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING).to("out")
config = {"application.id": "app", "bootstrap.servers": "nowhere:9092", "state.dir": place}
streams = KafkaStreams(builder.build(), config, clients=Clients())
child_is_out, tell_parent = os.pipe()
parent_is_out, tell_child = os.pipe()
child = -1
try:
    with streams:
        asked.wait()
        child = os.fork()
        if not child:
            signal.alarm(90)
            print("waited", streams.wait(), "closed", streams.close(), flush=True)
            sys.exit(3)
        wait_for(child_is_out)
        print("parent", streams.state.value, flush=True)
        answered.set()
except SystemExit:
    tell(tell_parent)
    wait_for(parent_is_out)
    raise
except StreamsError:
    print("parent", streams.state.value, flush=True)
print("free place", StateDirectory(place, "app").slot, flush=True)
tell(tell_child)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

LOCKING = r"""
import os, signal, sys

from pystreams import TaskId
from pystreams.errors import TaskLockedError
from pystreams.runtime.adapters.state_directory import StateDirectory

signal.alarm(100)
held = StateDirectory(sys.argv[1], "app")
held.lock_task(TaskId(0, 1))
closed, tell_parent = os.pipe()
ended, tell_child = os.pipe()
child = os.fork()
if not child:
    signal.alarm(90)
    if sys.argv[2] == "daemon":  # Has closed all it had, and something else in the same places.
        os.closerange(3, tell_parent)
        os.closerange(tell_parent + 1, ended)
        os.closerange(ended + 1, 100)
        others = [os.open(os.devnull, os.O_RDONLY) for _ in range(40)]
        held.close_copies()
        assert all(os.fstat(other) for other in others)
    held.close_copies()
    held.close_copies()
    os.write(tell_parent, b"x")
    os.read(ended, 1)
    os._exit(0)
os.read(closed, 1)
other = StateDirectory(sys.argv[1], "app")
try:
    other.lock_task(TaskId(0, 1))
except TaskLockedError:
    print("parent has", held.slot, other.slot, flush=True)
held.close()
other.lock_task(TaskId(0, 1))
print("free place", StateDirectory(sys.argv[1], "app").slot, flush=True)
os.write(tell_child, b"x")
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def output_of(program: str, *arguments: object) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        check=False,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_a_child_leaves_the_block_at_once_and_the_application_of_its_parent_alone(
    tmp_path: Path,
) -> None:
    assert output_of(FORKING, tmp_path) == [
        "waited False closed False",
        "parent REBALANCING",
        "parent ERROR",
        "free place 0",
        "child 3",
    ]


def test_a_child_gives_up_its_copies_of_the_locks_and_its_parent_keeps_them(tmp_path: Path) -> None:
    told = ["parent has 0 1", "free place 0", "child 0"]
    assert output_of(LOCKING, tmp_path, "plain") == told


def test_a_child_closes_nothing_of_its_own_that_is_where_a_lock_was(tmp_path: Path) -> None:
    told = ["parent has 0 1", "free place 0", "child 0"]
    assert output_of(LOCKING, tmp_path, "daemon") == told
