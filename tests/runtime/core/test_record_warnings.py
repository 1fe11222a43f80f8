"""The log says which records operations drop, and why; and does not drown in it."""

from __future__ import annotations

from structlog.testing import capture_logs

from pystreams import StoreEngine, StreamsBuilder, TaskId, serdes
from pystreams.record import PresentRecord, StaticMessage, TaskTime
from pystreams.runtime.core.failures.record_warnings import RecordWarnings
from tests.runtime.running_task import RunningTask

NULL = "null key or value"


class Dropping:
    """Drops records at given times, and keeps what the log says."""

    def __init__(self) -> None:
        self.record, self.time = PresentRecord(), TaskTime()
        self.warnings = RecordWarnings(TaskId(0, 3), self.record, self.time)
        self._offset = 0

    def drop(self, *times: int, node: str = "count", reason: str = NULL) -> list[int]:
        """Drop a record at each time (ms); return the numbers of records that were told."""
        with capture_logs() as logs:
            for now_ms in times:
                self.time.now_ms = now_ms
                self.record.message = StaticMessage("in", 1, self._offset, None, b"v", 0)
                self._offset += 1
                self.warnings.dropped(node, reason)
        return [line["records"] for line in logs]

    def end(self) -> list[int]:
        """End; return the numbers of records that were told."""
        with capture_logs() as logs:
            self.warnings.tell_rest()
        return [line["records"] for line in logs]


def test_the_first_record_is_told_with_node_reason_and_coordinates() -> None:
    dropping = Dropping()
    with capture_logs() as logs:
        dropping.record.message = StaticMessage("in", 1, 42, None, b"secret", 0)
        dropping.warnings.dropped("count", NULL)

    assert logs == [
        {
            "event": "records dropped by an operation",
            "log_level": "warning",
            "task": "0_3",
            "node": "count",
            "reason": NULL,
            "records": 1,
            "topic": "in",
            "partition": 1,
            "offset": 42,
        }
    ]


def test_what_sound_input_brings_about_is_no_warning() -> None:
    dropping = Dropping()
    with capture_logs() as logs:
        dropping.warnings.dropped("join", "late", level="info")
        dropping.time.now_ms = 60_000
        dropping.warnings.dropped("join", "late", level="info")
        dropping.warnings.dropped("join", "stale", level="debug")

    assert [(line["log_level"], line["reason"], line["records"]) for line in logs] == [
        ("info", "late", 1),
        ("info", "late", 1),
        ("debug", "stale", 1),
    ]


def test_later_ones_are_told_once_a_minute_with_their_number() -> None:
    dropping = Dropping()

    assert dropping.drop(0, 1, 30_000, 59_999) == [1]
    assert dropping.drop(60_000) == [4]
    assert dropping.drop(60_001, 119_999) == []
    assert dropping.drop(500_000) == [3]


def test_each_node_and_reason_has_a_first_one() -> None:
    dropping = Dropping()

    assert dropping.drop(0, node="count") == [1]
    assert dropping.drop(0, node="join") == [1]
    assert dropping.drop(0, node="join", reason="late") == [1]
    assert dropping.drop(1, node="count") == []


def test_what_is_left_is_told_at_the_end_once() -> None:
    dropping = Dropping()
    dropping.drop(0, 1, 2)
    dropping.drop(0, node="join")

    assert dropping.end() == [2]
    assert dropping.end() == []


def test_a_clock_that_is_put_back_does_not_silence_the_log() -> None:
    dropping = Dropping()

    assert dropping.drop(500_000, 100_000) == [1, 1]


def test_a_record_without_coordinates_is_told_as_well() -> None:
    dropping = Dropping()
    with capture_logs() as logs:
        dropping.warnings.dropped("count", NULL)

    assert logs[0]["records"] == 1
    assert "offset" not in logs[0]


def test_a_task_tells_what_its_operations_drop_and_the_rest_when_it_closes() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.group_by_key().count(name="counts", caching=False, store_type=StoreEngine.IN_MEMORY)
    running = RunningTask(builder.build())
    with capture_logs() as logs:
        running.run(("a", None, 5), ("a", "v", 6), ("b", None, 7), ("c", None, 8))
        told = len(logs)
        running.task.close()

    assert told == 1
    assert [(line["reason"], line["records"]) for line in logs] == [(NULL, 1), (NULL, 2)]
    assert logs[0]["offset"] == 0
    assert running.task.counts.dropped == 3
