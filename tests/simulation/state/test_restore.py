"""What is restored after a crash, and what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from pystreams import StreamsBuilder, TopicPartition, serdes
from pystreams.testing.simulation import NO_FAULTS
from tests.simulation.applications import CHANGELOG, Application, running_tasks, stored_counts

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams import Topology
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

ALL = ["at_least_once", "exactly_once", "exactly_once_v2"]


def two_tables() -> Topology:
    """Two stores in one task."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    grouped = stream.group_by_key()
    counts = grouped.count(name="counts")
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    grouped.aggregate(
        lambda: 0, lambda _key, _value, so_far: so_far + 10, name="tens", value_serde=serdes.LONG
    )
    return builder.build()


def wait_until_running(process: SimulatedProcess) -> None:
    for _ in range(400):
        process.step()
        if running_tasks(process):
            return
    raise AssertionError("it does not start")


def forty_to_restore(root: Path) -> tuple[Application, SimulatedProcess]:
    """Return an application that has counted forty keys, and a process that has none of them."""
    app = Application(root)
    first, second = app.process("p0"), app.process("p1")
    first.start()
    app.feed(*(f"key-{number}" for number in range(40)))
    app.run_until_processed(first)
    first.stop()
    app.broker.settle()
    return app, second


def newest_offset(process: SimulatedProcess) -> int:
    """Return the changelog offset that the disk holds, -1 without one."""
    for _, name, files in process.disk.stores():
        if name == "counts":
            packed = files.metadata.get(str(CHANGELOG).encode())
            return -1 if packed is None else int.from_bytes(packed, "big")
    return -1


@pytest.mark.parametrize("guarantee", ALL)
def test_a_restart_in_order_restores_nothing(guarantee: str, tmp_path: Path) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()
    app.feed("a", "b", "a")
    app.run_until_processed(process)
    process.stop()
    process.start()
    app.feed("a")
    app.run_until_processed(process)

    assert process.restored_records() == 0
    assert app.outputs()[-1] == ("a", 3)


