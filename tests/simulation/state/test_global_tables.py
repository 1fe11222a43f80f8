"""Global tables under simulation: crashes at any call, truncated topics, topics created again."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    ErrorContext,
    ErrorResponse,
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    Stores,
    StreamsBuilder,
    Topology,
    serdes,
)
from pystreams.errors import (
    BrokerNotAvailableError,
    FatalStreamsError,
    ProcessingError,
    RetriableClientError,
    SerializationError,
    StateStoreError,
)
from pystreams.ids import TopicPartition
from pystreams.record import OutputBuffer
from pystreams.runtime.core.failures.dead_letters import HEADER_TOPIC
from pystreams.stores.contracts.position import Position
from pystreams.stores.contracts.spec import StoreEngine
from pystreams.stores.files.metadata import pack_long
from pystreams.testing.simulation import SimulatedProcess
from pystreams.testing.simulation.faults import NO_FAULTS
from tests.simulation.applications import Application

pytestmark = pytest.mark.simulation

STRINGS: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


def looking_up(engine: StoreEngine = StoreEngine.ROCKSDB) -> Topology:
    builder = StreamsBuilder()
    people = builder.global_table(
        "people", **STRINGS, materialized=Materialized(name="people", store_type=engine)
    )
    orders = builder.stream("in", **STRINGS)
    orders.left_join(people, lambda key, value: key, lambda value, row: row or "nobody").to(
        "out", **STRINGS
    )
    return builder.build()


class Lookups(Application):
    """People in two partitions, and orders."""

    def __init__(self, root: Path, guarantee: str = "exactly_once", **config: Any) -> None:
        super().__init__(root, guarantee, **config)
        self.broker.create_topic("people", 2)

    def people(self, **rows: str | None) -> None:
        """Write rows."""
        for key, value in rows.items():
            raw = None if value is None else value.encode()
            self.broker.produce("people", key.encode(), raw, self.clock.now_ms())

    def answers(self) -> list[str]:
        """Return the committed results, in their order."""
        return [
            (message.message_value or b"").decode()
            for message in self.broker.committed_records("out")
        ]

    def look_up(self, process: SimulatedProcess, *keys: str) -> list[str]:
        """Return what comes of orders."""
        before = len(self.answers())
        self.feed(*keys)
        self.run_until_processed(process)
        return self.answers()[before:]


def filled_with(process: SimulatedProcess) -> int:
    """Return how many records filled the stores in this life."""
    assert process.global_state is not None
    return sum(process.global_state.task.consumed_records.values())


def follow(process: SimulatedProcess) -> None:
    for _ in range(200):
        process.step()


def rows_of(app: Lookups) -> dict[str, str]:
    """Return the rows that the topic makes."""
    rows = {
        message.message_key: message.message_value
        for message in app.broker.committed_records("people")
    }
    return {key.decode(): value.decode() for key, value in rows.items() if key and value}


def table_of(process: SimulatedProcess) -> dict[str, str]:
    assert process.global_state is not None
    store: Any = process.global_state.task.state.stores()["people"]
    return {key: found.value for key, found in store.all()}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once", "exactly_once_v2"])
def test_restart_reads_the_rest_and_has_all(tmp_path: Path, guarantee: str) -> None:
    app = Lookups(tmp_path, guarantee)
    app.people(a="Ava", b="Bo", c="Cy")
    process = app.process(topology=looking_up())
    process.start()
    assert (filled_with(process), app.look_up(process, "a", "x")) == (3, ["Ava", "nobody"])
    process.stop()
    app.people(a="Eva", c=None)
    process.start()

    assert filled_with(process) == 2
    assert app.look_up(process, "a", "b", "c") == ["Eva", "Bo", "nobody"]
    process.stop()


def test_global_store_and_kafka_streams_go_on_from_each_others_offsets(tmp_path: Path) -> None:
    """They are the next ones, where a task's store has the last, and 0 of an empty partition."""
    app = Lookups(tmp_path)
    partition = app.broker.partition_for("people", b"a")
    empty = TopicPartition("people", 1 - partition.partition)
    app.people(a="Ava")
    app.people(a="Eva")
    process = app.process(topology=looking_up())
    process.start()
    process.stop()

    (kept,) = tmp_path.rglob("rocksdb/people")
    offsets = process.disk.files(kept).metadata
    assert offsets[f"{partition}".encode()] == pack_long(2)
    offsets[f"{empty}".encode()] = pack_long(0)

    app.people(a="Ada")
    process.start()
    assert (filled_with(process), app.look_up(process, "a")) == (1, ["Ada"])
    assert process.global_state is not None
    assert process.global_state.task.state.position_of("people") == Position({partition: 2})
    process.stop()


