"""An application that counts words, and what the page shows of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pystreams import (
    KafkaStreams,
    State,
    StateRestoreListener,
    StreamsBuilder,
    Topology,
    serdes,
)
from pystreams.http.server import HttpOptions, HttpServer
from tests.broker.reading import produce
from tests.broker.waiting import wait_until
from tests.http.page.chromium import Chromium

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker


class Application:
    """An application that counts words, and may be started again, elsewhere on the disk as well."""

    def __init__(
        self, broker: DevelopmentBroker, name: str, topics: tuple[str, str], place: Path
    ) -> None:
        self._servers, self._name, self._place = broker.bootstrap_servers, name, place
        self.words, self.counts = topics

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        words = builder.stream(self.words, key_serde=serdes.STRING, value_serde=serdes.STRING)
        by_word = words.map_values(_refuse_poison).group_by(
            lambda _, word: word, key_serde=serdes.STRING, value_serde=serdes.STRING
        )
        counts = by_word.count(name="counts").to_stream()
        counts.to(self.counts, key_serde=serdes.STRING, value_serde=serdes.LONG)
        return builder.build()

    @contextlib.contextmanager
    def served(
        self,
        state: str = "first",
        listener: StateRestoreListener | None = None,
        token: str | None = None,
        level: str = "INFO",
        server: str = "",
    ) -> Iterator[tuple[KafkaStreams, str]]:
        config = {
            "application.id": self._name,
            "bootstrap.servers": self._servers,
            "state.dir": str(self._place / state),
            "commit.interval.ms": 200,
            "metrics.recording.level": level,
            "application.server": server,
        }
        streams = KafkaStreams(self.topology(), config)
        if listener is not None:
            streams.set_global_state_restore_listener(listener)
        with HttpServer(streams, HttpOptions(port=0, token=token)) as shown:
            streams.start()
            try:
                yield streams, shown.url
            finally:
                streams.close()

    def write(self, *words: str) -> None:
        produce(self._servers, self.words, [(b"k", word.encode()) for word in words])


class TwoStores(Application):
    """Counts some of the words once more, in a store of its own."""

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        words = builder.stream(self.words, key_serde=serdes.STRING, value_serde=serdes.STRING)
        for name, counted in (("counts", words), ("some", words.filter(_is_some))):
            by_word = counted.group_by(
                lambda _, word: word, key_serde=serdes.STRING, value_serde=serdes.STRING
            )
            by_word.count(name=name)
        return builder.build()

    def processed_of(self, words: int) -> int:
        """Return how many records are processed of words that are numbered from 0 on."""
        return 2 * words + sum(_is_some("", f"w{number}") for number in range(words))


def _is_some(_: str, word: str) -> bool:
    return word[-1] in "01234567"


def _refuse_poison(word: str) -> str:
    if word == "poison":
        raise ValueError("this word can't be counted")
    return word


def value_of(streams: KafkaStreams, name: str) -> float:
    """Return the sum of a metric over all that it is measured on."""
    values = [value for key, value in streams.metrics().items() if key.name == name]
    return sum(value for value in values if not isinstance(value, str))


def rows_of(chromium: Chromium, section: str) -> list[list[str]]:
    """Return the cells of a table."""
    found: list[list[str]] = chromium.evaluate(
        f"[...document.querySelectorAll('{section} tbody tr')].map(row => "
        "[...row.cells].map(cell => cell.innerText))"
    )
    return found


def processed_all(streams: KafkaStreams, number: int) -> None:
    wait_until(
        lambda: (
            streams.state is State.RUNNING
            and streams.statistics().processed_records >= number
            and streams.statistics().lag_records == 0
        ),
        "all is processed",
    )
