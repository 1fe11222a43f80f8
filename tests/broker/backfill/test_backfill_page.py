"""The Python of docs/backfill.md, run from top to bottom against a real broker.

What the page calls by a name that others may have, or puts where nobody may write, is another here:
topics, applications, and directories.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pystreams.broker import DevelopmentBroker
from tests.backfill.in_process import Row
from tests.backfill.spark.on_spark import write_archive
from tests.broker.conftest import CreateTopic
from tests.broker.reading import long, produce, read_all
from tests.docs.blocks import ROOT, Block, examples_of

PRODUCTS = [b"tea", b"milk", b"tea", b"tea"]

pytestmark = pytest.mark.timeout(900)


class Shop:
    """The topics of a page, with orders in them, and what its Python knows."""

    def __init__(self, broker: DevelopmentBroker, topic: str, output: str, directory: Path) -> None:
        self.topic, self.output, self._directory = topic, output, directory
        self.name = f"{topic}-shop"
        self.names: dict[str, Any] = {
            "config": {
                "application.id": self.name,
                "bootstrap.servers": broker.bootstrap_servers,
                "statestore.cache.max.bytes": 0,
            }
        }
        records = [(b"customer", product) for product in PRODUCTS]
        produce(broker.bootstrap_servers, topic, records, timestamps_ms=[1000] * len(records))

    def here(self, blocks: Sequence[Block]) -> list[str]:
        """Return blocks of a page with the names and the directories of this shop."""
        return [
            block.text.replace('"orders"', f'"{self.topic}"')
            .replace('"sold"', f'"{self.output}"')
            .replace('"shop', f'"{self.name}')
            .replace('"/', f'"{self._directory}/')
            for block in blocks
        ]

    def run(self, block: str) -> None:
        exec(block, self.names)
        if "builder" in self.names:
            self.names["topology"] = self.names["builder"].build()


@pytest.fixture
def shop(broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path) -> Shop:
    return Shop(broker, create_topic("orders"), create_topic("sold"), tmp_path)


def test_the_python_of_the_page_of_backfills_gives_what_it_says(
    shop: Shop,
    spark: Any,
    broker: DevelopmentBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topology, published, from_archive = shop.here(examples_of(ROOT / "docs" / "backfill.md"))

    shop.run(topology)
    shop.run(published)
    outputs = read_all(broker.bootstrap_servers, shop.output)
    assert sorted((one.key(), long(one.value() or b"")) for one in outputs) == [
        (b"milk", 1),
        *[(b"tea", count) for count in (1, 2, 3)],
    ]
    assert list((tmp_path / "data/shop-results/outputs" / shop.output).rglob("*.parquet"))

    orders = ModuleType("orders")
    orders.builder = shop.names["builder"]  # type: ignore[attr-defined]  # what the page's file has
    monkeypatch.setitem(sys.modules, "orders", orders)
    rows = [
        Row(shop.topic, 0, number, 1000, b"k", product) for number, product in enumerate(PRODUCTS)
    ]
    write_archive(rows, tmp_path / "archive" / "orders")
    shop.run(from_archive)
    assert (tmp_path / "mnt" / "staging" / "shop" / "manifest.json").is_file()