def test_store_in_memory_is_filled_whole_each_time(tmp_path: Path) -> None:
    app = Lookups(tmp_path)
    app.people(a="Ava", b="Bo")
    process = app.process(topology=looking_up(StoreEngine.IN_MEMORY))
    for _ in range(2):
        process.start()
        assert (filled_with(process), app.look_up(process, "b")) == (2, ["Bo"])
        process.stop()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_crash_at_any_call_leaves_what_the_offsets_say(tmp_path: Path, guarantee: str) -> None:
    for calls in range(1, 400, 7):
        app = Lookups(tmp_path / f"{calls}", guarantee)
        app.people(a="Ava", b="Bo", c="Cy", d="Di")
        process = app.process(topology=looking_up())
        process.crash_in(calls)
        process.start()
        if process.running:
            app.people(a="Eva", b=None)
            app.feed("a")
            for _ in range(60):
                if process.running:
                    process.step()
        if process.running:
            process.crash()
        app.people(d="Dee")
        process.crash_in(None)
        process.start()
        app.broker.settle()
        process.step()

        assert table_of(process) == rows_of(app), calls
        process.stop()


def test_topic_that_lost_its_beginning_below_what_was_read_is_read_anew(tmp_path: Path) -> None:
    app = Lookups(tmp_path)
    app.people(**{f"k{number}": "row" for number in range(20)})
    process = app.process(topology=looking_up())
    process.start()
    process.stop()
    app.people(**{f"n{number}": "new" for number in range(20)})
    gone = {
        TopicPartition("people", number): app.broker.log(
            TopicPartition("people", number)
        ).stable_end
        for number in (0, 1)
    }
    process.clients.admin().delete_records(gone)
    app.people(z="last")
    process.start()

    assert table_of(process) == {"z": "last"}
    process.stop()


def test_a_table_whose_directory_was_deleted_is_read_anew_whole(tmp_path: Path) -> None:
    """As `pystreams check` advises where another topic or engine fills it."""
    app = Lookups(tmp_path)
    app.people(a="Ava", b="Bo")
    process = app.process(topology=looking_up())
    process.start()
    process.stop()
    (directory,) = tmp_path.glob("**/global/rocksdb/people")
    shutil.rmtree(directory)
    process.start()

    assert (filled_with(process), table_of(process)) == (2, {"a": "Ava", "b": "Bo"})
    process.stop()


def test_topic_created_again_is_read_anew_by_the_next_start(tmp_path: Path) -> None:
    app = Lookups(tmp_path)
    app.people(a="Ava", b="Bo")
    process = app.process(topology=looking_up())
    process.start()
    process.stop()
    app.broker.delete_topic("people")
    app.broker.create_topic("people", 2)
    app.people(a="Eva", c="Cy", d="Di")
    process.start()

    assert table_of(process) == {"a": "Eva", "c": "Cy", "d": "Di"}
    process.stop()


def test_topic_created_again_while_it_is_followed_stops_the_application(tmp_path: Path) -> None:
    app = Lookups(tmp_path, metadata_max_age_ms=1000)
    app.people(a="Ava")
    process = app.process(topology=looking_up())
    process.start()
    app.broker.delete_topic("people")
    app.broker.create_topic("people", 2)

    with pytest.raises(FatalStreamsError, match="was deleted and created again while"):
        follow(process)


def test_topic_cut_off_while_it_is_followed_stops_the_application_and_is_read_anew(
    tmp_path: Path,
) -> None:
    app = Lookups(tmp_path)
    app.people(**{f"k{number}": "row" for number in range(20)})
    process = app.process(topology=looking_up())
    process.start()
    app.people(**{f"n{number}": "new" for number in range(20)})
    for number in (0, 1):
        partition = TopicPartition("people", number)
        process.clients.admin().delete_records({partition: app.broker.log(partition).stable_end})
    app.people(z="last")

    with pytest.raises(StateStoreError, match="can't follow its topic any more"):
        follow(process)
    process.start()
    assert table_of(process) == {"z": "last"}
    process.stop()


