"""What is flushed out of a record cache goes on as the record that led to it, not as the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from structlog.testing import capture_logs

from pystreams import (
    Processor,
    ProcessorContext,
    RecordMetadata,
    SessionWindows,
    StoreEngine,
    StreamsBuilder,
    serdes,
)
from pystreams.record import PresentRecord
from tests.runtime.running_task import RunningTask

if TYPE_CHECKING:
    from collections.abc import Callable

    from pystreams import Record, Topology


class Looker(Processor[Any, int, None, None]):
    """Shows each record, with where it came from, to a function."""

    def __init__(self, look: Callable[[Record[Any, int], RecordMetadata | None], None]) -> None:
        self._look = look

    def init(self, context: ProcessorContext[None, None]) -> None:
        self._context = context

    def process(self, record: Record[Any, int]) -> None:
        self._look(record, self._context.record_metadata())


def looking_behind_a_cache(
    look: Callable[[Record[str, int], RecordMetadata | None], None],
) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.group_by_key().count(name="counts", store_type=StoreEngine.IN_MEMORY)
    counts.to_stream().process(lambda: Looker(look))
    return builder.build()


def test_metadata_and_time_behind_a_cache_are_of_the_record_that_changed_the_row() -> None:
    seen = []
    running = RunningTask(
        looking_behind_a_cache(
            lambda record, metadata: seen.append((record.key, record.timestamp, metadata))
        ),
        cache_enabled=True,
    )
    running.run(("a", "1", 10), ("b", "1", 11), ("b", "1", 12), ("c", "1", 13))

    running.task.flush_caches()

    assert seen == [
        ("a", 10, RecordMetadata("in", 0, 0)),
        ("b", 12, RecordMetadata("in", 0, 2)),
        ("c", 13, RecordMetadata("in", 0, 3)),
    ]


def test_an_error_behind_a_cache_names_the_record_that_was_cached() -> None:
    def fail_on_a(record: Record[str, int], _: RecordMetadata | None) -> None:
        if record.key == "a":
            raise ValueError("a")

    running = RunningTask(looking_behind_a_cache(fail_on_a), cache_enabled=True)
    running.run(("b", "1", 10), ("a", "1", 11), ("b", "1", 12))

    with capture_logs() as logs:
        running.task.flush_caches()

    [skipped] = [line for line in logs if line["event"] == "record skipped"]
    assert (skipped["topic"], skipped["partition"], skipped["offset"]) == ("in", 0, 1)


def test_what_a_punctuation_has_cached_came_from_no_record() -> None:
    context = PresentRecord()
    context.go_back_to(RecordMetadata("in", 0, 7), 10, ())
    context.go_back_to(None, 20, (("h", b"x"),))

    assert context.metadata() is None
    assert (context.timestamp, context.headers) == (20, (("h", b"x"),))


def test_a_flush_of_sessions_forwards_those_there_are_and_deletes_those_that_were() -> None:
    """Sessions that came and went between two flushes leave no trace; times are those of ends."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(5, 50))
    counts = sessions.count(store_type=StoreEngine.IN_MEMORY)
    seen: list[tuple[str, object, int, RecordMetadata | None]] = []
    counts.to_stream().process(
        lambda: Looker(
            lambda record, metadata: seen.append(
                (str(record.key), record.value, record.timestamp, metadata)
            )
        )
    )
    running = RunningTask(builder.build(), cache_enabled=True)
    running.run(("a", "1", 1), ("b", "1", 2), ("a", "1", 8), ("a", "1", 4))
    running.task.flush_caches()
    running.run(("a", "1", 12))
    running.task.flush_caches()

    assert seen == [
        ("[b@2/2]", 1, 2, RecordMetadata("in", 0, 1)),
        ("[a@1/8]", 3, 8, RecordMetadata("in", 0, 3)),
        ("[a@1/8]", None, 8, RecordMetadata("in", 0, 4)),
        ("[a@1/12]", 4, 12, RecordMetadata("in", 0, 4)),
    ]
