"""The limit of uncommitted bytes: never crossed, and used well, whatever records write."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams.runtime.core.queues.record_queue import RECORD_OVERHEAD_BYTES, RecordQueue
from pystreams.runtime.core.uncommitted_growth import (
    FIRST_FLUSH,
    UNLIMITED,
    Admission,
    FlushGrowth,
    GrowthEstimate,
)
from tests.runtime.core.queues import message, queue_of

LIMIT = 100_000


def queue_with(sizes: list[int]) -> RecordQueue:
    queue = queue_of()
    queue.add([message(offset, value=b"v" * size) for offset, size in enumerate(sizes)])
    return queue


@dataclass
class Writer:
    """Takes records as a stream thread does; each writes what it is told to.

    Attributes:
        highest: The most that was uncommitted after a record that does not count as surprising.
        highest_of_all: The most that was uncommitted.
        surprises: Records that wrote more than any run before them, without large bytes of input.
    """

    limit_bytes: int = LIMIT
    run_records: int = 1000
    estimate: GrowthEstimate = field(default_factory=GrowthEstimate)
    uncommitted: int = 0
    highest: int = 0
    highest_of_all: int = 0
    commits: int = 0
    written: int = 0
    surprises: int = 0

    def process(self, queue: RecordQueue, growths: list[int]) -> None:
        left = list(reversed(growths))
        while len(queue):
            admission = self.admit(queue)
            if not admission.records:
                self.commits += 1
                self.uncommitted = 0
                admission = self.admit(queue)
                assert admission.records, "an empty buffer always takes a record"
            self.run(queue, admission, left)

    def run(self, queue: RecordQueue, admission: Admission, left: list[int]) -> None:
        before = self.uncommitted
        known = max(self.estimate.worst_run_bytes, self.limit_bytes / 32)
        for _ in range(admission.records):
            queue.take(1)
            empty = self.uncommitted == 0
            growth = left.pop()
            self.uncommitted += growth
            self.highest_of_all = max(self.highest_of_all, self.uncommitted)
            self.written += growth
            surprising = growth > known and not admission.large_bytes
            self.surprises += surprising
            if not empty and not surprising:
                self.highest = max(self.highest, self.uncommitted)
            room = admission.room_bytes
            if room is not None and self.uncommitted - before > room:
                break
        self.estimate.observe(admission, self.uncommitted - before, self.limit_bytes)

    def admit(self, queue: RecordQueue) -> Admission:
        return self.estimate.admit(
            queue,
            min(self.run_records, len(queue)),
            uncommitted_bytes=self.uncommitted,
            limit_bytes=self.limit_bytes,
        )


@settings(deadline=None, max_examples=200)
@given(
    growths=st.lists(st.integers(0, LIMIT // 3), min_size=1, max_size=300),
    run_records=st.sampled_from([1, 7, 1000]),
)
def test_only_a_record_that_writes_more_than_any_run_before_crosses_the_limit(
    growths: list[int], run_records: int
) -> None:
    """Whatever tiny records write: what was read says nothing of it."""
    writer = Writer(run_records=run_records)
    writer.process(queue_with([4] * len(growths)), growths)

    assert writer.highest <= LIMIT


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, LIMIT // 32), min_size=1, max_size=300))
def test_records_that_write_little_never_cross_the_limit_from_the_first_one_on(
    growths: list[int],
) -> None:
    writer = Writer()
    writer.process(queue_with([4] * len(growths)), growths)

    assert writer.surprises == 0
    assert writer.highest <= LIMIT


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.integers(0, LIMIT // 2), min_size=1, max_size=100), st.floats(0, 1), st.booleans()
)
def test_records_that_write_what_is_read_never_cross_the_limit_however_large(
    sizes: list[int], ratio: float, shuffled: bool
) -> None:
    """Up to the bytes read, from the first record on."""
    sizes = sizes if shuffled else sorted(sizes)
    growths = [int((size + RECORD_OVERHEAD_BYTES) * ratio) for size in sizes]
    writer = Writer()
    writer.process(queue_with(sizes), growths)

    assert writer.surprises == 0
    assert writer.highest <= LIMIT


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, LIMIT // 4), min_size=1, max_size=100))
def test_with_nothing_to_predict_from_records_of_up_to_a_quarter_do_not_cross_the_limit(
    growths: list[int],
) -> None:
    """As long as all that was written would fit the limit."""
    sums = list(accumulate(growths))
    first = growths[: bisect_left(sums, LIMIT) + 1]
    writer = Writer()
    writer.process(queue_with([4] * len(first)), first)

    assert writer.highest_of_all <= LIMIT


@pytest.mark.parametrize("quiet_records", [10, 100, 10_000])
@pytest.mark.parametrize("written_before", [0, 200, 500])
def test_a_burst_of_new_keys_after_a_quiet_time_does_not_cross_the_limit(
    quiet_records: int, written_before: int
) -> None:
    writer = Writer()
    growths = [117] * written_before + [0] * quiet_records + [117] * 2000
    writer.process(queue_with([100] * len(growths)), growths)

    assert writer.surprises == 0
    assert writer.highest <= LIMIT


@settings(deadline=None, max_examples=100)
@given(
    sizes=st.lists(st.integers(0, LIMIT // 4), min_size=5, max_size=20),
    read=st.sampled_from(["tiny", "as written"]),
)
def test_commits_are_fewer_than_one_and_a_half_times_the_bytes_need(
    sizes: list[int], read: str
) -> None:
    growths = sizes * (1 + 10 * LIMIT // max(sum(sizes), LIMIT // 10))
    inputs = [4] * len(growths) if read == "tiny" else growths
    writer = Writer()
    writer.process(queue_with(inputs), growths)

    assert writer.commits <= 1.5 * writer.written / LIMIT + 1


def test_the_worst_run_is_kept_up_to_a_third_of_the_limit_and_fades_beyond() -> None:
    estimate = GrowthEstimate()
    estimate.observe(Admission(1, 0), 30_000, LIMIT)
    for _ in range(1000):
        estimate.observe(Admission(1, 0), 0, LIMIT)
    assert estimate.worst_run_bytes == 30_000

    estimate.observe(Admission(1, 0), 5 * LIMIT, LIMIT)
    assert estimate.worst_run_bytes == 5 * LIMIT
    for _ in range(1000):
        estimate.observe(Admission(1, 0), 0, LIMIT)
    assert LIMIT / 3 < estimate.worst_run_bytes < LIMIT / 3 + 100


def test_large_records_are_judged_by_their_bytes_and_leave_small_ones_alone() -> None:
    queue = queue_with([50_000, 1])
    estimate = GrowthEstimate()

    admission = estimate.admit(queue, 2, uncommitted_bytes=0, limit_bytes=LIMIT)
    assert admission.records == 1
    assert admission.large_bytes == 50_000 + 1 + RECORD_OVERHEAD_BYTES
    estimate.observe(admission, 150_000, LIMIT)
    assert estimate.worst_run_bytes == 0
    assert estimate.bytes_per_large_byte == pytest.approx(3, abs=0.01)
    for _ in range(1000):
        estimate.observe(admission, -10, LIMIT)
    assert estimate.bytes_per_large_byte == pytest.approx(1, abs=0.01)


def test_without_a_limit_all_is_admitted_and_no_run_ends_early() -> None:
    queue = queue_with([1000] * 5)
    estimate = GrowthEstimate()

    admission = estimate.admit(queue, 5, uncommitted_bytes=10**12, limit_bytes=UNLIMITED)

    assert (admission.records, admission.room_bytes) == (5, None)


def test_a_record_larger_than_the_limit_is_taken_alone_into_an_empty_buffer() -> None:
    queue = queue_with([1000] * 5)
    estimate = GrowthEstimate()

    assert estimate.admit(queue, 5, uncommitted_bytes=0, limit_bytes=10).records == 1
    assert estimate.admit(queue, 5, uncommitted_bytes=1, limit_bytes=10).records == 0


def test_a_limit_of_zero_commits_after_each_record() -> None:
    writer = Writer(limit_bytes=0)
    writer.process(queue_with([10] * 5), [1] * 5)

    assert writer.commits == 4


def test_room_is_shared_with_what_flushing_the_caches_will_write() -> None:
    growth = FlushGrowth()
    growth.observe(100, 100)
    assert growth.part_of(100) == 50

    growth.observe(100, 300)
    assert growth.part_of(100) == 75


def test_what_flushing_will_write_is_supposed_until_it_was_seen_and_remembered_then() -> None:
    growth = FlushGrowth()
    assert growth.expected(100) == 100 * FIRST_FLUSH

    growth.observe(100, 200)
    assert growth.expected(100) == 200
    growth.observe(100, 900)
    growth.observe(100, 0)
    assert 850 < growth.expected(100) < 900


def test_caches_are_flushed_before_that_would_write_an_eighth_of_the_limit() -> None:
    growth = FlushGrowth()
    assert growth.is_due(LIMIT // 60, LIMIT)
    assert not growth.is_due(LIMIT // 70, LIMIT)
    assert not growth.is_due(LIMIT, UNLIMITED)

    growth.observe(100, 100)
    assert growth.is_due(LIMIT // 7, LIMIT)
    assert not growth.is_due(LIMIT // 9, LIMIT)
