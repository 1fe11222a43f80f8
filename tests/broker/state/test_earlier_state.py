"""State that an earlier pystreams has written is gone on with: tests/fixtures/earlier_state."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    IsolationLevel,
    KafkaStreams,
    KeyQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from tests.archives import unpack
from tests.broker.reading import long, read_all
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.fixtures.earlier_state.application import topology_of
from tests.fixtures.earlier_state.history import (
    BASE_MS,
    FLUSH,
    OUTPUTS,
    PARTITIONS,
    PHASES,
    Expected,
    fed,
    flush,
)
from tests.fixtures.earlier_state.make import APPLICATIONS, SETTINGS, feed
from tests.sharing import start_broker

pytestmark = pytest.mark.broker

ARCHIVE = Path(__file__).parents[2] / "fixtures" / "earlier_state" / "earlier_state.tar.xz"
END = PHASES["third"].stop
LIVE_MS = BASE_MS + (END - 60) * 1000
"""Windows and sessions that are as late as this can't have expired."""
IN_MEMORY = {
    "memory",
    "newest",
    "window-memory",
    "session-memory",
    "versioned-memory",
    "counts-memory",
}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A broker on the topics as they were left, with more input: its state directory, its address.

    Kafka forgets the offsets of a group that is away for a week.
    """
    directory = tmp_path_factory.mktemp("earlier")
    unpack(ARCHIVE, directory)
    settings = {"offsets.retention.minutes": str(2**31 - 1)}
    broker = start_broker(directory / "broker", settings=settings)
    try:
        feed(broker.bootstrap_servers, fed(PHASES["third"]))
        for again in range(2):
            feed(broker.bootstrap_servers, flush(again))
        yield directory / "state", broker.bootstrap_servers
    finally:
        broker.stop()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected(END)


class Outputs:
    """What an application has written, but for what only moved the time."""

    def __init__(self, servers: str, name: str) -> None:
        self._read: dict[str, list[tuple[str, bytes]]] = {
            output: [
                ((message.key() or b"").decode(), message.value() or b"")
                for message in read_all(servers, f"{name}-{output}")
                if message.key() != FLUSH.encode()
            ]
            for output in OUTPUTS
        }

    def sizes(self) -> list[int]:
        return [len(self._read[output]) for output in OUTPUTS]

    def by_key(self, output: str) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = {}
        for key, value in self._read[output]:
            found.setdefault(key, []).append(value)
        return found

    def counted(self, output: str) -> Counter[tuple[str, str]]:
        return Counter((key, value.decode()) for key, value in self._read[output])


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_goes_on_with_the_state_an_earlier_version_has_left(
    earlier: tuple[Path, str], expected: Expected, name: str
) -> None:
    state, servers = earlier
    sizes = [
        sum(map(len, expected.results.values())),
        expected.counts.total(),
        expected.joined.total(),
        expected.enriched.total(),
    ]
    settings = {
        "application.id": name,
        "bootstrap.servers": servers,
        "state.dir": str(state),
        "processing.guarantee": APPLICATIONS[name],
        "commit.interval.ms": 100,
        **SETTINGS,
    }
    streams = KafkaStreams(topology_of(name), settings)
    with capture_logs() as logs:
        streams.start()
        try:

            def complete() -> bool:
                assert streams.error is None, streams.error
                return Outputs(servers, name).sizes() >= sizes

            wait_until(complete, "all results", told=lambda: str(Outputs(servers, name).sizes()))
            assert_stores_hold(streams, expected)
        finally:
            streams.close(DEADLINE_S)

    outputs = Outputs(servers, name)
    assert outputs.by_key("results") == {
        key: [value.encode() for value in values] for key, values in expected.results.items()
    }
    counted = {key: list(map(long, values)) for key, values in outputs.by_key("counts").items()}
    assert counted == {digit: list(range(1, n + 1)) for digit, n in expected.counts.items()}
    assert outputs.counted("joined") == expected.joined
    assert outputs.counted("enriched") == expected.enriched
    assert_only_memory_was_restored_from_the_beginning(name, logs)


def assert_stores_hold(streams: KafkaStreams, expected: Expected) -> None:
    def ask(query: Any, store: str, key: str | None = None) -> Any:
        """The keys of the input stand in partitions by their numbers."""
        partitions = None if key is None else [int(key[1:]) % PARTITIONS]
        level = IsolationLevel.READ_UNCOMMITTED
        return streams.query(
            query, store=store, partitions=partitions, isolation_level=level
        ).only_value()

    def windows_of(store: str, key: str) -> list[tuple[int, int]]:
        found = ask(WindowKeyQuery(key, LIVE_MS, BASE_MS * 2), store, key)
        return [(start, getattr(value, "value", value)) for start, value in found]

    for key, total in expected.totals.items():
        for store in ("plain", "memory", "through", "timestamped"):
            assert ask(KeyQuery(key), store) == total, store
        windows = sorted(
            (start, count)
            for (name, start), count in expected.windows.items()
            if name == key and start >= LIVE_MS
        )
        for store in ("window", "window-memory", "window-through", "window-timestamped"):
            assert windows_of(store, key) == windows, store
        duplicates = Counter(start for start, _ in windows_of("duplicates", key))
        assert duplicates == dict(windows)
        sessions = {
            (start, end): count
            for (name, start, end), count in expected.sessions.items()
            if name == key and end >= LIVE_MS
        }
        for store in ("session", "session-memory"):
            found = {
                (session.window.start, session.window.end): count
                for session, count in ask(WindowRangeQuery(key=key), store, key)
                if session.window.end >= LIVE_MS
            }
            assert found == sessions, store
        for time, count in expected.versions[key].items():
            for store in ("versioned", "versioned-memory"):
                found = ask(VersionedKeyQuery(key, time), store, key)
                assert found is not None, (store, key, time, count)
                assert found.value == count, (store, key, time)
    for partition in expected.newest:
        for key, lately in partition.items():
            assert ask(KeyQuery(key), "newest") == lately
    for digit, count in expected.counts.items():
        for store in ("counts", "cached", "counts-memory"):
            assert ask(KeyQuery(digit), store) == count, store


def assert_only_memory_was_restored_from_the_beginning(name: str, logs: list[Any]) -> None:
    """What the killed one had written through since its commit had not come to the disk."""
    restoring = [line for line in logs if line["event"] == "restoring"]
    assert any(line["task"] == "0_0" for line in restoring), "the log was not captured"
    from_the_beginning = {
        line["changelog"].removeprefix(f"{name}-").rpartition("-changelog-")[0]
        for line in restoring
        if line["from_offset"] == 0
    }
    assert from_the_beginning == IN_MEMORY
    assert not [line for line in logs if line["event"].startswith("state store is")]
    assert not [line for line in logs if line["log_level"] == "error"]
