"""Sessions beside a plain model: any order of records, any gap and grace period.

The model knows nothing of stores. It keeps a list of sessions a key, and a record's values in them
in the order in which Kafka Streams folds them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import KTable, SessionWindowedKStream, SessionWindows, Windowed
from pystreams.serdes import STRING
from tests.topology.windows.sessions import SessionRun, session

records = st.lists(st.tuples(st.sampled_from(["a", "b", "aa"]), st.integers(0, 80)), max_size=30)
kinds_of_windows = st.builds(SessionWindows, st.integers(1, 12), st.integers(0, 60))


@dataclass
class Model:
    """What sessions there are.

    Attributes:
        windows: How time is cut.
        retention_ms: How long sessions are kept.
        rows: Their values, by windowed key.
        stream_time: The highest time of a record.
        late: How many records were late.
    """

    windows: SessionWindows
    retention_ms: int
    rows: dict[Windowed[str], str] = field(default_factory=dict)
    stream_time: int = -1
    late: int = 0

    def take(self, key: str, value: str, time: int) -> None:
        """Add a record to its session."""
        gap_ms = self.windows.inactivity_gap_ms
        former = sorted(
            (row for row in self.kept() if row.key == key and self.touches(row, time, gap_ms)),
            key=lambda row: row.window.end,
        )
        self.stream_time = max(self.stream_time, time)
        start = min([time, *(row.window.start for row in former)])
        end = max([time, *(row.window.end for row in former)])
        if end + gap_ms + self.windows.grace_period_ms < self.stream_time:
            self.late += 1
            return
        merged = "".join(self.rows.pop(row) for row in former)
        self.rows[session(key, start, end)] = merged + value

    def kept(self) -> dict[Windowed[str], str]:
        """Return the sessions that are not older than the retention."""
        oldest = self.stream_time - self.retention_ms + 1
        return {row: value for row, value in self.rows.items() if row.window.end >= oldest}

    @staticmethod
    def touches(row: Windowed[str], time: int, gap_ms: int) -> bool:
        """Return whether a record is within the gap of a session."""
        return row.window.start - gap_ms <= time <= row.window.end + gap_ms


@settings(max_examples=120, deadline=None)
@given(kinds_of_windows, records, st.sampled_from([None, 1000]), st.booleans())
def test_sessions_are_those_of_the_model(
    windows: SessionWindows,
    came: list[tuple[str, int]],
    retention_ms: int | None,
    caching: bool,
) -> None:
    def joined(sessions: SessionWindowedKStream[str, str]) -> KTable[Windowed[str], str]:
        return sessions.aggregate(
            str,
            lambda key, value, so_far: so_far + value,  # noqa: ARG005 - an aggregator's form
            lambda key, so_far, other: so_far + other,  # noqa: ARG005 - a merger's form
            value_serde=STRING,
            name="s",
            retention_ms=retention_ms,
            caching=caching,
        )

    needed_ms = windows.inactivity_gap_ms + windows.grace_period_ms
    model = Model(windows, retention_ms or needed_ms)
    table: dict[Windowed[str], str] = {}
    with SessionRun(windows, joined) as run:
        for number, (key, time) in enumerate(came):
            value = f"<{number}>"
            model.take(key, value, time)
            for found_key, start, end, found, timestamp in run.pipe((key, value, time)):
                assert timestamp == end
                row = session(found_key, start, end)
                if found is None:
                    del table[row]
                else:
                    table[row] = found

            assert run.stored("s") == model.kept()
        assert run.dropped() == model.late
    assert table == model.rows
