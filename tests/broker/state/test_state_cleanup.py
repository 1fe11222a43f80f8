"""State directories of tasks that moved away are removed; a task that comes back is restored."""

from __future__ import annotations

import os
from pathlib import Path

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application, LogLine, Running
from tests.broker.conftest import CreateTopic
from tests.broker.programs import write_counts
from tests.broker.reading import LastNumbers, produce, read_all, reader_of, values_by_key

KEYS = [f"{key}".encode() for key in range(10)]
ROUNDS = 20
DELAY_MS = 500
SETTINGS = {
    "processing.guarantee": "exactly_once",
    "statestore.cache.max.bytes": 0,
    "consumer.heartbeat.interval.ms": 500,
    "state.cleanup.delay.ms": DELAY_MS,
}
MOVED = "removed the state of a task that moved away"
OLD = "removed state that was not used for too long"


def restored_from(running: Running, task: str) -> list[int]:
    """Return the changelog offsets that restores of a task began at, the oldest first."""
    return [line["from_offset"] for line in running.lines("restoring") if line["task"] == task]


def removed(running: Running, message: str) -> list[str]:
    return sorted(line["task"] for line in running.lines(message))


def test_state_of_a_task_that_moved_away_is_removed_and_restored_when_it_comes_back(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    source, output = create_topic(partitions=2), create_topic()
    file = write_counts(tmp_path, source, output)
    settings = {"bootstrap.servers": servers, **SETTINGS}
    with (
        Application(unique_name, tmp_path, file, settings) as application,
        reader_of(servers) as consumer,
    ):
        followed = LastNumbers(consumer, [output])
        state = application.state_directory

        def feed(running: Running, rounds: int) -> None:
            """Feed a number of rounds; wait until they, and all before them, are counted."""
            produce(servers, source, [(key, bytes(8)) for key in KEYS] * ROUNDS)
            running.wait_until(
                lambda: sum(followed.read()[output].values()) == rounds * len(KEYS), "counts"
            )

        first = application.start()
        feed(first, ROUNDS)
        assert {entry.name for entry in state.glob("0_*")} == {"0_0", "0_1"}

        second = application.start(state_dir=tmp_path / "elsewhere")
        moved = second.wait_for("task running")[0]["task"]
        kept = {"0_0": "0_1", "0_1": "0_0"}[moved]
        gone: LogLine = first.wait_for(MOVED)[0]
        assert gone["task"] == moved
        assert gone["age_ms"] >= DELAY_MS
        first.wait_until(lambda: not list(state.glob(f"{moved}*")), "all of it gone")
        feed(first, 2 * ROUNDS)
        assert (state / kept / "rocksdb" / "counts").is_dir()

        assert 0 not in restored_from(first, moved)

        second.stop()
        feed(first, 3 * ROUNDS)
        assert restored_from(first, moved)[-1] == 0
        assert removed(first, MOVED) == [moved]
        assert removed(second, MOVED) == []
        first.stop()

    counts = values_by_key(read_all(servers, output))
    assert counts == {key: list(range(1, 3 * ROUNDS + 1)) for key in KEYS}


def test_state_that_is_older_than_its_maximum_age_is_removed_before_any_task_starts(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    file = write_counts(tmp_path, create_topic(partitions=2), create_topic())
    settings = {"bootstrap.servers": broker.bootstrap_servers, **SETTINGS}
    with Application(unique_name, tmp_path, file, settings) as application:
        old, young = (application.state_directory / name for name in ("0_0", "0_1"))
        for home in (old, young):
            (home / "left").mkdir(parents=True)
        os.utime(old, (1, 1))
        running = application.start(state_cleanup_dir_max_age_ms=3_600_000)
        running.wait_for_tasks(2)

        order = [line["message"] for line in running.lines()]
        assert order.index(OLD) < order.index("task running")
        assert removed(running, OLD) == ["0_0"]
        assert not (old / "left").exists()
        assert (young / "left").exists()
        running.stop()
