"""User code that takes long: members stay in the group, transactions end in time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pystreams import StreamsBuilder, serdes
from tests.simulation.applications import PATIENCE, Application, stored_counts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pystreams import Topology

pytestmark = pytest.mark.simulation

KEYS = 40
TIMES = 10


def counting_slowly(work: Callable[[str], str]) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.map_values(work).group_by_key().count(name="counts", caching=False)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once", "exactly_once_v2"])
@pytest.mark.parametrize("record_ms", [20, 900])
def test_each_record_is_processed_once_however_long_it_takes(
    record_ms: int, guarantee: str, tmp_path: Path
) -> None:
    """All that is polled takes longer than sessions (3 s) and transactions (5 s) may last."""
    app = Application(tmp_path, guarantee, partitions=4)
    worked = 0

    def work(value: str) -> str:
        nonlocal worked
        worked += 1
        app.clock.advance_ms(record_ms)
        app.broker.tick()
        return value

    process = app.process(topology=counting_slowly(work))
    process.start()
    app.feed(*(f"key-{number}" for number in range(KEYS) for _ in range(TIMES)))
    app.run_until_processed(process)
    process.stop()
    app.broker.settle()

    assert worked == KEYS * TIMES
    assert Counter(key for key, _ in app.outputs()) == dict.fromkeys(
        (f"key-{number}" for number in range(KEYS)), TIMES
    )
    assert stored_counts(process) == {f"key-{number}": TIMES for number in range(KEYS)}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once", "exactly_once_v2"])
def test_fast_tasks_beside_slow_ones_do_not_make_these_take_more_than_they_can(
    guarantee: str, tmp_path: Path
) -> None:
    """Those that group anew are fast, and have filled the topic that the slow ones read."""
    app = Application(tmp_path, guarantee, partitions=4)
    worked = 0

    def work(value: int) -> int:
        nonlocal worked
        worked += 1
        app.clock.advance_ms(20)
        app.broker.tick()
        return value

    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = (
        stream.select_key(lambda key, _: key).group_by_key().count(name="counts", caching=False)
    )
    counts.to_stream().map_values(work).to("out")
    config = {"default.key.serde": serdes.STRING, "default.value.serde": serdes.LONG}
    process = app.process(topology=builder.build(), config=config)
    process.start()
    app.feed(*(f"key-{number}" for number in range(KEYS) for _ in range(3 * TIMES)))
    for _ in range(PATIENCE):
        process.step()
        if len(app.outputs()) == KEYS * 3 * TIMES:
            break
    process.stop()
    app.broker.settle()

    assert worked == KEYS * 3 * TIMES
    assert Counter(key for key, _ in app.outputs()) == dict.fromkeys(
        (f"key-{number}" for number in range(KEYS)), 3 * TIMES
    )


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once", "exactly_once_v2"])
@pytest.mark.parametrize("record_ms", [20, 900])
def test_a_slow_topic_beside_a_fast_one_of_the_same_task_does_not_make_runs_longer(
    record_ms: int, guarantee: str, tmp_path: Path
) -> None:
    """The slow records come late, when runs have grown: one in a hundred, and then all of them."""
    app = Application(tmp_path, guarantee)
    app.broker.create_topic("slow", 1)
    without_poll: list[float] = []
    polled_ms = 0.0

    def work(value: str) -> str:
        app.clock.advance_ms(record_ms)
        app.broker.tick()
        without_poll.append(app.clock.monotonic_ms() - polled_ms)
        return value

    builder = StreamsBuilder()
    fast = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    slow = builder.stream("slow", key_serde=serdes.STRING, value_serde=serdes.STRING)
    merged = fast.merge(slow.map_values(work))
    counts = merged.group_by_key().count(name="counts", caching=False)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    process = app.process(topology=builder.build())
    process.start()
    times = range(3000)
    app.broker.append("in", 0, [(b"fast", b"x", time, ()) for time in times])
    slow_times = [*times[1500:2500:100], *times[-10:]]
    app.broker.append("slow", 0, [(b"slow", b"x", time, ()) for time in slow_times])
    for _ in range(PATIENCE):
        polled_ms = app.clock.monotonic_ms()
        process.step()
        if len(app.outputs()) == len(times) + len(slow_times):
            break
    process.stop()
    app.broker.settle()

    assert stored_counts(process) == {"fast": len(times), "slow": len(slow_times)}
    assert len(without_poll) == len(slow_times), "nothing is processed twice"
    assert max(without_poll) <= 1000 + max(100, record_ms)