def test_partition_that_the_topic_gets_later_is_read(tmp_path: Path) -> None:
    app = Lookups(tmp_path, metadata_max_age_ms=1000)
    app.people(a="Ava")
    process = app.process(topology=looking_up())
    process.start()
    app.broker.add_partitions("people", 4)
    app.people(**{f"n{number}": "new" for number in range(20)})
    follow(process)

    assert len(table_of(process)) == 21
    process.stop()


def test_aborted_rows_are_none_and_markers_do_not_keep_the_stores_from_being_filled(
    tmp_path: Path,
) -> None:
    app = Lookups(tmp_path)
    process = app.process(topology=looking_up())
    app.people(a="Ava")
    producer: Any = process.clients.producer("writer", "writer")
    producer.init_transactions()
    for value, ends in ((b"never", producer.abort_transaction), (b"Bo", None)):
        producer.begin_transaction()
        output = OutputBuffer("people", 0)
        output.records.append((b"b", value, app.clock.now_ms(), ()))
        producer.send(output)
        producer.flush()
        if ends is not None:
            ends()
        else:
            producer.commit_transaction({}, None)
    app.broker.settle()
    process.start()

    assert table_of(process) == {"a": "Ava", "b": "Bo"}
    process.stop()


def test_open_transaction_of_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    app = Lookups(tmp_path)
    process = app.process(topology=looking_up())
    app.people(a="Ava")
    producer = process.clients.producer("writer", "writer")
    producer.init_transactions()
    producer.begin_transaction()
    output = OutputBuffer("people", app.broker.partition_for("people", b"a").partition)
    output.records.append((b"a", b"later", app.clock.now_ms(), ()))
    producer.send(output)
    producer.flush()
    process.start()

    assert table_of(process) == {"a": "Ava"}
    process.stop()


def test_broker_that_does_not_answer_at_first_is_asked_again(tmp_path: Path) -> None:
    app = Lookups(tmp_path)
    app.people(a="Ava")
    process = app.process(topology=looking_up())
    quiet = app.faults.rates
    with capture_logs() as logs:
        for _ in range(10):
            app.faults.rates = replace(quiet, no_answer=0.5, empty_poll=0.5, short_poll=0.5)
            process.start()
            app.faults.rates = quiet
            assert table_of(process) == {"a": "Ava"}
            process.stop()

    assert any(line["event"] == "topics of global stores are waited for" for line in logs)


def test_damaged_store_is_told_and_read_anew(tmp_path: Path) -> None:
    app = Lookups(tmp_path)
    app.people(a="Ava", b="Bo")
    process = app.process(topology=looking_up())
    process.start()
    process.stop()
    files = process.disk.files(tmp_path / "p0" / "global" / "rocksdb" / "people")
    files.metadata[b"changelog_id"] = b"short"
    with capture_logs() as logs:
        process.start()

    assert any(line["event"].startswith("global store is read anew") for line in logs)
    assert (filled_with(process), table_of(process)) == (2, {"a": "Ava", "b": "Bo"})
    process.stop()


# ---------------------------------------------------------------------- handlers


