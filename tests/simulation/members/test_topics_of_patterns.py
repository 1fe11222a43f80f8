"""Topics that a pattern finds: they come and go while the application runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from pystreams import StreamsBuilder, serdes
from tests.simulation.applications import Application, running_tasks
from tests.variants import first_of

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams import Topology
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

SOON_MS = 60_000


def counting_tenants() -> Topology:
    builder = StreamsBuilder()
    string = serdes.STRING
    stream = builder.stream(pattern="tenant-.*", key_serde=string, value_serde=string)
    counts = stream.group_by_key().count(name="counts", caching=False)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def step_for(app: Application, ms: int, *processes: SimulatedProcess) -> None:
    until_ms = app.clock.monotonic_ms() + ms
    while app.clock.monotonic_ms() < until_ms:
        for process in processes:
            process.step()


def feed(app: Application, topic: str, *keys: str) -> None:
    for key in keys:
        app.broker.produce(topic, key.encode(), b"x", app.clock.now_ms())


@pytest.mark.parametrize("incremental", first_of(False, True))
def test_tasks_go_on_without_a_topic_of_their_pattern_that_was_deleted(
    tmp_path: Path, incremental: bool
) -> None:
    app = Application(tmp_path, "exactly_once_v2", incremental=incremental)
    for topic in ("tenant-a", "tenant-b"):
        app.broker.create_topic(topic, 2)
    processes = [app.process(name, counting_tenants()) for name in ("p0", "p1")]
    for process in processes:
        process.start()
    feed(app, "tenant-a", *"abcd")
    feed(app, "tenant-b", *"abcd")
    step_for(app, SOON_MS, *processes)
    before = app.outputs()

    app.broker.delete_topic("tenant-b")
    feed(app, "tenant-a", *"abcd")
    with capture_logs() as logs:
        step_for(app, SOON_MS, *processes)

    assert sorted(running_tasks(processes[0]) + running_tasks(processes[1])) == ["0_0", "0_1"]
    assert sorted(before) == sorted((key, count) for key in "abcd" for count in (1, 2))
    assert sorted(app.outputs()[len(before) :]) == [(key, 3) for key in "abcd"]
    assert "partitions are read by nobody" not in {line["event"] for line in logs}


def test_a_topic_that_comes_later_is_read_and_may_go_again(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    app.broker.create_topic("tenant-a", 1)
    process = app.process(topology=counting_tenants())
    process.start()
    step_for(app, SOON_MS, process)
    for present in (["tenant-a", "tenant-b"], ["tenant-a"]):
        if "tenant-b" in present:
            app.broker.create_topic("tenant-b", 1)
        else:
            app.broker.delete_topic("tenant-b")
        for topic in present:
            feed(app, topic, "a")
        step_for(app, SOON_MS, process)

    assert app.outputs() == [("a", 1), ("a", 2), ("a", 3)]
