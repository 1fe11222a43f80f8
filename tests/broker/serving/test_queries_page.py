"""The examples of docs/queries.md, run from top to bottom against a real broker."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

from pystreams import KeyQuery, PositionBound
from pystreams.broker import DevelopmentBroker
from tests.broker.conftest import CreateTopic
from tests.broker.serving.test_queries import Feed, wait_for
from tests.broker.waiting import DEADLINE_S
from tests.docs.blocks import ROOT, examples_of


def test_the_examples_print_what_the_page_says(
    broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("orders")
    blocks = examples_of(ROOT / "docs" / "queries.md")
    assert {block.language for block in blocks[1:]} == {"pycon"}
    program, *shown = (
        block.text.replace('"orders"', f'"{topic}"').replace("orders-0", f"{topic}-0")
        for block in blocks
    )
    feed = Feed(broker, topic)
    for customer in ("alice", "bob", "alice"):
        feed.write(customer)
    names: dict[str, Any] = {
        "settings": {
            "application.id": f"{topic}-app",
            "bootstrap.servers": broker.bootstrap_servers,
            "state.dir": str(tmp_path),
            "processing.guarantee": "exactly_once_v2",
        }
    }
    exec(program, names)
    streams = names["streams"]
    bound = PositionBound.at(feed.position)

    def counted() -> bool:
        asked = streams.query(KeyQuery("alice"), store="order-counts", position_bound=bound)
        return [result.is_success for result in asked.partition_results.values()] == [True]

    try:
        wait_for(streams, counted)
        printed: list[str] = []
        typed = "\n".join(shown)
        examples = doctest.DocTestParser().get_doctest(typed, names, "queries.md", None, 0)
        results = doctest.DocTestRunner().run(examples, out=printed.append)
    finally:
        streams.close(DEADLINE_S)

    assert not results.failed, "".join(printed)
    assert results.attempted > 10