class Doubling(Processor[str, str, Any, Any]):
    """Keeps values twice over, and refuses some."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.store = context.get_state_store("doubled")

    def process(self, record: Record[str, str]) -> None:
        if record.value == "bad":
            raise ValueError("bad")
        self.store.put(record.key, record.value * 2)


def doubling() -> Topology:
    builder = StreamsBuilder()
    doubled = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("doubled"), serdes.STRING, serdes.STRING
    )
    builder.add_global_store(doubled, "people", Doubling, **STRINGS)
    builder.stream("in", **STRINGS).to("out")
    return builder.build()


def doubled(process: SimulatedProcess) -> dict[str, str]:
    assert process.global_state is not None
    store: Any = process.global_state.task.state.stores()["doubled"]
    return dict(store.all())


def test_processor_of_a_global_store_fills_it_and_follows(tmp_path: Path) -> None:
    app = Lookups(tmp_path)
    app.people(a="x", b="y")
    process = app.process(topology=doubling())
    process.start()
    filled = doubled(process)
    app.people(c="z")
    follow(process)

    assert filled == {"a": "xx", "b": "yy"}
    assert doubled(process) == {"a": "xx", "b": "yy", "c": "zz"}
    process.stop()


@pytest.mark.parametrize("running", [False, True], ids=["filling", "following"])
@pytest.mark.parametrize(
    ("enabled", "answer"),
    [(False, ErrorResponse.CONTINUE), (True, ErrorResponse.CONTINUE), (True, ErrorResponse.FAIL)],
)
def test_processing_handler_is_asked_of_a_global_store_only_if_that_is_enabled(
    tmp_path: Path, answer: ErrorResponse, *, enabled: bool, running: bool
) -> None:
    asked: list[bytes | None] = []

    def handler(context: ErrorContext, error: Exception) -> ErrorResponse:
        asked.append(context.key)
        return answer

    app = Lookups(
        tmp_path,
        processing_exception_handler=handler,
        processing_exception_handler_global_enabled=enabled,
    )
    process = app.process(topology=doubling())
    if running:
        process.start()
    app.people(a="x", b="bad", c="z")

    def read() -> None:
        follow(process) if running else process.start()

    if enabled and answer is ErrorResponse.CONTINUE:
        read()
        assert doubled(process) == {"a": "xx", "c": "zz"}
        process.stop()
    else:
        with pytest.raises(ProcessingError, match="processor 'KTABLE-SOURCE-0000000001' raised"):
            read()
    assert asked == ([b"b"] if enabled else [])


def with_dead_letters(tmp_path: Path) -> Lookups:
    return Lookups(
        tmp_path,
        deserialization_exception_handler="continue",
        errors_dead_letter_queue_topic_name="dead",
    )


def test_record_of_a_global_table_that_can_not_be_read_goes_to_the_queue_once(
    tmp_path: Path,
) -> None:
    app = with_dead_letters(tmp_path)
    app.broker.create_topic("dead", 1)
    app.broker.produce("people", b"a", b"\xff", app.clock.now_ms())
    process = app.process(topology=looking_up())
    with capture_logs() as logs:
        for _ in range(2):
            process.start()
            process.stop()

    [skipped] = [line for line in logs if line["event"] == "record skipped"]
    assert skipped["task"] == "global stores"
    [letter] = app.broker.committed_records("dead")
    assert (letter.message_key, letter.message_value) == (b"a", b"\xff")
    assert dict(letter.message_headers)[HEADER_TOPIC] == b"people"


@pytest.mark.parametrize("while_filling", [True, False])
@pytest.mark.parametrize("call", ["send", "flush"])
def test_a_letter_waits_for_a_broker_that_does_not_answer_and_nobody_ends(
    tmp_path: Path, call: str, while_filling: bool
) -> None:
    app = with_dead_letters(tmp_path)
    app.broker.create_topic("dead", 1)
    process = app.process(topology=looking_up())
    if not while_filling:
        process.start()
    app.broker.produce("people", b"a", b"\xff", app.clock.now_ms())
    for _ in range(20):
        app.faults.fail_next(call, RetriableClientError("no answer (simulated)"))
    if while_filling:
        process.start()
    follow(process)
    app.people(b="Bo")
    follow(process)

    assert app.faults.forget_scripted(call) == 0
    assert app.look_up(process, "b") == ["Bo"]
    [letter] = app.broker.committed_records("dead")
    assert letter.message_value == b"\xff"
    process.stop()
    process.start()
    assert filled_with(process) == 0
    process.stop()


def test_letters_that_are_lost_on_their_way_are_sent_again(tmp_path: Path) -> None:
    app = with_dead_letters(tmp_path)
    app.broker.create_topic("dead", 1)
    process = app.process(topology=looking_up())
    process.start()
    app.broker.produce("people", b"a", b"\xff", app.clock.now_ms())
    app.faults.rates = replace(NO_FAULTS, abort=0.9)
    follow(process)
    process.stop()

    letters = {letter.message_value for letter in app.broker.committed_records("dead")}
    assert letters == {b"\xff"}


def test_a_letter_that_can_not_be_sent_in_time_ends_the_application_and_comes_with_the_next_start(
    tmp_path: Path,
) -> None:
    app = with_dead_letters(tmp_path)
    app.broker.create_topic("dead", 1)
    process = app.process(topology=looking_up(), config={"task.timeout.ms": 2000})
    process.start()
    app.broker.produce("people", b"a", b"\xff", app.clock.now_ms())
    for _ in range(100):
        app.faults.fail_next("flush", RetriableClientError("no answer (simulated)"))
    with pytest.raises(BrokerNotAvailableError, match=r"'dead' for 2000 ms \(task.timeout.ms\)"):
        follow(process)

    assert 0 < app.faults.forget_scripted("flush") < 100
    process.stop()
    process.start()
    process.stop()
    letters = {letter.message_value for letter in app.broker.committed_records("dead")}
    assert letters == {b"\xff"}


@pytest.mark.parametrize("while_it_waits", [True, False])
def test_a_stop_while_letters_can_not_be_sent_is_no_error_and_the_next_start_sends_them(
    tmp_path: Path, while_it_waits: bool
) -> None:
    app = with_dead_letters(tmp_path)
    app.broker.create_topic("dead", 1)
    process = app.process(topology=looking_up())
    process.start()
    assert process.global_state is not None
    thread = process.global_state.thread
    app.broker.produce("people", b"a", b"\xff", app.clock.now_ms())
    for _ in range(100):
        app.faults.fail_next("flush", RetriableClientError("no answer (simulated)"))
    with capture_logs() as logs:
        if while_it_waits:
            process.stand_still("send dead", thread.stop)
            follow(process)
        else:
            while not filled_with(process):
                process.step()
        process.stop()

    assert 0 < app.faults.forget_scripted("flush") < 100
    assert thread.error is None
    warnings = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert "dead letters are not sent: the next start sends them" in warnings
    sent_before = len(app.broker.committed_records("dead"))
    process.start()
    assert filled_with(process) == 1
    process.stop()
    assert len(app.broker.committed_records("dead")) == sent_before + 1


class Remembering(Processor[str, str, Any, Any]):
    """Keeps all values that a key has had."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.store = context.get_state_store("remembered")

    def process(self, record: Record[str, str]) -> None:
        before = self.store.get(record.key) or ""
        self.store.put(record.key, f"{before}{record.value}")