@pytest.mark.parametrize("guarantee", ALL)
@pytest.mark.parametrize("seed", range(5))
def test_a_crash_restores_only_what_the_disk_has_lost(
    guarantee: str, seed: int, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    app.faults.random.seed(seed)
    process = app.process()
    process.start()
    for _ in range(30):
        app.feed("a", "b")
        app.run_until_processed(process)
    process.crash()
    held = newest_offset(process)
    app.broker.settle()
    log = app.broker.log(CHANGELOG)
    delta = [message for message in log.committed_records() if message.message_offset > held]
    process.start()
    wait_until_running(process)

    assert process.restored_records() == len(delta) < 60
    assert stored_counts(process) == {"a": 30, "b": 30}


def test_a_compacted_changelog_restores_the_same_store(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process, other = app.process("p0"), app.process("p1")
    process.start()
    for _ in range(10):
        app.feed("a", "b")
        app.run_until_processed(process)
    process.stop()
    app.broker.settle()
    assert app.broker.compact(CHANGELOG.topic) > 0
    other.start()
    wait_until_running(other)

    assert stored_counts(other) == {"a": 10, "b": 10}
    assert other.restored_records() <= 3


def test_a_store_whose_changelog_was_made_again_is_rebuilt_alone_if_that_was_chosen(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, changelog_loss_policy="restore")
    process = app.process(topology=two_tables())
    process.start()
    app.feed("a", "a", "b")
    app.run_until_processed(process)
    process.stop()
    app.broker.settle()
    app.broker.delete_topic(CHANGELOG.topic)
    process.start()
    wait_until_running(process)
    app.feed("a")
    app.run_until_processed(process)
    process.stop()

    assert stored_counts(process) == {"a": 1}, "rebuilt from an empty changelog"
    assert stored_counts(process, "tens") == {"a": 30, "b": 10}, "left as it was"
    assert process.restored_records() == 0


def test_a_store_behind_the_beginning_of_its_changelog_is_rebuilt_alone_if_that_was_chosen(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, changelog_loss_policy="restore")
    process = app.process(topology=two_tables())
    process.start()
    app.feed("a", "b")
    app.run_until_processed(process)
    process.stop()
    held = newest_offset(process)
    other = app.process("p1", topology=two_tables())
    other.start()
    app.feed("a", "c")
    app.run_until_processed(other)
    other.stop()
    app.broker.settle()
    app.broker.log(CHANGELOG).delete_before(held + 3)
    process.start()
    wait_until_running(process)

    kept = {
        (message.message_key or b"").decode(): int.from_bytes(message.message_value or b"", "big")
        for message in app.broker.log(CHANGELOG).committed_records()
    }
    assert stored_counts(process) == kept
    assert "b" not in kept, "the store alone would still know it"
    assert stored_counts(process, "tens") == {"a": 20, "b": 10, "c": 10}


@pytest.mark.parametrize("seed", range(5))
def test_a_changelog_that_is_cut_off_while_it_is_restored_rebuilds_its_store_alone(
    tmp_path: Path, seed: int
) -> None:
    app = Application(tmp_path)
    first = app.process("p0", topology=two_tables())
    second = app.process("p1", topology=two_tables())
    app.faults.random.seed(seed)
    first.start()
    app.feed(*(f"key-{number}" for number in range(40)))
    app.run_until_processed(first)
    first.stop()
    app.broker.settle()
    app.faults.rates = replace(NO_FAULTS, short_poll=1, empty_poll=0.3)
    second.start()
    while second.restored_records() < 15:
        second.step()
    app.broker.log(CHANGELOG).delete_before(35)
    with capture_logs() as logged:
        wait_until_running(second)

    kept = {
        (message.message_key or b"").decode(): 1
        for message in app.broker.log(CHANGELOG).committed_records()
    }
    assert 0 < len(kept) < 10
    assert stored_counts(second) == kept
    assert stored_counts(second, "tens") == {f"key-{number}": 10 for number in range(40)}
    told = [line["store"] for line in logged if line["event"].startswith("state is lost")]
    assert told == ["counts"]


def test_records_of_aborted_transactions_are_not_restored(tmp_path: Path) -> None:
    app = Application(tmp_path)
    first, second = app.process("p0"), app.process("p1")
    first.start()
    wait_until_running(first)
    app.feed("a", "b")
    first.crash_at("offsets added")
    while first.running:
        first.step()
    app.clock.advance_ms(4000)
    second.start()
    wait_until_running(second)

    assert second.restored_records() == 0
    assert stored_counts(second) == {}


def test_a_restore_that_waits_for_a_transaction_nobody_ends_says_where_it_stands(
    tmp_path: Path,
) -> None:
    """A broker may forget a transaction; somebody has to end it by hand."""
    app = Application(tmp_path)
    process = app.process()
    process.start()
    app.feed("a")
    app.run_until_processed(process)
    process.stop()
    app.broker.settle()
    log = app.broker.log(CHANGELOG)
    forgotten = log.high_watermark
    log.append([(b"a", b"x", 0, ())], transaction=999)
    process.start()
    with capture_logs() as logs:
        until_ms = app.clock.monotonic_ms() + 40_000
        while app.clock.monotonic_ms() < until_ms:
            process.step()
    log.write_marker(999, committed=False)
    wait_until_running(process)

    told = [line for line in logs if line["event"] == "restore stands still"]
    assert told
    assert all(line["log_level"] == "warning" for line in told)
    assert all(line["next_offsets"] == {str(CHANGELOG): forgotten} for line in told)
    assert stored_counts(process) == {"a": 1}


def test_a_restore_that_moves_is_not_said_to_stand_still(tmp_path: Path) -> None:
    app, second = forty_to_restore(tmp_path)
    app.faults.rates = replace(NO_FAULTS, short_poll=1)
    second.start()
    with capture_logs() as logs:
        while not running_tasks(second):
            app.clock.advance_ms(2000)
            second.step()

    told = [line["event"] for line in logs]
    assert "still restoring" in told
    assert "restore stands still" not in told


def test_a_crash_in_the_middle_of_a_restore_goes_on_from_there(tmp_path: Path) -> None:
    app, second = forty_to_restore(tmp_path)
    app.faults.rates = replace(NO_FAULTS, short_poll=1, background=1)
    crashes = 0
    restored = 0
    while crashes < 5:
        second.start()
        second.crash_at("written counts")
        while second.running:
            second.step()
        restored += second.restored_records()
        crashes += 1
        app.clock.advance_ms(4000)
    second.start()
    wait_until_running(second)
    restored += second.restored_records()

    assert stored_counts(second) == {f"key-{number}": 1 for number in range(40)}
    assert restored == 40, "with every write flushed nothing is restored twice"


def test_purged_repartition_topics_keep_what_is_not_committed(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    grouped = stream.group_by(lambda key, _: key[0], key_serde=serdes.STRING)
    grouped.count(name="counts").to_stream().to("out", value_serde=serdes.LONG)
    app = Application(tmp_path, repartition_purge_interval_ms=200)
    process = app.process(topology=builder.build())
    process.start()
    for _ in range(10):
        app.feed("a1", "a2", "b1")
        for _ in range(30):
            process.step()
    partition = TopicPartition("app-counts-repartition", 0)
    committed = app.broker.group.offsets[partition].next_offset

    assert 0 < app.broker.log(partition).beginning <= committed
    assert app.outputs()[-1][1] in {10, 20}
    process.crash()
    process.start()
    app.feed("a1")
    for _ in range(200):
        process.step()
    assert ("a", 21) in app.outputs()
