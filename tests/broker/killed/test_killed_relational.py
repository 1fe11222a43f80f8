"""SIGKILL at seeded random moments over articles and comments: two members, one of them killed.

Upstream's streams_relational_smoke_test, and more than it asks: articles and comments change and
go, comments move to other articles, and every result on the way is of rows that there were.

`pytest -m sweep tests/broker/killed` kills 20 times, at moments of a new seed each time. The seed
is printed; `KILL_SEED=... pytest ...` draws the same moments again.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application
from tests.broker.exactly_once.killing import moments, seeded_draws
from tests.broker.killed import relational_app
from tests.broker.killed.relational_app import PREFIX_CHARACTERS, TOPICS
from tests.broker.reading import create_topics, high_watermarks, read_all, reader_of
from tests.broker.waiting import wait_until
from tests.broker.writing import Feed, Writer

KILLS = 2
ARTICLES = 60
COMMENTS = 400
CHANGES_PER_S = 400
BATCH_EVERY_S = 0.02
CI_SEED = 37
ALL_READ_S = 300.0

Rows = dict[int, dict[str, Any]]


class Readers(Feed):
    """People who write articles and comments, change them and delete some, until the block ends.

    Attributes:
        articles: The articles that there are.
        comments: The comments that there are.
        texts: Each text that an article has ever had.
        written: Each article and text that a comment has ever had.
        changes: How many there were.
    """

    def __init__(self, servers: str, name: str, seed: int) -> None:
        self.articles: Rows = {}
        self.comments: Rows = {}
        self.texts: dict[int, set[str]] = {}
        self.written: dict[int, set[tuple[int, str]]] = {}
        self.changes = 0
        self._name = name
        self._draw = random.Random(seed)
        writer = Writer(servers, {"partitioner": "murmur2_random"})
        super().__init__(writer, batch_every_s=BATCH_EVERY_S)

    def augmented(self) -> dict[str, Rows]:
        """Return the rows that the application is to end with."""
        counts = Counter(comment["article"] for comment in self.comments.values())
        return {
            "augmented-article": {
                key: {"text": article["text"], "comments": counts[key]}
                for key, article in self.articles.items()
            },
            "augmented-comment": {
                key: {**comment, "prefix": article["text"][:PREFIX_CHARACTERS]}
                for key, comment in self.comments.items()
                if (article := self.articles.get(comment["article"])) is not None
            },
        }

    def write_batch(self) -> None:
        for _ in range(round(CHANGES_PER_S * BATCH_EVERY_S)):
            self._change()

    def _change(self) -> None:
        draw = self._draw
        goes, text = draw.random() < 0.1, f"{draw.getrandbits(64):016x}"
        if draw.random() < 0.1:
            key, article = draw.randrange(ARTICLES), {"text": text}
            self.texts.setdefault(key, set()).add(text)
            self._produce("article", self.articles, key, None if goes else article)
        else:
            key = draw.randrange(COMMENTS)
            article_key = draw.randrange(ARTICLES)
            comment = {"article": article_key, "text": text}
            self.written.setdefault(key, set()).add((article_key, text))
            self._produce("comment", self.comments, key, None if goes else comment)

    def _produce(self, topic: str, rows: Rows, key: int, row: dict[str, Any] | None) -> None:
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row
        value = None if row is None else orjson.dumps(row)
        self._writer.write(f"{self._name}-{topic}", value, key.to_bytes(4, "big"))
        self.changes += 1


@dataclass(frozen=True)
class Arena:
    """One application with topics and a directory of its own."""

    name: str
    servers: str
    directory: Path

    def application(self, guarantee: str) -> Application:
        settings: dict[str, object] = {
            "bootstrap.servers": self.servers,
            "commit.interval.ms": 100,
            "consumer.session.timeout.ms": 3000,
            "processing.guarantee": guarantee,
        }
        environment = {"KILLED_NAME": self.name}
        file = Path(f"{relational_app.__file__}")
        return Application(self.name, self.directory, file, settings, environment)

    def written(self) -> int:
        """Return how many comments were told, committed or not."""
        with reader_of(self.servers) as consumer:
            return sum(high_watermarks(consumer, f"{self.name}-augmented-comment").values())

    def results(self, topic: str) -> list[tuple[int, dict[str, Any] | None]]:
        """Return what a read_committed reader gets."""
        return [
            (
                int.from_bytes(message.key() or b"", "big"),
                None if value is None else orjson.loads(value),
            )
            for message in read_all(self.servers, f"{self.name}-{topic}")
            for value in (message.value(),)
        ]

    def rows(self) -> dict[str, Rows]:
        """Return the rows that a read_committed reader is left with."""
        return {
            topic: {key: row for key, row in dict(self.results(topic)).items() if row is not None}
            for topic in ("augmented-article", "augmented-comment")
        }


@pytest.fixture
def arena(broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path) -> Arena:
    topics = [
        NewTopic(f"{unique_name}-{topic}", num_partitions=partitions)
        for topic, partitions in TOPICS.items()
    ]
    create_topics(admin, topics)
    return Arena(unique_name, broker.bootstrap_servers, tmp_path)


many = [pytest.mark.sweep, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("guarantee", "kills"),
    [
        pytest.param("exactly_once_v2", KILLS, id="v2-few"),
        pytest.param("exactly_once", 20, id="v1", marks=many),
        pytest.param("exactly_once_v2", 20, id="v2", marks=many),
    ],
)
def test_articles_and_comments_are_told_as_they_are_however_often_a_member_is_killed(
    arena: Arena, guarantee: str, kills: int
) -> None:
    began = time.monotonic()
    draw = seeded_draws(CI_SEED if kills == KILLS else None)
    with arena.application(guarantee) as application:
        with Readers(arena.servers, arena.name, draw.getrandbits(32)) as readers:
            members = [application.start(), application.start()]
            for moment in moments(kills, draw):
                print(moment)
                moment.wait(members[-1], arena.written)
                members.pop(draw.randrange(len(members))).kill()
                members.append(application.start())
        wanted = readers.augmented()
        wait_until(
            lambda: arena.rows() == wanted,
            "each article and comment as it is",
            deadline_s=ALL_READ_S,
            told=lambda: "\n".join(
                [different(arena.rows(), wanted), *(member.tail() for member in members)]
            ),
        )
        for member in members:
            member.stop()

    assert arena.rows() == wanted
    checked = check_articles(arena, readers) + check_comments(arena, readers)
    print(
        f"{kills} kills, {readers.changes} changes, {sum(map(len, wanted.values()))} rows, "
        f"{checked} results checked: {time.monotonic() - began:.1f} s"
    )


def different(told: dict[str, Rows], wanted: dict[str, Rows]) -> str:
    """Name the rows that are not as they are to be."""
    return "\n".join(
        f"{topic} {key}: {told[topic].get(key)} is told, {rows.get(key)} is wanted"
        for topic, rows in wanted.items()
        for key in sorted({*rows, *told[topic]})
        if told[topic].get(key) != rows.get(key)
    )


def check_articles(arena: Arena, readers: Readers) -> int:
    """See that each result is of a text and a number of comments that there can have been."""
    named = Counter(
        article for written in readers.written.values() for article in {a for a, _ in written}
    )
    results = arena.results("augmented-article")
    for key, row in results:
        if row is not None:
            assert row["text"] in readers.texts[key]
            assert 0 <= row["comments"] <= named[key]
    return len(results)


def check_comments(arena: Arena, readers: Readers) -> int:
    """See that each result is of a comment and an article that there were."""
    prefixes = {
        key: {text[:PREFIX_CHARACTERS] for text in texts} for key, texts in readers.texts.items()
    }
    results = arena.results("augmented-comment")
    for key, row in results:
        if row is not None:
            assert (row["article"], row["text"]) in readers.written[key]
            assert row["prefix"] in prefixes[row["article"]]
    return len(results)