def people_and_places() -> Topology:
    builder = StreamsBuilder()
    remembered = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("remembered"), serdes.STRING, serdes.STRING
    )
    builder.global_table("people", **STRINGS, materialized=Materialized(name="people"))
    builder.add_global_store(remembered, "places", Remembering, **STRINGS)
    builder.stream("in", **STRINGS).to("out")
    return builder.build()


def test_a_store_that_is_read_anew_takes_no_dead_letters_of_others_with_it(
    tmp_path: Path,
) -> None:
    """The others go on from where they are: their records are not read again."""
    app = with_dead_letters(tmp_path)
    for topic in ("dead", "places"):
        app.broker.create_topic(topic, 1)
    process = app.process(topology=people_and_places())
    app.broker.produce("places", b"here", b"x", app.clock.now_ms())
    process.start()
    process.stop()
    app.broker.produce("people", b"a", b"\xff", app.clock.now_ms())
    app.broker.produce("places", b"here", b"y", app.clock.now_ms())
    files = process.disk.files(tmp_path / "p0" / "global" / "rocksdb" / "remembered")
    files.damaged = True
    with capture_logs() as logs:
        process.start()

    rebuilt = [line for line in logs if line["event"].startswith("global store is read anew")]
    assert [line["store"] for line in rebuilt] == ["remembered"]
    assert process.global_state is not None
    store: Any = process.global_state.task.state.stores()["remembered"]
    assert dict(store.all()) == {"here": "xy"}
    assert [letter.message_value for letter in app.broker.committed_records("dead")] == [b"\xff"]
    process.stop()


def test_record_that_can_not_be_read_is_the_deserialization_handlers(tmp_path: Path) -> None:
    app = Lookups(tmp_path)
    app.broker.produce("people", b"a", b"\xff", app.clock.now_ms())
    process = app.process(topology=looking_up())
    with pytest.raises(
        SerializationError, match="global stores: can't read the value of the record"
    ):
        process.start()
    lenient = app.process(
        "p1", looking_up(), config={"deserialization.exception.handler": "continue"}
    )
    lenient.start()

    assert table_of(lenient) == {}
    lenient.stop()
