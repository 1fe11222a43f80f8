"""Code of the user's that fails as a task closes keeps nothing else open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from pystreams import Processor, Record, StateStore, StreamsBuilder, serdes
from pystreams.errors import StateStoreError
from pystreams.stores.store_builder import StoreBuilder
from tests.simulation.applications import Application, tasks_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pystreams.record import ConsumedMessage
    from pystreams.stores.contracts.key_value import StateStoreContext

pytestmark = pytest.mark.simulation

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


class Uses(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        """Do nothing with it."""


def test_each_processor_is_closed_though_one_raises(tmp_path: Path) -> None:
    closed = []

    class Stuck(Uses):
        def close(self) -> None:
            closed.append("stuck")
            raise ValueError("stuck")

    class Fine(Uses):
        def close(self) -> None:
            closed.append("fine")

    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT)
    stream.process(Stuck)
    stream.process(Fine)
    app = Application(tmp_path)
    process = app.process(topology=builder.build())
    process.start()
    app.feed("a")
    app.run_until_processed(process)

    process.stop()

    assert sorted(closed) == ["fine", "stuck"]


class RemoteStore(StateStore):
    """One whose connection is gone when it is closed."""

    name = "remote"
    persistent = False
    is_open = False

    def init(self, context: StateStoreContext) -> None:
        self.is_open = True

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            raise OSError("connection reset")

    def destroy(self) -> None:
        raise NotImplementedError


class RemoteBuilder(StoreBuilder):
    name = "remote"
    logging = False

    def build(self) -> RemoteStore:
        return RemoteStore()


def test_each_store_is_closed_though_one_raises_and_that_one_is_named(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.add_state_store(RemoteBuilder())
    stream = builder.stream("in", **TEXT)
    stream.process(Uses, stores=["remote"])
    stream.group_by_key().count(name="counts")
    app = Application(tmp_path, partitions=2)
    process = app.process(topology=builder.build())
    process.start()
    app.feed(*"abcdefgh")
    app.run_until_processed(process)
    [thread] = process.threads
    tasks = tasks_of(process).values()

    process.stop()

    assert len(tasks) == 2
    stores = [store for task in tasks for store in task.state_manager.stores().values()]
    assert [store.name for store in stores if store.is_open] == []
    assert isinstance(thread.error, StateStoreError)
    assert "state store 'remote': its close raised OSError: connection reset" in str(thread.error)


def test_of_tasks_that_are_revoked_each_one_that_can_not_be_closed_is_told(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.add_state_store(RemoteBuilder())
    builder.stream("in", **TEXT).process(Uses, stores=["remote"])
    app = Application(tmp_path, partitions=3)
    process, other = app.process(topology=builder.build()), app.process("p1", builder.build())
    process.start()
    while len(tasks_of(process)) < 3:
        process.step()
    tasks = tasks_of(process)

    other.start()

    def until_revoked() -> None:
        while True:
            other.step()
            process.step()

    with capture_logs() as logs, pytest.raises(StateStoreError, match="its close raised"):
        until_revoked()

    stores = [store for task in tasks.values() for store in task.state_manager.stores().values()]
    assert [store.name for store in stores if store.is_open] == []
    told = {line["task"]: line["error"] for line in logs if line["event"] == "task not closed well"}
    assert sorted(told) == ["0_0", "0_1", "0_2"]
    assert all("state store 'remote': its close raised OSError" in each for each in told.values())
