"""The limit of uncommitted bytes: never crossed, and used well."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams.runtime.core.growth import UNLIMITED, GrowthEstimate
from pystreams.runtime.core.record_queue import RECORD_OVERHEAD_BYTES, RecordQueue
from tests.runtime.core.queues import message, queue_of


def queue_with(sizes: list[int]) -> RecordQueue:
    queue = queue_of()
    queue.add([message(offset, value=b"v" * size) for offset, size in enumerate(sizes)])
    return queue


@dataclass
class Writer:
    """Takes records as a stream thread does, and writes what `growth_of` says of each."""

    limit_bytes: int
    estimate: GrowthEstimate = field(default_factory=GrowthEstimate)
    uncommitted: int = 0
    highest: int = 0
    commits: int = 0
    written: int = 0
    run_records: int = 1000

    def process(self, queue: RecordQueue, growth: list[float]) -> None:
        position = 0
        while len(queue):
            count = self.admit(queue)
            if count == 0:
                self.commits += 1
                self.uncommitted = 0
                count = self.admit(queue)
                assert count > 0, "an empty buffer always takes a record"
            read = queue.input_bytes(count)
            before = self.uncommitted
            for item in queue.take(count):
                size = len(item[2]) + 1 + RECORD_OVERHEAD_BYTES
                grown = int(size * growth[position])
                self.uncommitted += grown
                self.written += grown
                position += 1
            self.highest = max(self.highest, self.uncommitted)
            self.estimate.observe(read, self.uncommitted - before)

    def admit(self, queue: RecordQueue) -> int:
        return self.estimate.admit(
            queue,
            min(self.run_records, len(queue)),
            uncommitted_bytes=self.uncommitted,
            limit_bytes=self.limit_bytes,
        )


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(0, 2000), min_size=1, max_size=150),
    st.floats(0, 2),
    st.integers(20_000, 200_000),
)
def test_linear_growth_never_crosses_the_limit_whatever_the_sizes(
    sizes: list[int], ratio: float, limit: int
) -> None:
    """Stores that write up to the first guess a byte read, from the first record on."""
    writer = Writer(limit)
    writer.process(queue_with(sizes), [ratio] * len(sizes))

    assert writer.highest <= limit


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 800), st.floats(0, 1)), min_size=1, max_size=150),
    st.integers(20_000, 100_000),
)
def test_growth_that_comes_and_goes_never_crosses_the_limit(
    records: list[tuple[int, float]], limit: int
) -> None:
    """New keys grow a store, known ones do not: what the last runs showed must not be believed."""
    writer = Writer(limit)
    writer.process(queue_with([size for size, _ in records]), [ratio for _, ratio in records])

    assert writer.highest <= limit


@pytest.mark.parametrize("quiet_runs", [1, 10, 100, 1000])
@pytest.mark.parametrize("written_before", [0, 200, 500])
def test_a_burst_of_new_keys_after_a_quiet_time_does_not_cross_the_limit(
    quiet_runs: int, written_before: int
) -> None:
    """Small polls of known keys, then large ones of new keys."""
    writer = Writer(100_000)
    writer.process(queue_with([100] * written_before), [1.0] * written_before)
    writer.run_records = 10
    writer.process(queue_with([100] * 10 * quiet_runs), [0.0] * 10 * quiet_runs)
    writer.run_records = 1000
    writer.process(queue_with([100] * 2000), [1.0] * 2000)

    assert writer.highest <= 100_000


@settings(deadline=None, max_examples=10)
@given(st.floats(0.3, 2), st.integers(1, 2000), st.integers(50_000, 300_000))
def test_commits_are_no_more_than_one_and_a_half_times_the_bytes_need(
    ratio: float, size: int, limit: int
) -> None:
    count = int(10 * limit / ((size + RECORD_OVERHEAD_BYTES) * ratio))
    writer = Writer(limit)
    queue = queue_with([size] * count)
    writer.process(queue, [ratio] * count)

    assert writer.commits <= 1.5 * writer.written / limit + 1


def test_the_estimate_rises_at_once_and_fades_slowly() -> None:
    estimate = GrowthEstimate()
    estimate.observe(100, 500)
    assert estimate.bytes_per_input_byte == 5
    estimate.observe(100, 0)
    assert 4.5 < estimate.bytes_per_input_byte < 5
    estimate.observe(100, -400)
    assert estimate.bytes_per_input_byte > 4


def test_without_a_limit_all_is_admitted() -> None:
    queue = queue_with([1000] * 5)

    assert GrowthEstimate().admit(queue, 5, uncommitted_bytes=10**12, limit_bytes=UNLIMITED) == 5


def test_a_record_larger_than_the_limit_is_taken_alone_into_an_empty_buffer() -> None:
    queue = queue_with([1000] * 5)
    estimate = GrowthEstimate()

    assert estimate.admit(queue, 5, uncommitted_bytes=0, limit_bytes=10) == 1
    assert estimate.admit(queue, 5, uncommitted_bytes=1, limit_bytes=10) == 0


def test_a_limit_of_zero_commits_after_each_record() -> None:
    writer = Writer(0)
    writer.process(queue_with([10] * 5), [1.0] * 5)

    assert writer.commits == 4
